from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.core import codec
from flowfabric.core.contracts import (
    CancelExecutionArgs,
    CancelSource,
    ChangePriorityArgs,
    CompleteExecutionArgs,
    CreateExecutionArgs,
    CreateExecutionResult,
    DelayExecutionArgs,
    ExecutionCreated,
    ExecutionDuplicate,
    ExpireExecutionArgs,
    ExpireExecutionResult,
    ExpireReason,
    FailExecutionArgs,
    FailExecutionResult,
    LeaseFence,
    NotDue,
    RetryScheduled,
    SetExecutionTagsArgs,
    TerminalFailed,
    UpdateProgressArgs,
)
from flowfabric.core.ids import AttemptId, ExecutionId, FlowId, LaneId, LeaseId, Namespace
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.policy import ExecutionPolicy, RetryPolicy
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput, InvalidPolicy

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
FENCE = LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())


def create(**changes: Any) -> CreateExecutionArgs:
    members: dict[str, Any] = {
        "execution_id": EXECUTION,
        "namespace": Namespace("test"),
        "lane_id": LaneId("default"),
        "execution_kind": "llm_call",
    }
    return CreateExecutionArgs(**members | changes)


def fail(**changes: Any) -> FailExecutionArgs:
    members: dict[str, Any] = {
        "execution_id": EXECUTION,
        "fence": FENCE,
        "failure_reason": "boom",
        "failure_category": "transient",
    }
    return FailExecutionArgs(**members | changes)


def test_everything_a_submitter_can_say_survives_json() -> None:
    args = create(
        input_payload=b"\x00\xffhello",
        payload_encoding="json",
        priority=9000,
        creator_identity="test-user",
        idempotency_key="once",
        tags={"team.b": "2", "team.a": "1"},
        policy=ExecutionPolicy(retry_policy=RetryPolicy(max_retries=1)),
        delay_until=1_700_000_000_000,
        execution_deadline_at=1_800_000_000_000,
    )
    assert codec.from_json(CreateExecutionArgs, codec.to_json(args)) == args


def test_only_the_essentials_are_needed() -> None:
    args = create()
    assert (args.priority, args.input_payload, args.tags, args.policy) == (0, b"", {}, None)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("execution_id", "nope", "{fp:N}"),
        ("namespace", "", "1 to 256"),
        ("lane_id", "x" * 65, "1 to 64"),
        ("execution_kind", "", "1 to 128"),
        ("execution_kind", "x" * 129, "1 to 128"),
        ("execution_kind", "a\nb", "control"),
        ("input_payload", "text", "must be bytes"),
        ("payload_encoding", "", "1 to 64"),
        ("priority", -1, "0 to 9000"),
        ("priority", 9001, "0 to 9000"),
        ("priority", 1.0, "whole number"),
        ("creator_identity", "x" * 257, "0 to 256"),
        ("idempotency_key", "", "1 to 256"),
        ("idempotency_key", "x" * 257, "1 to 256"),
        ("tags", {"": "x"}, "1 to 128 bytes"),
        ("policy", {}, "ExecutionPolicy"),
        ("delay_until", -1, "0 to 9999999999999"),
        ("delay_until", 10_000_000_000_000, "0 to 9999999999999"),
        ("execution_deadline_at", "soon", "whole number"),
    ],
)
def test_a_submission_is_refused_by_field(name: str, value: object, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        create(**{name: value})
    assert caught.value.field == name
    assert problem in caught.value.message


def test_a_payload_over_the_limit_has_its_own_code_and_is_not_quoted_in_full() -> None:
    assert create(input_payload=b"x" * 1_048_576)
    with pytest.raises(InvalidInput) as caught:
        create(input_payload=b"x" * 1_048_577)
    assert caught.value.code == "payload_too_large"
    assert len(caught.value.message) < 200


def test_a_policy_that_contradicts_the_arguments_is_refused_with_both_values() -> None:
    with pytest.raises(InvalidInput) as caught:
        create(priority=1, policy=ExecutionPolicy(priority=2))
    assert caught.value.message == "priority: contradicts policy.priority, which is 2 (got 1)"
    with pytest.raises(InvalidInput) as caught:
        create(delay_until=5, policy=ExecutionPolicy(delay_until=6))
    assert caught.value.message == "delay_until: contradicts policy.delay_until, which is 6 (got 5)"


def test_a_policy_may_repeat_the_arguments() -> None:
    args = create(priority=2, delay_until=6, policy=ExecutionPolicy(priority=2, delay_until=6))
    assert args.effective_delay_until == 6


@pytest.mark.parametrize(
    ("argument", "in_policy", "effective"), [(None, None, None), (5, None, 5), (None, 6, 6), (0, None, 0)]
)
def test_the_delay_counts_wherever_it_was_given(
    argument: int | None, in_policy: int | None, effective: int | None
) -> None:
    args = create(delay_until=argument, policy=ExecutionPolicy(delay_until=in_policy))
    assert args.effective_delay_until == effective


def test_a_bad_policy_inside_a_submission_is_still_an_invalid_policy() -> None:
    body = json.loads(codec.to_json(create())) | {"policy": {"retry_policy": {"max_retries": -1}}}
    with pytest.raises(InvalidPolicy) as caught:
        codec.from_json(CreateExecutionArgs, json.dumps(body))
    assert caught.value.field == "retry_policy.max_retries"


def test_a_bad_submission_over_json_is_refused_by_field() -> None:
    body = json.loads(codec.to_json(create()))
    for name, value in (("priority", 9001), ("execution_kind", ""), ("tags", {"": "y"}), ("lane_id", "")):
        with pytest.raises(InvalidInput) as caught:
            codec.from_json(CreateExecutionArgs, json.dumps(body | {name: value}))
        assert caught.value.field == name


def test_created_and_duplicate_are_different_answers() -> None:
    for result in (
        ExecutionCreated(execution_id=EXECUTION, public_state=PublicState.WAITING),
        ExecutionDuplicate(execution_id=EXECUTION),
    ):
        assert codec.from_json(CreateExecutionResult, codec.to_json(result)) == result


def test_a_call_comes_from_the_lease_holder_unless_it_says_otherwise() -> None:
    assert CompleteExecutionArgs(execution_id=EXECUTION, fence=FENCE).source is CancelSource.LEASE_HOLDER
    args = CancelExecutionArgs(execution_id=EXECUTION, reason="stop", source="operator_override")  # type: ignore[arg-type]
    assert args.source is CancelSource.OPERATOR_OVERRIDE
    with pytest.raises(InvalidInput, match="one of lease_holder, operator_override, flow_cascade, system_timeout"):
        CancelExecutionArgs(execution_id=EXECUTION, reason="stop", source="worker")  # type: ignore[arg-type]


def test_reasons_are_bounded_in_bytes() -> None:
    assert CancelExecutionArgs(execution_id=EXECUTION, reason="ä" * 2048)
    with pytest.raises(InvalidInput, match="0 to 4096 bytes") as caught:
        CancelExecutionArgs(execution_id=EXECUTION, reason="ä" * 2049)
    assert caught.value.field == "reason"
    assert fail(failure_reason="line 1\nline 2").failure_reason == "line 1\nline 2"


def test_without_a_retry_policy_the_stored_one_decides() -> None:
    assert fail().retry_policy_json is None
    assert fail(retry_policy_json="").retry_policy_json == ""


def test_a_retry_policy_is_sent_in_full_whatever_the_caller_left_out() -> None:
    args = fail(retry_policy_json="{}")
    assert args.retry_policy_json is not None
    assert json.loads(args.retry_policy_json) == {"max_retries": 3, "backoff": {"type": "exponential"}}


@pytest.mark.parametrize("text", ["null", "[]", "{", '{"max_retries":-1}', '{"retries":1}'])
def test_a_malformed_retry_policy_is_refused_and_does_not_mean_no_retry(text: str) -> None:
    with pytest.raises(InvalidPolicy):
        fail(retry_policy_json=text)


def test_the_policy_of_the_next_attempt_is_a_json_object() -> None:
    assert fail(next_attempt_policy_json='{"model":"small"}')
    for text in ("[]", "{", "x", "1"):
        with pytest.raises(InvalidPolicy) as caught:
            fail(next_attempt_policy_json=text)
        assert caught.value.field == "next_attempt_policy_json"


@pytest.mark.parametrize("value", [-1, 31_536_000_001, 0.5])
def test_a_requested_delay_is_bounded(value: object) -> None:
    assert fail(retry_delay_ms=0).retry_delay_ms == 0
    with pytest.raises(InvalidInput) as caught:
        fail(retry_delay_ms=value)
    assert caught.value.field == "retry_delay_ms"


def test_a_failure_needs_a_category() -> None:
    with pytest.raises(InvalidInput, match="failure_category"):
        fail(failure_category="")


@pytest.mark.parametrize("result", [RetryScheduled(delay_until=5, next_attempt_index=1), TerminalFailed()])
def test_a_failure_ends_in_a_retry_or_for_good(result: FailExecutionResult) -> None:
    assert codec.from_json(FailExecutionResult, codec.to_json(result)) == result


def test_a_timeout_may_turn_out_to_be_a_retry_or_not_due() -> None:
    for result in (RetryScheduled(delay_until=5), NotDue()):
        assert codec.from_json(ExpireExecutionResult, codec.to_json(result)) == result


def test_there_are_two_reasons_to_expire() -> None:
    assert ExpireExecutionArgs(execution_id=EXECUTION).expire_reason is ExpireReason.ATTEMPT_TIMEOUT
    with pytest.raises(InvalidInput, match="one of attempt_timeout, execution_deadline"):
        ExpireExecutionArgs(execution_id=EXECUTION, expire_reason="bored")  # type: ignore[arg-type]


@pytest.mark.parametrize("priority", [-1, 9001, True, "5"])
def test_a_new_priority_obeys_the_same_bounds(priority: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        ChangePriorityArgs(execution_id=EXECUTION, new_priority=priority)
    assert caught.value.field == "new_priority"


@pytest.mark.parametrize(
    ("name", "value"),
    [("progress_pct", 101), ("progress_pct", -1), ("progress_message", ""), ("progress_message", "x" * 1025)],
)
def test_progress_is_bounded(name: str, value: Any) -> None:
    assert UpdateProgressArgs(execution_id=EXECUTION, fence=FENCE, progress_pct=100)
    with pytest.raises(InvalidInput) as caught:
        UpdateProgressArgs(execution_id=EXECUTION, fence=FENCE, **{name: value})
    assert caught.value.field == name


def test_progress_needs_a_fence() -> None:
    with pytest.raises(InvalidInput, match="fence: must be LeaseFence"):
        UpdateProgressArgs(execution_id=EXECUTION, fence=None)  # type: ignore[arg-type]


def test_a_delay_is_an_absolute_time() -> None:
    with pytest.raises(InvalidInput, match="delay_until"):
        DelayExecutionArgs(execution_id=EXECUTION, fence=FENCE, delay_until=-1)


def test_setting_no_tags_is_a_mistake() -> None:
    with pytest.raises(InvalidInput, match="at least one tag"):
        SetExecutionTagsArgs(execution_id=EXECUTION, tags={})
    assert list(SetExecutionTagsArgs(execution_id=EXECUTION, tags={"b.x": "", "a.x": ""}).tags) == [
        "a.x",
        "b.x",
    ]

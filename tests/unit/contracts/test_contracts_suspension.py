from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from flowfabric.core import codec, limits
from flowfabric.core.conditions import (
    AllOf,
    ByName,
    Count,
    CountKind,
    InvalidCondition,
    OperatorOnly,
    SignalSet,
    Single,
    TimeoutOnly,
    all_of_waitpoints,
)
from flowfabric.core.contracts import (
    CloseWaitpointArgs,
    CreatePendingWaitpointArgs,
    ExecutionSuspended,
    ExpireSuspensionResult,
    FreshWaitpoint,
    IssuedWaitpoint,
    LeaseFence,
    ListPendingWaitpointsArgs,
    ListPendingWaitpointsPage,
    ListSuspendedArgs,
    ListSuspendedPage,
    PendingWaitpoint,
    PendingWaitpointInfo,
    ResumeExecutionArgs,
    ResumePolicy,
    ResumeTrigger,
    SuspendedExecutionEntry,
    SuspendExecutionArgs,
    SuspendExecutionResult,
    SuspensionAlreadySatisfied,
    SuspensionExpired,
    SuspensionReasonCode,
    SuspensionRequester,
    WaitpointState,
)
from flowfabric.core.contracts.execution import CancelSource
from flowfabric.core.ids import (
    AttemptId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseId,
    SuspensionId,
    WaitpointId,
    WaitpointKey,
    WaitpointToken,
)
from flowfabric.core.lease_handle import BackendTag, Handle, HandleKind
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
FENCE = LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())
A, B = FreshWaitpoint.new("a"), FreshWaitpoint.new("b")
TOKEN = WaitpointToken("k1:" + "ab" * 32)


def suspend(**changes: Any) -> SuspendExecutionArgs:
    members: dict[str, Any] = {
        "execution_id": EXECUTION,
        "fence": FENCE,
        "attempt_index": 0,
        "suspension_id": SuspensionId.new(),
        "waitpoints": [A],
        "resume_condition": Single(WaitpointKey("a"), ByName("approved")),
    }
    return SuspendExecutionArgs(**members | changes)


def test_a_worker_waits_for_a_signal_unless_it_says_more() -> None:
    args = suspend()
    assert args.primary is A
    assert (args.reason_code, args.requested_by) == ("waiting_for_signal", "worker")
    assert (args.timeout_behavior, args.has_timeout, args.idempotency_key) == ("fail", False, None)
    assert args.resume_policy == ResumePolicy()


def test_everything_about_a_suspension_survives_json() -> None:
    args = suspend(
        waitpoints=[A, B, PendingWaitpoint(waitpoint_id=WaitpointId.new(), waitpoint_key=WaitpointKey("c"))],
        resume_condition=AllOf((Count(2, CountKind.DISTINCT_SOURCES, ("a", "b")), Single("c"))),
        resume_policy=ResumePolicy(resume_delay_ms=5),
        reason_code="waiting_for_approval",
        requested_by="policy",
        timeout_ms=1000,
        timeout_behavior="escalate",
        continuation_metadata_pointer="s3://bucket/state",
        idempotency_key="once",
        dedup_ttl_ms=60_000,
    )
    back = codec.from_json(SuspendExecutionArgs, codec.to_json(args))
    assert back == args
    assert isinstance(back.waitpoints[2], PendingWaitpoint)
    assert back.reason_code is SuspensionReasonCode.WAITING_FOR_APPROVAL
    assert back.requested_by is SuspensionRequester.POLICY
    assert back.timeout_behavior is TimeoutBehavior.ESCALATE


def test_the_form_of_0_2_0_can_be_said() -> None:
    args = suspend(resume_condition=SignalSet(("a", "b"), minimum_signal_count=2), timeout_behavior="auto_resume")
    stored = json.loads(args.resume_condition_json)
    assert stored["required_signal_names"] == ["a", "b"]
    assert stored["minimum_signal_count"] == 2
    assert stored["timeout_behavior"] == "auto_resume"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"fence": None}, "fence"),
        ({"waitpoints": []}, "waitpoints"),
        ({"waitpoints": "ab"}, "waitpoints"),
        ({"waitpoints": [A, "b"]}, "waitpoints[1]"),
        ({"waitpoints": [A, A]}, "waitpoints"),
        ({"waitpoints": [A, FreshWaitpoint.new("a")]}, "waitpoints"),
        ({"waitpoints": [B]}, "waitpoints"),
        ({"waitpoints": [A, B]}, "waitpoints"),
        ({"resume_condition": "approved"}, "resume_condition"),
        ({"reason_code": "tired"}, "reason_code"),
        ({"requested_by": "nobody"}, "requested_by"),
        ({"timeout_behavior": "explode"}, "timeout_behavior"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_at": 10**13}, "timeout_at"),
        ({"timeout_at": 10**12, "timeout_ms": 1}, "timeout_ms"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"continuation_metadata_pointer": "x" * 1025}, "continuation_metadata_pointer"),
    ],
)
def test_a_suspension_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        suspend(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize("condition", [TimeoutOnly(), AllOf((Single(WaitpointKey("a")), TimeoutOnly()))])
def test_waiting_for_a_timeout_needs_one(condition: Any) -> None:
    assert suspend(resume_condition=condition, timeout_ms=1).has_timeout
    assert suspend(resume_condition=condition, timeout_at=1_700_000_000_000).has_timeout
    with pytest.raises(InvalidInput, match="TimeoutOnly") as caught:
        suspend(resume_condition=condition)
    assert caught.value.field == "timeout_ms"


@pytest.mark.parametrize("condition", [OperatorOnly(), SignalSet(), Single(WaitpointKey("a"))])
def test_a_condition_without_a_tree_has_one_waitpoint(condition: Any) -> None:
    assert suspend(resume_condition=condition).waitpoints == (A,)
    with pytest.raises(InvalidInput, match=f"one waitpoint with the condition {type(condition).__name__}"):
        suspend(resume_condition=condition, waitpoints=[A, B])


def test_the_waitpoints_are_those_that_the_condition_names() -> None:
    both = all_of_waitpoints(["a", "b"])
    assert suspend(resume_condition=both, waitpoints=[B, A]).primary is B
    for waitpoints in ([A], [A, B, FreshWaitpoint.new("c")], [A, FreshWaitpoint.new("c")]):
        with pytest.raises(InvalidInput, match="keys that the condition names: a, b"):
            suspend(resume_condition=both, waitpoints=waitpoints)


def test_the_store_checks_the_key_of_a_pending_waitpoint_that_the_caller_does_not_name() -> None:
    pending = PendingWaitpoint(waitpoint_id=WaitpointId.new())
    assert suspend(waitpoints=[pending]).primary is pending
    named = PendingWaitpoint(waitpoint_id=WaitpointId.new(), waitpoint_key=WaitpointKey("z"))
    with pytest.raises(InvalidInput, match="keys that the condition names: a"):
        suspend(waitpoints=[named])


def test_there_is_a_maximum_number_of_waitpoints_and_a_maximum_size() -> None:
    fresh = [FreshWaitpoint.new() for _ in range(limits.MAX_SUSPENSION_WAITPOINTS + 1)]
    with pytest.raises(InvalidInput, match="at most 32 waitpoints"):
        suspend(waitpoints=fresh)
    long = tuple(WaitpointKey(f"{n:0255d}") for n in range(limits.MAX_SUSPENSION_WAITPOINTS))
    counts = tuple(Count(n, CountKind.DISTINCT_SIGNALS, long) for n in range(1, 10))
    with pytest.raises(InvalidCondition, match="at most 65536 bytes"):
        suspend(resume_condition=AllOf(counts), waitpoints=[FreshWaitpoint.new(key) for key in long])


def test_a_fresh_waitpoint_is_named_after_its_id() -> None:
    fresh = FreshWaitpoint.new()
    assert fresh.waitpoint_key == f"wpk:{fresh.waitpoint_id}"


def test_the_resume_policy_is_stored_without_nulls() -> None:
    assert json.loads(ResumePolicy().to_json()) == {
        "resume_target": "runnable",
        "consume_matched_signals": True,
        "retain_signal_buffer_until_closed": False,
        "close_waitpoint_on_resume": True,
    }
    assert json.loads(ResumePolicy(resume_delay_ms=0).to_json())["resume_delay_ms"] == 0


def test_a_resume_always_closes_its_waitpoints() -> None:
    with pytest.raises(InvalidInput, match="close_waitpoint_on_resume: must be true"):
        ResumePolicy(close_waitpoint_on_resume=False)


def outcome(kind: Any, **more: Any) -> Any:
    other = IssuedWaitpoint(waitpoint_id=B.waitpoint_id, waitpoint_key=B.waitpoint_key, waitpoint_token=TOKEN)
    return kind(
        suspension_id=SuspensionId.new(),
        waitpoint_id=A.waitpoint_id,
        waitpoint_key=A.waitpoint_key,
        waitpoint_token=TOKEN,
        additional_waitpoints=(other,),
        **more,
    )


def test_a_suspended_owner_gets_a_new_handle_and_a_satisfied_one_keeps_its_own() -> None:
    handle = Handle(BackendTag.VALKEY, HandleKind.SUSPENDED, b"\x02\x01\x01")
    suspended = outcome(ExecutionSuspended, handle=handle)
    satisfied = outcome(SuspensionAlreadySatisfied)
    for result in (suspended, satisfied):
        assert codec.from_json(SuspendExecutionResult, codec.to_json(result)) == result
        assert [each.waitpoint_key for each in result.waitpoints] == ["a", "b"]
    assert "handle" not in satisfied.__struct_fields__


def test_a_token_is_not_printed_with_its_outcome() -> None:
    assert "abab" not in repr(outcome(SuspensionAlreadySatisfied))


def test_a_resume_by_hand_is_an_operators() -> None:
    args = ResumeExecutionArgs(execution_id=EXECUTION)
    assert (args.trigger_type, args.resume_delay_ms) == (ResumeTrigger.OPERATOR, 0)
    with pytest.raises(InvalidInput, match="one of signal, operator, auto_resume"):
        ResumeExecutionArgs(execution_id=EXECUTION, trigger_type="whim")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="resume_delay_ms"):
        ResumeExecutionArgs(execution_id=EXECUTION, resume_delay_ms=-1)


@pytest.mark.parametrize("behavior", TimeoutBehavior)
def test_an_expired_suspension_says_what_was_done(behavior: TimeoutBehavior) -> None:
    result = SuspensionExpired(behavior_applied=behavior, public_state=PublicState.WAITING)
    assert codec.from_json(ExpireSuspensionResult, codec.to_json(result)) == result


@pytest.mark.parametrize("expires_in_ms", [0, -1, limits.MAX_DURATION_MS + 1, 1.5])
def test_a_pending_waitpoint_lives_for_a_while(expires_in_ms: Any) -> None:
    members: dict[str, Any] = {
        "execution_id": EXECUTION,
        "fence": FENCE,
        "attempt_index": 0,
        "waitpoint_id": WaitpointId.new(),
        "waitpoint_key": "approval",
    }
    assert CreatePendingWaitpointArgs(**members, expires_in_ms=1).waitpoint_key == WaitpointKey("approval")
    with pytest.raises(InvalidInput) as caught:
        CreatePendingWaitpointArgs(**members, expires_in_ms=expires_in_ms)
    assert caught.value.field == "expires_in_ms"


def test_closing_is_in_the_owners_name_unless_an_operator_says_so() -> None:
    args = CloseWaitpointArgs(execution_id=EXECUTION, waitpoint_id=WaitpointId.new())
    assert (args.reason, args.source) == ("proactive_close", CancelSource.LEASE_HOLDER)


def test_a_list_of_waitpoints_tells_the_kid_and_never_the_token() -> None:
    assert not any(field.type is WaitpointToken for field in msgspec.structs.fields(PendingWaitpointInfo))
    info = PendingWaitpointInfo(
        waitpoint_id=WaitpointId.new(),
        waitpoint_key=WaitpointKey("a"),
        execution_id=EXECUTION,
        state=WaitpointState.ACTIVE,
        created_at=1,
        token_kid="k1",
        token_fingerprint="0123456789abcdef",
    )
    page = ListPendingWaitpointsPage(entries=(info,), next_cursor=info.waitpoint_id)
    assert codec.from_json(ListPendingWaitpointsPage, codec.to_json(page)) == page


@pytest.mark.parametrize("limit", [0, 1001, None])
def test_lists_are_capped(limit: Any) -> None:
    for build in (
        lambda: ListSuspendedArgs(limit=limit),
        lambda: ListPendingWaitpointsArgs(execution_id=EXECUTION, limit=limit),
    ):
        with pytest.raises(InvalidInput, match="limit"):
            build()
    assert ListSuspendedArgs().limit == ListPendingWaitpointsArgs(execution_id=EXECUTION).limit == 100


def test_an_entry_without_a_timeout_says_so() -> None:
    entry = SuspendedExecutionEntry(
        execution_id=EXECUTION,
        lane_id=LaneId("default"),
        suspension_id=SuspensionId.new(),
        reason="bespoke",
        suspended_at=1,
    )
    page = ListSuspendedPage(entries=(entry,))
    assert codec.from_json(ListSuspendedPage, codec.to_json(page)) == page
    assert (entry.timeout_at, entry.timeout_behavior) == (None, None)

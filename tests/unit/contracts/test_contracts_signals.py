from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import codec, limits
from flowfabric.core.conditions import RESERVED_SIGNAL_NAMES
from flowfabric.core.contracts import (
    BufferSignalArgs,
    DeliverSignalArgs,
    ListResumeSignalsArgs,
    ListResumeSignalsPage,
    ResumeSignal,
    ResumeTriggered,
    SignalAccepted,
    SignalDuplicate,
    SignalEffect,
    SignalExecutionArgs,
    SignalOutcome,
    SignalScope,
)
from flowfabric.core.ids import ExecutionId, FlowId, SignalId, SuspensionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import InvalidInput

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
TOKEN = "k1:" + "ab" * 32


def members(**changes: Any) -> dict[str, Any]:
    return {
        "execution_id": EXECUTION,
        "waitpoint_id": WaitpointId.new(),
        "waitpoint_token": TOKEN,
        "signal_id": SignalId.new(),
        "signal_name": "approved",
    } | changes


def test_a_signal_needs_a_name_and_a_token_only() -> None:
    args = DeliverSignalArgs(**members())
    assert type(args.waitpoint_token) is WaitpointToken
    assert args.target_scope is SignalScope.WAITPOINT
    assert (args.payload, args.idempotency_key, args.created_at, args.resume_delay_ms) == (None, None, None, None)


def test_a_payload_of_any_bytes_survives_json() -> None:
    args = DeliverSignalArgs(**members(payload=b"\x00\xff", payload_encoding="msgpack", correlation_id="c-1"))
    assert codec.from_json(DeliverSignalArgs, codec.to_json(args)) == args


def test_a_delivery_is_a_signal_that_may_have_to_be_buffered() -> None:
    assert isinstance(DeliverSignalArgs(**members()), BufferSignalArgs)
    assert set(BufferSignalArgs.__struct_fields__) < set(DeliverSignalArgs.__struct_fields__)


@pytest.mark.parametrize("text", ["", "nonsense", "k1:"])
def test_a_wrong_token_is_the_stores_to_refuse(text: str) -> None:
    assert DeliverSignalArgs(**members(waitpoint_token=text)).waitpoint_token.reveal() == text


def test_a_token_is_not_printed_with_its_signal() -> None:
    assert "abab" not in repr(DeliverSignalArgs(**members()))
    with pytest.raises(InvalidInput) as caught:
        DeliverSignalArgs(**members(waitpoint_token="secret" * 100))
    assert "secretsecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("signal_name", "", "invalid_input"),
        ("signal_name", "x" * 129, "invalid_input"),
        ("signal_name", "a\nb", "invalid_input"),
        ("signal_id", "one", "invalid_input"),
        ("waitpoint_id", "one", "invalid_input"),
        ("source_type", "x" * 257, "invalid_input"),
        ("source_identity", None, "invalid_input"),
        ("payload", "text", "invalid_input"),
        ("payload", b"x" * (limits.SIGNAL_PAYLOAD_MAX_BYTES + 1), "payload_too_large"),
        ("idempotency_key", "", "invalid_input"),
        ("target_scope", "planet", "invalid_input"),
        ("created_at", -1, "invalid_input"),
        ("dedup_ttl_ms", -1, "invalid_input"),
        ("resume_delay_ms", limits.MAX_DURATION_MS + 1, "invalid_input"),
        ("max_signals_per_execution", -1, "invalid_input"),
        ("signal_maxlen", 0, "invalid_input"),
    ],
)
def test_a_signal_is_refused_by_field(name: str, value: object, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        DeliverSignalArgs(**members(**{name: value}))
    assert (caught.value.field, caught.value.code) == (name, code)


def test_a_signal_to_an_execution_needs_neither_waitpoint_nor_token() -> None:
    given = {"execution_id": EXECUTION, "signal_id": SignalId.new(), "signal_name": "approved"}
    args = SignalExecutionArgs(**given, payload=b"\x00\xff", waitpoint_key="a")  # type: ignore[arg-type]
    assert type(args.waitpoint_key) is WaitpointKey
    assert codec.from_json(SignalExecutionArgs, codec.to_json(args)) == args
    assert not {"waitpoint_id", "waitpoint_token"} & set(SignalExecutionArgs.__struct_fields__)
    for name, value in (("waitpoint_key", ""), ("signal_name", ""), ("correlation_id", "x" * 257)):
        with pytest.raises(InvalidInput) as caught:
            SignalExecutionArgs(**{**given, name: value})  # type: ignore[arg-type]
        assert caught.value.field == name


@pytest.mark.parametrize("name", sorted(RESERVED_SIGNAL_NAMES))
def test_a_name_that_stands_for_no_signal_cannot_be_sent(name: str) -> None:
    with pytest.raises(InvalidInput, match="reserved"):
        DeliverSignalArgs(**members(signal_name=name))


@pytest.mark.parametrize(
    "result",
    [
        *(SignalAccepted(signal_id=SignalId.new(), effect=effect) for effect in SignalEffect),
        ResumeTriggered(signal_id=SignalId.new()),
        SignalDuplicate(existing_signal_id=SignalId.new()),
    ],
)
def test_every_outcome_of_a_delivery_survives_json(result: SignalOutcome) -> None:
    assert codec.from_json(SignalOutcome, codec.to_json(result)) == result


def test_a_resumed_worker_reads_whole_signals_page_by_page() -> None:
    signal = ResumeSignal(
        signal_id=SignalId.new(),
        signal_name="approved",
        waitpoint_id=WaitpointId.new(),
        waitpoint_key=WaitpointKey("a"),
        accepted_at=1_700_000_000_000,
        payload=b"\xff",
    )
    page = ListResumeSignalsPage(
        signals=(signal,), next_cursor=signal.signal_id, suspension_id=SuspensionId.new(), close_reason="resumed"
    )
    assert codec.from_json(ListResumeSignalsPage, codec.to_json(page)) == page
    with pytest.raises(InvalidInput, match="limit"):
        ListResumeSignalsArgs(execution_id=EXECUTION, attempt_index=0, limit=1001)

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import codec, limits
from flowfabric.core.contracts import (
    LeaseFence,
    ReadStepsArgs,
    ReadStepsPage,
    RecordStepArgs,
    RecordStepResult,
    StepAlreadyRecorded,
    StepKey,
    StepRecord,
    StepRecorded,
)
from flowfabric.core.ids import AttemptId, ExecutionId, FlowId, LeaseId
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import InvalidInput

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
FENCE = LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())
RECORD = StepRecord(name="charge", occurrence=2, payload=b"\x00\xff", encoding="msgpack", input_digest="ab")


def record(**changes: Any) -> RecordStepArgs:
    members: dict[str, Any] = {
        "execution_id": EXECUTION,
        "fence": FENCE,
        "step": StepKey(name="charge"),
        "payload": b"\x00\xff",
    }
    return RecordStepArgs(**members | changes)


def test_a_step_needs_a_name_and_a_result_only() -> None:
    args = record()
    assert (args.step.occurrence, args.encoding, args.input_digest) == (0, None, "")


def test_a_result_of_any_bytes_survives_json() -> None:
    args = record(encoding="msgpack", input_digest="ab" * 32, step=StepKey(name="a:b ä", occurrence=9_999))
    assert codec.from_json(RecordStepArgs, codec.to_json(args)) == args


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("name", "x" * (limits.STEP_NAME_MAX_BYTES + 1)),
        ("name", "a\nb"),
        ("occurrence", -1),
        ("occurrence", limits.MAX_STEPS),
        ("occurrence", True),
    ],
)
def test_a_key_is_refused_by_field(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        StepKey(**{"name": "charge", name: value})  # type: ignore[arg-type]
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("payload", "text", "invalid_input"),
        ("payload", b"x" * (limits.STEP_RESULT_MAX_BYTES + 1), "payload_too_large"),
        ("encoding", "", "invalid_input"),
        ("input_digest", "x" * (limits.STEP_INPUT_DIGEST_MAX_BYTES + 1), "invalid_input"),
        ("step", "charge", "invalid_input"),
        ("fence", None, "invalid_input"),
    ],
)
def test_a_record_is_refused_by_field(name: str, value: object, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        record(**{name: value})
    assert (caught.value.field, caught.value.code) == (name, code)


@pytest.mark.parametrize("result", [StepRecorded(), StepAlreadyRecorded(result=RECORD)])
def test_every_outcome_survives_json(result: RecordStepResult) -> None:
    assert codec.from_json(RecordStepResult, codec.to_json(result)) == result


def test_records_are_found_by_their_keys() -> None:
    assert {RECORD.key: RECORD}[StepKey(name="charge", occurrence=2)] is RECORD


def test_steps_are_read_page_by_page() -> None:
    page = ReadStepsPage(steps=(RECORD,), next_cursor=1)
    assert codec.from_json(ReadStepsPage, codec.to_json(page)) == page
    for name, value in (("cursor", -1), ("cursor", limits.MAX_STEPS + 1), ("limit", 0), ("limit", 1_001)):
        with pytest.raises(InvalidInput, match=name):
            ReadStepsArgs(execution_id=EXECUTION, **{name: value})

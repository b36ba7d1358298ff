"""What a batch claim answers, read without checks, is what the checks would make of it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.valkey.rows.claimed import CallIds, ClaimReader
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId
from flowfabric.core.lease_handle import BackendTag, HandleKind, HandlePayload, encode_handle
from flowfabric.core.states import AttemptType
from flowfabric.errors import BadReply, FlowFabricError

ARGS = b.ClaimExecutionsArgs(
    lane_id=LaneId("agents"),
    worker_id=WorkerId("worker"),
    worker_instance_id=WorkerInstanceId("worker-1"),
    lease_ttl_ms=30_000,
)
EXECUTION = ExecutionId("{fp:7}:00000000-0000-4000-8000-000000000001")
IDS = CallIds(leases="00000000-0000-4000-8000-", attempts="00000000-0000-4000-9000-")
LEASE = LeaseId(IDS.leases + "00000000001f")
ATTEMPT = AttemptId(IDS.attempts + "00000000001f")
OLD_ATTEMPT = AttemptId("00000000-0000-4000-8000-000000000003")


def answer(kind: bytes = b"retry", encoding: bytes = b"json") -> list[Any]:
    return [31, EXECUTION.encode(), b"{}", b"research", encoding, b"4", b"2", kind]


def read(reply: Any) -> b.ClaimOutcome:
    return ClaimReader(ARGS, IDS, b"1700000000000").read(reply)


def expected(kind: HandleKind, attempt_id: AttemptId = ATTEMPT) -> dict[str, Any]:
    payload = HandlePayload(
        execution_id=EXECUTION,
        attempt_index=2,
        attempt_id=attempt_id,
        lease_id=LEASE,
        lease_epoch=4,
        lease_ttl_ms=30_000,
        lane_id=ARGS.lane_id,
        worker_instance_id=ARGS.worker_instance_id,
    )
    return {
        "execution_id": EXECUTION,
        "lease_id": LEASE,
        "lease_epoch": 4,
        "attempt_index": 2,
        "attempt_id": attempt_id,
        "lease_expires_at": 1_700_000_000_000,
        "handle": encode_handle(BackendTag.VALKEY, kind, payload),
    }


def test_a_new_attempt_is_read_with_what_running_it_needs() -> None:
    work = read(answer())
    assert isinstance(work, b.ClaimedWork)
    assert work.claim == c.ClaimedExecution(attempt_type=AttemptType.RETRY, **expected(HandleKind.FRESH))
    assert work.fence == c.LeaseFence(lease_id=LEASE, lease_epoch=4, attempt_id=ATTEMPT)
    assert (work.execution_kind, work.input_payload, work.payload_encoding) == ("research", b"{}", "json")
    kinds = [type(each) for each in (work.execution_id, work.fence.lease_id, work.fence.attempt_id)]
    assert kinds == [ExecutionId, LeaseId, AttemptId]


def test_an_interrupted_attempt_goes_on_with_its_own_id() -> None:
    work = read([*answer(b"resumed", encoding=b""), OLD_ATTEMPT.encode()])
    assert isinstance(work, b.ClaimedWork)
    assert work.claim == c.ClaimedResumedExecution(**expected(HandleKind.RESUMED, OLD_ATTEMPT))
    assert work.payload_encoding is None


def test_of_a_first_attempt_no_more_is_said_than_needed() -> None:
    work = read(answer()[:5])
    assert isinstance(work, b.ClaimedWork)
    assert (work.fence.lease_epoch, work.attempt_index, work.attempt_type) == (1, 0, AttemptType.INITIAL)


@pytest.mark.parametrize("told", [b"", b"no msgpack", b"\xa1\xff", b"\x05"])
def test_what_cannot_be_read_of_the_latest_wait_has_to_be_asked_for(told: bytes) -> None:
    work = read([*answer(b"resumed"), OLD_ATTEMPT.encode(), told])
    assert isinstance(work, b.ClaimedWork)
    assert work.resumption is None


def test_an_attempt_that_goes_on_is_told_how_its_latest_wait_ended() -> None:
    told = to_msgpack(["0", str(EXECUTION)[-36:], "2", "resumed_by_operator", "signal:approval#0", [], [], "3"])
    work = read([*answer(b"resumed"), OLD_ATTEMPT.encode(), told])
    assert isinstance(work, b.ClaimedWork)
    assert work.resumption is not None
    assert work.resumption.step_count == 3
    latest = work.resumption.latest
    assert (latest.close_reason, latest.continuation_metadata_pointer) == ("resumed_by_operator", "signal:approval#0")


def test_a_refusal_is_an_outcome() -> None:
    assert isinstance(read([0, b"execution_not_found"]), FlowFabricError)


SHORT, LONG, STRANGE = answer()[:4], [*answer(), b"", b"", b""], answer(b"strange")
NO_NUMBER = ["one", *answer()[1:]]
NO_EPOCH = [*answer()[:5], b"soon", *answer()[6:]]


@pytest.mark.parametrize("reply", [None, 5, [], [1, b"OK"], SHORT, LONG, STRANGE, NO_NUMBER, NO_EPOCH])
def test_what_is_no_claim_is_a_bad_reply(reply: Any) -> None:
    try:
        outcome = read(reply)
    except BadReply as error:
        outcome = error
    assert isinstance(outcome, BadReply)

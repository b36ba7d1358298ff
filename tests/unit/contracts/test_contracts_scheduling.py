from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import codec
from flowfabric.core.contracts import (
    ADMISSION_REASONS,
    BlockExecutionArgs,
    ClaimForWorkerArgs,
    ClaimForWorkerOutcome,
    ClaimGrant,
    IssueClaimGrantArgs,
    IssueReclaimGrantArgs,
    IssueReclaimGrantResult,
    NoWork,
    ReclaimGrant,
    ReclaimGrantIssued,
    ResumeGrant,
    ScanEligibleArgs,
    SetLaneStateArgs,
    UnblockExecutionArgs,
    WorkGranted,
)
from flowfabric.core.ids import ExecutionId, FlowId, LaneId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily, PartitionKey
from flowfabric.core.states import BlockingReason, LaneState
from flowfabric.errors import InvalidCapabilities, InvalidInput

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
WORKER: dict[str, Any] = {
    "worker_id": WorkerId("w"),
    "worker_instance_id": WorkerInstanceId("w-1"),
    "lane_id": LaneId("default"),
    "grant_ttl_ms": 5_000,
}
GRANT: dict[str, Any] = {
    "execution_id": EXECUTION,
    "partition_key": PartitionKey(EXECUTION.tag),
    "grant_key": f"ff:exec:{EXECUTION.tag}:{EXECUTION}:claim_grant",
    "expires_at_ms": 1_700_000_000_000,
}


@pytest.mark.parametrize("kind", [IssueClaimGrantArgs, IssueReclaimGrantArgs])
def test_a_grants_capabilities_are_a_sorted_set(kind: Any) -> None:
    args = kind(execution_id=EXECUTION, **WORKER, worker_capabilities={"gpu", "cpu"})
    assert args.worker_capabilities == ("cpu", "gpu")
    with pytest.raises(InvalidCapabilities) as caught:
        kind(execution_id=EXECUTION, **WORKER, worker_capabilities=["a,b"])
    assert caught.value.field == "worker_capabilities"


def test_a_worker_asking_for_work_obeys_the_same_grammar() -> None:
    with pytest.raises(InvalidCapabilities):
        ClaimForWorkerArgs(**WORKER, worker_capabilities="gpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("ttl", [0, 3_600_001])
def test_a_grant_lasts_from_a_millisecond_to_an_hour(ttl: int) -> None:
    with pytest.raises(InvalidInput, match="1 to 3600000") as caught:
        IssueClaimGrantArgs(execution_id=EXECUTION, **WORKER | {"grant_ttl_ms": ttl})
    assert caught.value.field == "grant_ttl_ms"


def test_a_route_snapshot_is_json() -> None:
    assert IssueClaimGrantArgs(execution_id=EXECUTION, **WORKER, route_snapshot_json='{"a":1}')
    with pytest.raises(InvalidInput) as caught:
        IssueClaimGrantArgs(execution_id=EXECUTION, **WORKER, route_snapshot_json="{")
    assert caught.value.field == "route_snapshot_json"


@pytest.mark.parametrize("kind", [ClaimGrant, ResumeGrant, ReclaimGrant])
def test_a_grant_knows_its_partition(kind: Any) -> None:
    lane = {} if kind is ClaimGrant else {"lane_id": LaneId("default")}
    grant = kind(**GRANT, **lane)
    assert grant.partition == Partition(PartitionFamily.FLOW, EXECUTION.partition_index)
    assert codec.from_json(kind, codec.to_json(grant)) == grant


def test_a_reclaim_grant_comes_inside_its_outcome() -> None:
    issued = ReclaimGrantIssued(grant=ReclaimGrant(**GRANT, lane_id=LaneId("default")))
    assert issued.expires_at_ms == 1_700_000_000_000
    assert codec.from_json(IssueReclaimGrantResult, codec.to_json(issued)) == issued


def test_no_work_is_an_answer() -> None:
    for outcome in (NoWork(), WorkGranted(grant=ClaimGrant(**GRANT))):
        assert codec.from_json(ClaimForWorkerOutcome, codec.to_json(outcome)) == outcome


@pytest.mark.parametrize("reason", list(BlockingReason))
def test_only_admission_reasons_block(reason: BlockingReason) -> None:
    if reason in ADMISSION_REASONS:
        assert BlockExecutionArgs(execution_id=EXECUTION, blocking_reason=reason).blocking_reason is reason
        return
    with pytest.raises(InvalidInput, match="paused_by_operator") as caught:
        BlockExecutionArgs(execution_id=EXECUTION, blocking_reason=reason)
    assert (caught.value.code, caught.value.field) == ("invalid_blocking_reason", "blocking_reason")


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected_blocking_reason"):
        UnblockExecutionArgs(execution_id=EXECUTION, expected_blocking_reason="tired")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_scan_is_bounded(limit: int) -> None:
    partition = Partition(PartitionFamily.FLOW, 1)
    assert ScanEligibleArgs(lane_id=LaneId("a"), partition=partition, limit=1000)
    with pytest.raises(InvalidInput, match="limit: must be from 1 to 1000"):
        ScanEligibleArgs(lane_id=LaneId("a"), partition=partition, limit=limit)


def test_a_lane_has_four_states() -> None:
    args = SetLaneStateArgs(lane_id=LaneId("a"), state="paused")  # type: ignore[arg-type]
    assert args.state is LaneState.PAUSED
    with pytest.raises(InvalidInput, match="one of active, paused, draining, disabled"):
        SetLaneStateArgs(lane_id=LaneId("a"), state="asleep")  # type: ignore[arg-type]

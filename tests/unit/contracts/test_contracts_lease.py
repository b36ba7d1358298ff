from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import codec
from flowfabric.core.contracts import (
    ClaimedExecution,
    ClaimedResumedExecution,
    ClaimExecutionArgs,
    ClaimExecutionResult,
    GrantNotFound,
    IssueGrantAndClaimResult,
    LeaseFence,
    ReclaimCapExceeded,
    ReclaimExecutionArgs,
    ReclaimExecutionResult,
    RenewLeaseArgs,
    RevokeLeaseArgs,
)
from flowfabric.core.ids import (
    AttemptId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseId,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.lease_handle import BackendTag, Handle, HandleKind
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import AttemptType
from flowfabric.errors import InvalidInput, InvalidPolicy

EXECUTION = ExecutionId.for_flow(FlowId.new(), PartitionConfig())
FENCE = LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())
HANDLE = Handle(BackendTag.VALKEY, HandleKind.FRESH, b"\x02\x01\x01")
CLAIMED = ClaimedExecution(
    execution_id=EXECUTION,
    lease_id=LeaseId.new(),
    lease_epoch=1,
    attempt_index=0,
    attempt_id=AttemptId.new(),
    attempt_type=AttemptType.INITIAL,
    lease_expires_at=1000,
    handle=HANDLE,
)


def claim(**changes: Any) -> ClaimExecutionArgs:
    members: dict[str, Any] = {
        "execution_id": EXECUTION,
        "worker_id": WorkerId("w"),
        "worker_instance_id": WorkerInstanceId("w-1"),
        "lane_id": LaneId("default"),
        "lease_id": LeaseId.new(),
        "lease_ttl_ms": 30_000,
        "attempt_id": AttemptId.new(),
    }
    return ClaimExecutionArgs(**members | changes)


def test_a_claim_carries_the_handle_through_json() -> None:
    assert codec.from_json(ClaimExecutionResult, codec.to_json(CLAIMED)) == CLAIMED


def test_grant_and_claim_says_whether_an_attempt_goes_on() -> None:
    resumed = ClaimedResumedExecution(
        execution_id=EXECUTION,
        lease_id=LeaseId.new(),
        lease_epoch=2,
        attempt_index=0,
        attempt_id=AttemptId.new(),
        lease_expires_at=1000,
        handle=HANDLE,
    )
    for result in (CLAIMED, resumed):
        assert codec.from_json(IssueGrantAndClaimResult, codec.to_json(result)) == result


@pytest.mark.parametrize("ttl", [0, -1, 86_400_001, 1.5, True])
def test_a_lease_lasts_from_a_millisecond_to_a_day(ttl: Any) -> None:
    assert claim(lease_ttl_ms=1).lease_ttl_ms == 1
    assert claim(lease_ttl_ms=86_400_000).lease_ttl_ms == 86_400_000
    with pytest.raises(InvalidInput, match="1 to 86400000") as caught:
        claim(lease_ttl_ms=ttl)
    assert caught.value.field == "lease_ttl_ms"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker_id", ""),
        ("lease_id", "nope"),
        ("attempt_id", "NOPE"),
        ("attempt_timeout_ms", -1),
        ("execution_deadline_at", 10**13),
        ("attempt_policy_json", "[]"),
    ],
)
def test_a_claim_is_refused_by_field(name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        claim(**{name: value})
    assert caught.value.field == name


def test_a_malformed_attempt_policy_is_refused_before_anything_is_written() -> None:
    with pytest.raises(InvalidPolicy):
        claim(attempt_policy_json="{")


@pytest.mark.parametrize(
    ("name", "value"), [("lease_id", "x"), ("lease_epoch", -1), ("lease_epoch", 2**53), ("attempt_id", None)]
)
def test_a_fence_is_whole_and_well_formed(name: str, value: Any) -> None:
    members: dict[str, Any] = {"lease_id": LeaseId.new(), "lease_epoch": 1, "attempt_id": AttemptId.new()}
    with pytest.raises(InvalidInput) as caught:
        LeaseFence(**members | {name: value})
    assert caught.value.field == name


def test_part_of_a_fence_is_no_fence() -> None:
    with pytest.raises(InvalidInput) as caught:
        codec.from_json(LeaseFence, codec.to_json({"lease_id": LeaseId.new(), "lease_epoch": 1}))
    assert caught.value.field == "attempt_id"


def test_renewing_needs_the_fence_and_the_attempt() -> None:
    args = RenewLeaseArgs(execution_id=EXECUTION, attempt_index=0, fence=FENCE, lease_ttl_ms=30_000)
    assert args.lease_history_grace_ms == 60_000
    with pytest.raises(InvalidInput, match="fence: must be LeaseFence"):
        RenewLeaseArgs(execution_id=EXECUTION, attempt_index=0, fence=None, lease_ttl_ms=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="attempt_index"):
        RenewLeaseArgs(execution_id=EXECUTION, attempt_index=-1, fence=FENCE, lease_ttl_ms=1)


def test_the_lease_to_revoke_may_be_named() -> None:
    assert RevokeLeaseArgs(execution_id=EXECUTION, reason="stuck").expected_lease_id is None
    with pytest.raises(InvalidInput) as caught:
        RevokeLeaseArgs(execution_id=EXECUTION, reason="stuck", expected_lease_id="")  # type: ignore[arg-type]
    assert caught.value.field == "expected_lease_id"


def test_the_reclaim_cap_is_the_stores_unless_given() -> None:
    members = {name: getattr(claim(), name) for name in ClaimExecutionArgs.__struct_fields__[:7]}
    assert ReclaimExecutionArgs(**members).max_reclaim_count is None
    assert ReclaimExecutionArgs(**members, max_reclaim_count=0).max_reclaim_count == 0
    with pytest.raises(InvalidInput, match="max_reclaim_count"):
        ReclaimExecutionArgs(**members, max_reclaim_count=-1)


def test_a_reclaim_reports_its_refusals_as_outcomes() -> None:
    for result in (
        GrantNotFound(execution_id=EXECUTION),
        ReclaimCapExceeded(execution_id=EXECUTION, reclaim_count=100),
    ):
        assert codec.from_json(ReclaimExecutionResult, codec.to_json(result)) == result

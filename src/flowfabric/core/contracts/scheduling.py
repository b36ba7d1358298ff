"""Scheduling: grants to claim, and what keeps an execution from being claimed."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from flowfabric.core.contracts.fields import (
    AdmissionSummary,
    Capabilities,
    CapabilityHash,
    Checked,
    GrantTtlMs,
    Outcome,
    Reason,
    RouteSnapshotJson,
    ScanLimit,
)
from flowfabric.core.contracts.lease import NotReclaimable, ReclaimCapExceeded
from flowfabric.core.ids import ExecutionId, LaneId, TimestampMs, WorkerId, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionKey
from flowfabric.core.states import BlockingReason
from flowfabric.errors import InvalidInput


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Permission for one worker, for a short while; the partition in it is opaque to whoever carries it."""

    execution_id: ExecutionId
    partition_key: PartitionKey
    grant_key: str
    expires_at_ms: TimestampMs

    @property
    def partition(self) -> Partition:
        return self.partition_key.parse()


class ClaimGrant(Grant, frozen=True, kw_only=True):
    """Permission to start a new attempt, for `claim_execution`."""


class ResumeGrant(Grant, frozen=True, kw_only=True):
    """Permission to go on with an interrupted attempt, for `claim_resumed_execution`."""

    lane_id: LaneId


class ReclaimGrant(Grant, frozen=True, kw_only=True):
    """Permission to replace a lost attempt, for `reclaim_execution`."""

    lane_id: LaneId


class GrantRequest(Checked, frozen=True, kw_only=True):
    """Which worker asks for which execution, and what it offers."""

    execution_id: ExecutionId
    lane_id: LaneId
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    grant_ttl_ms: GrantTtlMs
    worker_capabilities: Capabilities = ()
    capability_hash: CapabilityHash | None = None
    route_snapshot_json: RouteSnapshotJson | None = None
    admission_summary: AdmissionSummary | None = None


class IssueClaimGrantArgs(GrantRequest, frozen=True, kw_only=True):
    """Let one worker claim an eligible execution for a short while; its state does not change."""


class ClaimGrantIssued(Outcome, frozen=True, kw_only=True, tag="granted"):
    execution_id: ExecutionId
    expires_at_ms: TimestampMs | None = None


IssueClaimGrantResult: TypeAlias = ClaimGrantIssued


class IssueReclaimGrantArgs(GrantRequest, frozen=True, kw_only=True):
    """Let one worker take over an execution whose lease was lost."""


class ReclaimGrantIssued(Outcome, frozen=True, kw_only=True, tag="granted"):
    grant: ReclaimGrant

    @property
    def expires_at_ms(self) -> TimestampMs:
        return self.grant.expires_at_ms


IssueReclaimGrantResult: TypeAlias = ReclaimGrantIssued | NotReclaimable | ReclaimCapExceeded


class ClaimForWorkerArgs(Checked, frozen=True, kw_only=True):
    """Find the next execution of a lane that this worker may run, and grant it.

    The grant is for `claim_execution`, or for `claim_resumed_execution` where an attempt was interrupted.
    """

    lane_id: LaneId
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    grant_ttl_ms: GrantTtlMs
    worker_capabilities: Capabilities = ()


class NoWork(Outcome, frozen=True, kw_only=True, tag="no_work"):
    """Nothing in the lane is eligible for this worker now."""


class WorkGranted(Outcome, frozen=True, kw_only=True, tag="granted"):
    grant: ClaimGrant


ClaimForWorkerOutcome: TypeAlias = NoWork | WorkGranted


class ScanEligibleArgs(Checked, frozen=True, kw_only=True):
    """List up to `limit` eligible executions of a lane on one partition, next one first."""

    lane_id: LaneId
    partition: Partition
    limit: ScanLimit


ADMISSION_REASONS = frozenset(
    {
        BlockingReason.WAITING_FOR_BUDGET,
        BlockingReason.WAITING_FOR_QUOTA,
        BlockingReason.WAITING_FOR_CAPABLE_WORKER,
        BlockingReason.PAUSED_BY_OPERATOR,
        BlockingReason.PAUSED_BY_POLICY,
    }
)


def _check_reason(field: str, reason: BlockingReason) -> None:
    if reason not in ADMISSION_REASONS:
        problem = f"must be one of {', '.join(sorted(ADMISSION_REASONS))}"
        raise InvalidInput(field, reason, problem, code="invalid_blocking_reason")


class BlockRouteArgs(Checked, frozen=True, kw_only=True):
    """Set an execution aside because no worker can run it: by an operator's hand, never by a claim."""

    execution_id: ExecutionId
    lane_id: LaneId
    reason_code: BlockingReason = BlockingReason.WAITING_FOR_CAPABLE_WORKER
    reason_detail: Reason = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_reason("reason_code", self.reason_code)


class RouteBlocked(Outcome, frozen=True, kw_only=True, tag="blocked"):
    execution_id: ExecutionId


class RouteBlockRejected(Outcome, frozen=True, kw_only=True, tag="lua_rejected"):
    """The execution has moved on since it was picked; `message` is the store's code."""

    message: str


BlockRouteOutcome: TypeAlias = RouteBlocked | RouteBlockRejected


class BlockExecutionArgs(Checked, frozen=True, kw_only=True):
    """A runnable execution leaves the queue until what `blocking_reason` names is over."""

    execution_id: ExecutionId
    blocking_reason: BlockingReason
    blocking_detail: Reason | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_reason("blocking_reason", self.blocking_reason)


class ExecutionBlocked(Outcome, frozen=True, kw_only=True, tag="blocked"):
    pass


BlockExecutionResult: TypeAlias = ExecutionBlocked


class UnblockExecutionArgs(Checked, frozen=True, kw_only=True):
    """A blocked execution returns to the queue, unless it is blocked for another reason by now."""

    execution_id: ExecutionId
    expected_blocking_reason: BlockingReason | None = None


class ExecutionUnblocked(Outcome, frozen=True, kw_only=True, tag="unblocked"):
    pass


UnblockExecutionResult: TypeAlias = ExecutionUnblocked


class PromoteDelayedArgs(Checked, frozen=True, kw_only=True):
    """A delayed execution whose time has come becomes eligible."""

    execution_id: ExecutionId


class DelayedPromoted(Outcome, frozen=True, kw_only=True, tag="promoted"):
    pass


class NotYetDue(Outcome, frozen=True, kw_only=True, tag="not_yet_due"):
    """Its time has not come; nothing was changed."""


class NothingToPromote(Outcome, frozen=True, kw_only=True, tag="cleaned"):
    """It is gone or no longer delayed; a stale queue entry, if there was one, is removed."""

    reason: str


PromoteDelayedResult: TypeAlias = DelayedPromoted | NotYetDue | NothingToPromote

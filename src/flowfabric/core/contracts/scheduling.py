"""Scheduling: grants to claim, and blocks that prevent a claim."""

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
    """Permission for one worker for a short time; its partition is opaque to the caller."""

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
    """Permission to continue an interrupted attempt, for `claim_resumed_execution`."""

    lane_id: LaneId


class ReclaimGrant(Grant, frozen=True, kw_only=True):
    """Permission to replace a lost attempt, for `reclaim_execution`."""

    lane_id: LaneId


class GrantRequest(Checked, frozen=True, kw_only=True):
    """The worker, the execution and the worker's capabilities."""

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
    """Allow one worker to claim an eligible execution for a short time; the state does not change."""


class ClaimGrantIssued(Outcome, frozen=True, kw_only=True, tag="granted"):
    execution_id: ExecutionId
    expires_at_ms: TimestampMs | None = None


IssueClaimGrantResult: TypeAlias = ClaimGrantIssued


class IssueReclaimGrantArgs(GrantRequest, frozen=True, kw_only=True):
    """Allow one worker to reclaim an execution whose lease was lost."""


class ReclaimGrantIssued(Outcome, frozen=True, kw_only=True, tag="granted"):
    grant: ReclaimGrant

    @property
    def expires_at_ms(self) -> TimestampMs:
        return self.grant.expires_at_ms


IssueReclaimGrantResult: TypeAlias = ReclaimGrantIssued | NotReclaimable | ReclaimCapExceeded


class ClaimForWorkerArgs(Checked, frozen=True, kw_only=True):
    """Find the next execution of a lane that this worker may run, and grant it.

    The grant is for `claim_execution`, or for `claim_resumed_execution` if an attempt was interrupted.
    """

    lane_id: LaneId
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    grant_ttl_ms: GrantTtlMs
    worker_capabilities: Capabilities = ()


class NoWork(Outcome, frozen=True, kw_only=True, tag="no_work"):
    """The lane has no eligible execution for this worker now."""


class WorkGranted(Outcome, frozen=True, kw_only=True, tag="granted"):
    grant: ClaimGrant


ClaimForWorkerOutcome: TypeAlias = NoWork | WorkGranted


class ScanEligibleArgs(Checked, frozen=True, kw_only=True):
    """List up to `limit` eligible executions of a lane on one partition, in queue order."""

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
    """Block an execution that no worker can run: called by an operator, never by a claim."""

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
    """The execution has changed since it was selected; `message` is the store's code."""

    message: str


BlockRouteOutcome: TypeAlias = RouteBlocked | RouteBlockRejected


class BlockExecutionArgs(Checked, frozen=True, kw_only=True):
    """A runnable execution leaves the queue until the condition named by `blocking_reason` ends."""

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
    """A blocked execution returns to the queue, unless it is now blocked for another reason."""

    execution_id: ExecutionId
    expected_blocking_reason: BlockingReason | None = None


class ExecutionUnblocked(Outcome, frozen=True, kw_only=True, tag="unblocked"):
    pass


UnblockExecutionResult: TypeAlias = ExecutionUnblocked


class PromoteDelayedArgs(Checked, frozen=True, kw_only=True):
    """A delayed execution becomes eligible when its delay is over."""

    execution_id: ExecutionId


class DelayedPromoted(Outcome, frozen=True, kw_only=True, tag="promoted"):
    pass


class NotYetDue(Outcome, frozen=True, kw_only=True, tag="not_yet_due"):
    """The delay is not over; nothing changed."""


class NothingToPromote(Outcome, frozen=True, kw_only=True, tag="cleaned"):
    """It is deleted or no longer delayed; a stale queue entry is removed."""

    reason: str


PromoteDelayedResult: TypeAlias = DelayedPromoted | NotYetDue | NothingToPromote

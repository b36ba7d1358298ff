"""Leases: claim, renew, revoke and reclaim ownership of the running attempt."""

from __future__ import annotations

from typing import TypeAlias

from flowfabric.core import limits
from flowfabric.core.contracts.fields import (
    AttemptPolicyJson,
    Capabilities,
    CapabilityHash,
    Checked,
    DurationMs,
    LeaseTtlMs,
    Outcome,
    Reason,
    ReclaimCount,
)
from flowfabric.core.ids import (
    AttemptId,
    AttemptIndex,
    ExecutionId,
    LaneId,
    LeaseEpoch,
    LeaseId,
    TimestampMs,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.lease_handle import Handle
from flowfabric.core.states import AttemptType


class LeaseFence(Checked, frozen=True, kw_only=True):
    """Proof of ownership: all three fields must match, so a replaced worker cannot act."""

    lease_id: LeaseId
    lease_epoch: LeaseEpoch
    attempt_id: AttemptId


class LeaseRequest(Checked, frozen=True, kw_only=True):
    """The worker, execution and TTL of a lease request; each way of claiming adds fields."""

    execution_id: ExecutionId
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    lane_id: LaneId
    lease_id: LeaseId
    lease_ttl_ms: LeaseTtlMs


class ClaimExecutionArgs(LeaseRequest, frozen=True, kw_only=True):
    """Use a claim grant: runnable becomes active with a new attempt and a new lease."""

    attempt_id: AttemptId
    attempt_policy_json: AttemptPolicyJson = ""
    attempt_timeout_ms: DurationMs | None = None  # None or 0: the policy's value
    execution_deadline_at: TimestampMs | None = None


class Ownership(Outcome, frozen=True, kw_only=True):
    """A granted lease and its attempt."""

    execution_id: ExecutionId
    lease_id: LeaseId
    lease_epoch: LeaseEpoch
    attempt_index: AttemptIndex
    attempt_id: AttemptId
    lease_expires_at: TimestampMs
    handle: Handle

    @property
    def fence(self) -> LeaseFence:
        return LeaseFence(lease_id=self.lease_id, lease_epoch=self.lease_epoch, attempt_id=self.attempt_id)


class ClaimedExecution(Ownership, frozen=True, kw_only=True, tag="claimed"):
    """The worker owns a new attempt."""

    attempt_type: AttemptType


ClaimExecutionResult: TypeAlias = ClaimedExecution


class ClaimResumedExecutionArgs(LeaseRequest, frozen=True, kw_only=True):
    """Use a resume grant: the interrupted attempt continues under a new lease."""

    remaining_attempt_timeout_ms: DurationMs | None = None  # None or 0: the policy's value


class ClaimedResumedExecution(Ownership, frozen=True, kw_only=True, tag="claimed_resumed"):
    """The worker owns the attempt that was interrupted."""


ClaimResumedExecutionResult: TypeAlias = ClaimedResumedExecution


class IssueGrantAndClaimArgs(LeaseRequest, frozen=True, kw_only=True):
    """Grant and claim in one step: a new attempt, or the interrupted one."""

    attempt_id: AttemptId  # unused when an interrupted attempt continues
    worker_capabilities: Capabilities = ()
    capability_hash: CapabilityHash | None = None
    attempt_policy_json: AttemptPolicyJson = ""
    attempt_timeout_ms: DurationMs | None = None
    execution_deadline_at: TimestampMs | None = None


IssueGrantAndClaimResult: TypeAlias = ClaimedExecution | ClaimedResumedExecution


class ReclaimExecutionArgs(LeaseRequest, frozen=True, kw_only=True):
    """Use a reclaim grant: the lost attempt is closed and a new one starts under a new lease."""

    attempt_id: AttemptId
    capability_hash: CapabilityHash | None = None
    attempt_policy_json: AttemptPolicyJson = ""
    max_reclaim_count: ReclaimCount | None = None  # used only if the policy has none


class ReclaimedExecution(Outcome, frozen=True, kw_only=True, tag="reclaimed"):
    """The worker owns a new attempt in place of the lost one."""

    execution_id: ExecutionId
    new_attempt_index: AttemptIndex
    new_attempt_id: AttemptId
    new_lease_id: LeaseId
    new_lease_epoch: LeaseEpoch
    lease_expires_at: TimestampMs
    handle: Handle

    @property
    def fence(self) -> LeaseFence:
        return LeaseFence(lease_id=self.new_lease_id, lease_epoch=self.new_lease_epoch, attempt_id=self.new_attempt_id)


class NotReclaimable(Outcome, frozen=True, kw_only=True, tag="not_reclaimable"):
    """Its lease is neither expired nor revoked; nothing changed."""

    execution_id: ExecutionId
    detail: str = ""


class ReclaimCapExceeded(Outcome, frozen=True, kw_only=True, tag="reclaim_cap_exceeded"):
    """It was lost too often: this call ended it as failed."""

    execution_id: ExecutionId
    reclaim_count: int


class GrantNotFound(Outcome, frozen=True, kw_only=True, tag="grant_not_found"):
    """The grant is missing, used, expired or belongs to another worker; nothing changed."""

    execution_id: ExecutionId


ReclaimExecutionResult: TypeAlias = ReclaimedExecution | NotReclaimable | ReclaimCapExceeded | GrantNotFound


class RenewLeaseArgs(Checked, frozen=True, kw_only=True):
    """Extend the lease to `lease_ttl_ms` from now; id and epoch stay the same."""

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    fence: LeaseFence
    lease_ttl_ms: LeaseTtlMs
    lease_history_grace_ms: DurationMs = limits.DEFAULT_LEASE_HISTORY_GRACE_MS


class LeaseRenewed(Outcome, frozen=True, kw_only=True, tag="renewed"):
    expires_at: TimestampMs


RenewLeaseResult: TypeAlias = LeaseRenewed


class MarkLeaseExpiredArgs(Checked, frozen=True, kw_only=True):
    """Record that a lease has expired, which makes its execution reclaimable."""

    execution_id: ExecutionId


class LeaseMarkedExpired(Outcome, frozen=True, kw_only=True, tag="marked_expired"):
    pass


class LeaseAlreadySatisfied(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    """Nothing to do: not due, not active, or done before; see `reason`."""

    reason: str


MarkLeaseExpiredResult: TypeAlias = LeaseMarkedExpired | LeaseAlreadySatisfied


class RevokeLeaseArgs(Checked, frozen=True, kw_only=True):
    """Revoke the lease of its owner, which makes the execution reclaimable."""

    execution_id: ExecutionId
    reason: Reason
    expected_lease_id: LeaseId | None = None  # None: any lease


class LeaseRevocation(Outcome, frozen=True, kw_only=True, tag="revoked"):
    lease_id: LeaseId
    lease_epoch: LeaseEpoch


RevokeLeaseResult: TypeAlias = LeaseRevocation | LeaseAlreadySatisfied

"""Leases: the right to act on a running attempt, and how it is renewed, lost and taken over (G2, D10, D11)."""

from __future__ import annotations

from typing import Any

from flowfabric.core import limits
from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.execution import CancelSource
from flowfabric.core.contracts.lease import (
    LeaseFence,
    LeaseRequest,
    ReclaimExecutionArgs,
    RenewLeaseArgs,
    RevokeLeaseArgs,
)
from flowfabric.core.ids import AttemptId
from flowfabric.core.rules.execution.endings import end
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.steps import decide, moves
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.states import AttemptType, OwnershipState, StateVector

RECLAIM_CAP_REASON, RECLAIM_CAP_CATEGORY = "max_reclaims_exceeded", "infra_crash"


def check_fence(
    operation: str, record: ExecutionRecord, fence: LeaseFence | None, source: CancelSource, now: int
) -> Refusal | None:
    """The guard of every call by a lease holder: a fence is given, a lease is held, and the fence matches it.

    The order of refusals is part of the wire. Only an operator may omit the fence.
    """
    if fence is None and source is not CancelSource.OPERATOR_OVERRIDE:
        return Refusal("fence_required")
    refusal = check_held(operation, record, now)
    if refusal is None and fence is not None and not is_owner(record, fence):
        return Refusal("stale_lease")
    return refusal


def check_held(operation: str, record: ExecutionRecord, now: int) -> Refusal | None:
    """Whether an unexpired lease is held; a refusal writes nothing (D11)."""
    refused = decide(operation, record.state)
    if isinstance(refused, Refusal):
        return not_active(record) if refused.code == "execution_not_active" else refused
    return None if record.holds_lease(now) else Refusal("lease_expired")


def not_active(record: ExecutionRecord) -> Refusal:
    return Refusal("execution_not_active", record.describe())


def is_owner(record: ExecutionRecord, fence: LeaseFence) -> bool:
    return (fence.lease_id, fence.lease_epoch, fence.attempt_id) == (
        record.lease_id, record.lease_epoch, record.attempt_id,
    )  # fmt: skip


def held_by(record: ExecutionRecord, args: LeaseRequest, timeout_ms: int | None, now: int) -> dict[str, Any]:
    """The fields of a new lease. Its epoch invalidates every earlier fence, and the attempt timeout restarts."""
    allowed = timeout_ms or record.attempt_timeout_ms
    return {
        "state": SITUATIONS[Situation.ACTIVE],
        "lease_id": args.lease_id,
        "lease_epoch": record.lease_epoch + 1,
        "lease_expires_at": now + args.lease_ttl_ms,
        "delay_until": None,
        "attempt_timeout_at": now + allowed if allowed else None,
    }


def started(
    record: ExecutionRecord, args: LeaseRequest, attempt_id: AttemptId, timeout_ms: int | None, now: int
) -> dict[str, Any]:
    """The fields of a new attempt under a new lease. Attempts are numbered from 0 without gaps."""
    return held_by(record, args, timeout_ms, now) | {
        "attempt_id": attempt_id,
        "attempt_index": 0 if record.attempt_index is None else record.attempt_index + 1,
        "attempt_timeout_ms": timeout_ms or record.attempt_timeout_ms,
        "next_attempt_type": None,
        "failure_reason": None,
        "failure_category": None,
    }


NO_LEASE: dict[str, Any] = {"lease_id": None, "lease_expires_at": None, "attempt_timeout_at": None}


def renew(record: ExecutionRecord, args: RenewLeaseArgs, now: int) -> Refusal | Changes:
    """Extend the lease; its id and epoch stay."""
    refusal = check_fence("renew_lease", record, args.fence, CancelSource.LEASE_HOLDER, now)
    if refusal is not None:
        return refusal
    if args.attempt_index != record.attempt_index:
        return Refusal("stale_lease")
    return Changes({"lease_expires_at": now + args.lease_ttl_ms})


def is_lost(record: ExecutionRecord, now: int) -> bool:
    """Whether an active execution has no valid lease: expired, marked or not, or revoked."""
    return moves("reclaim_execution", record.state) or (
        record.state.ownership_state is OwnershipState.LEASED and not record.holds_lease(now)
    )


def mark_expired(record: ExecutionRecord, now: int) -> Changes:
    """leased -> lease_expired_reclaimable, after the lease has expired; no change before."""
    if not moves("mark_lease_expired_if_due", record.state) or record.holds_lease(now):
        return Changes()
    return _lost("mark_lease_expired_if_due", record, EventKind.LEASE_EXPIRED)


def revoke(record: ExecutionRecord, args: RevokeLeaseArgs) -> Refusal | Changes:
    """leased -> lease_revoked; no change if the lease is already lost."""
    decided = decide("revoke_lease", record.state)
    if isinstance(decided, Refusal):
        return not_active(record)
    if decided == record.state:
        return Changes()
    if args.expected_lease_id is not None and args.expected_lease_id != record.lease_id:
        return Refusal("stale_lease")
    return _lost("revoke_lease", record, EventKind.LEASE_REVOKED)


def _lost(operation: str, record: ExecutionRecord, event: EventKind) -> Changes:
    state = decide(operation, record.state)
    assert isinstance(state, StateVector)
    return Changes({"state": state}, (Line(event),))


def reclaim_cap(record: ExecutionRecord, default: int | None = None) -> int:
    """How often the execution may be reclaimed: by its policy, else the caller, else the store's default."""
    own = record.policy.max_reclaim_count if record.policy else None
    given = limits.DEFAULT_MAX_RECLAIM_COUNT if default is None else default
    return given if own is None else own


def reclaim(record: ExecutionRecord, args: ReclaimExecutionArgs, now: int) -> Refusal | Changes:
    """Start a new attempt in place of the lost one; at the cap the execution fails instead (D10)."""
    refused = decide("reclaim_execution", record.state)
    if isinstance(refused, Refusal):
        state = record.state
        return Refusal(refused.code, {"lifecycle_phase": record.phase, "ownership_state": state.ownership_state})
    if record.reclaim_count >= reclaim_cap(record, args.max_reclaim_count):
        return _end_at_cap(record, now)
    fields = started(record, args, args.attempt_id, None, now) | {"reclaim_count": record.reclaim_count + 1}
    return Changes(fields, (Line(EventKind.RECLAIMED, AttemptType.RECLAIM),))


def requeue_lost(record: ExecutionRecord, now: int) -> Changes:
    """Return a lost lease to the queue for a reclaim by the next worker, or end the execution at the cap."""
    if not is_lost(record, now):
        return Changes()
    if record.reclaim_count >= reclaim_cap(record):
        return _end_at_cap(record, now)
    fields = NO_LEASE | {
        "state": SITUATIONS[Situation.WAITING_RETRY],
        "next_attempt_type": AttemptType.RECLAIM,
        "reclaim_count": record.reclaim_count + 1,
    }
    return Changes(fields, (Line(EventKind.REQUEUED, record.state.ownership_state),))


def _end_at_cap(record: ExecutionRecord, now: int) -> Changes:
    failed = end(record, SITUATIONS[Situation.FAILED].terminal_outcome, now)
    return failed | Changes({"failure_reason": RECLAIM_CAP_REASON, "failure_category": RECLAIM_CAP_CATEGORY})

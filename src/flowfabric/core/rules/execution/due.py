"""Due work of an execution: expired leases, delays, deadlines, attempt timeouts and suspension timeouts."""

from __future__ import annotations

from collections.abc import Callable

from flowfabric.core.contracts.events import EventKind
from flowfabric.core.rules.execution import lease, lifecycle
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.steps import decide, moves
from flowfabric.core.rules.outcome import Changes, Line
from flowfabric.core.rules.waits import suspension
from flowfabric.core.states import LifecyclePhase


def is_due(at: int | None, now: int) -> bool:
    """Whether the time has come, from that very millisecond on; None is never due."""
    return at is not None and at <= now


def due_at(record: ExecutionRecord) -> int | None:
    """When the engine must next check the execution; None when only a caller can move it."""
    times = [record.deadline_at, record.attempt_timeout_at]
    if record.phase is LifecyclePhase.ACTIVE:
        times.append(0 if moves("reclaim_execution", record.state) else record.lease_expires_at)
    if moves("promote_delayed", record.state):
        times.append(record.delay_until or 0)
    if record.phase is LifecyclePhase.SUSPENDED and record.suspension is not None:
        times.append(record.suspension.timeout_at)
    return min((at for at in times if at is not None), default=None)


def promote(record: ExecutionRecord, now: int) -> Changes:
    """delayed -> waiting, when its delay is over. `delay_until` stays, to recognize a repeated call (G3)."""
    if not moves("promote_delayed", record.state) or not is_due(record.delay_until or 0, now):
        return Changes()
    return Changes({"state": decide("promote_delayed", record.state)}, (Line(EventKind.PROMOTED),))


def reach_deadline(record: ExecutionRecord, now: int) -> Changes:
    """any live state -> terminal, expired."""
    if record.phase is LifecyclePhase.TERMINAL or not is_due(record.deadline_at, now):
        return Changes()
    return lifecycle.expire(record, now)


def time_out_attempt(record: ExecutionRecord, now: int) -> Changes:
    """active -> delayed until its retry, or terminal, failed."""
    return lifecycle.time_out_attempt(record, now) if _has_timed_out(record, now) else Changes()


def expire_attempt(record: ExecutionRecord, now: int) -> Changes:
    """The same for a direct caller of `expire_execution`: active -> delayed until its retry, or terminal, expired."""
    return lifecycle.expire_attempt(record, now) if _has_timed_out(record, now) else Changes()


def _has_timed_out(record: ExecutionRecord, now: int) -> bool:
    return record.phase is not LifecyclePhase.TERMINAL and is_due(record.attempt_timeout_at, now)


# The order in which the engine checks.
_RULES: tuple[Callable[[ExecutionRecord, int], Changes], ...] = (
    lease.requeue_lost,
    promote,
    reach_deadline,
    time_out_attempt,
    suspension.time_out,
)


def apply_due(record: ExecutionRecord, now: int) -> Changes:
    """Apply everything that is due, in order: one change may make the next one due."""
    total = Changes()
    for rule in _RULES:
        changes = rule(record, now)
        record, total = changes.apply_to(record), total | changes
    return total

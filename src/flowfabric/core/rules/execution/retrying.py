"""Retry on request: an execution that ended without a result continues with its records.

`lib/again/continuing.lua` states the same rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.waits.waitpoints import WaitpointState
from flowfabric.core.limits import REOPENED_WAITPOINT_MS
from flowfabric.core.rules.execution.record import ExecutionRecord, SuspensionRecord, WaitpointRecord
from flowfabric.core.rules.execution.steps import decide
from flowfabric.core.rules.outcome import Changes, Line, Refusal

# After a wait that ended like this, the handler went on; any other end of a wait is that of its execution.
_WENT_ON = frozenset({"resumed", "resumed_by_operator", "timed_out_auto_resume"})


def retry(record: ExecutionRecord, now: int) -> Refusal | Changes:
    """failed, expired or cancelled -> runnable, with a new attempt that has all retries of the policy before it.

    Steps and ended waits are kept. A wait that fell with the execution begins again. A deadline of the policy
    starts again; one at a fixed time is dropped, because it may have passed.
    """
    decided = decide("retry_execution", record.state)
    if isinstance(decided, Refusal):
        return Refusal(decided.code, {"state": record.public_state})
    timeouts = record.policy.timeout_policy if record.policy else None
    deadline_ms = timeouts.execution_deadline_ms if timeouts else None
    fields = _waits(record, now) | {
        "state": decided,
        "completed_at": None,
        "retry_count": 0,
        "reclaim_count": 0,
        "deadline_at": now + deadline_ms if deadline_ms else None,
        "cancellation_reason": None,
        "cancelled_by": None,
    }
    return Changes(fields, (Line(EventKind.RETRIED),))


def fell(suspension: SuspensionRecord | None) -> bool:
    """Whether the wait ended only because its execution did."""
    return suspension is not None and suspension.close_reason not in _WENT_ON


def _waits(record: ExecutionRecord, now: int) -> dict[str, Any]:
    """The wait that fell is forgotten. Waitpoints made before a wait that is still to come are open for a day.

    That holds for those that ran out of time as well.
    """
    last = record.suspension
    fallen = last.suspension_id if last is not None and fell(last) else None
    least = now + REOPENED_WAITPOINT_MS

    def reopened(each: WaitpointRecord) -> WaitpointRecord:
        is_fallen = fallen is not None and each.was_pending and each.suspension_id == fallen
        if not (each.is_pending or each.is_out_of_time or is_fallen):
            return each
        expires_at = max(each.expires_at or 0, least)
        return replace(
            each, state=WaitpointState.PENDING, suspension_id=None, expires_at=expires_at, is_out_of_time=False
        )

    waitpoints = tuple(reopened(each) for each in record.waitpoints)
    return {"waitpoints": waitpoints, "suspension": None if fallen else last}

"""The one way every execution ends (G7), for any reason."""

from __future__ import annotations

from typing import Any

from flowfabric.core.contracts.events import EventKind
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.steps import ended
from flowfabric.core.rules.outcome import Changes, Line
from flowfabric.core.rules.waits import waitpoints
from flowfabric.core.states import TerminalOutcome

_GONE: dict[str, Any] = {
    "lease_id": None,
    "lease_expires_at": None,
    "delay_until": None,
    "deadline_at": None,
    "attempt_timeout_at": None,
}


def end(record: ExecutionRecord, outcome: TerminalOutcome, now: int, *, closes_wait_as: str = "") -> Changes:
    """any live state -> terminal. An open suspension closes with it, with the outcome as the default reason."""
    state = ended(record.state, outcome)
    fields = _GONE | {"state": state, "completed_at": now} | waitpoints.closed(record, closes_wait_as or outcome)
    return Changes(fields, (Line(EventKind(state.public_state), outcome),))

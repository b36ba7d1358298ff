"""One execution in memory, moved by the rules of `flowfabric.core.rules` alone: the store must agree with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowfabric.core.ids import WaitpointId, WaitpointToken
from flowfabric.core.rules.execution import due
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.states import LifecyclePhase, StateVector


@dataclass
class Waitpoint:
    """What the store keeps of a waitpoint beside the record of the rules."""

    token: WaitpointToken
    is_written: bool = True  # or known by its suspension alone
    keys: dict[str, str] = field(default_factory=dict)  # signals by their idempotency keys


@dataclass
class Execution:
    """The record, the lines that the event log should have, and what the rules leave to the store."""

    record: ExecutionRecord
    lines: list[Line]
    waitpoints: dict[WaitpointId, Waitpoint] = field(default_factory=dict)
    signals: set[str] = field(default_factory=set)  # of every signal that was accepted
    steps: dict[tuple[str, int], bytes] = field(default_factory=dict)

    @property
    def state(self) -> StateVector:
        return self.record.state

    @property
    def phase(self) -> LifecyclePhase:
        return self.record.phase

    def apply(self, decided: Refusal | Changes) -> bool:
        """Make the changes; whether there was something to do."""
        if isinstance(decided, Refusal):
            return False
        self.record = decided.apply_to(self.record)
        self.lines += decided.events
        return bool(decided)

    def let_time_act(self, now: int) -> None:
        self.apply(due.apply_due(self.record, now))

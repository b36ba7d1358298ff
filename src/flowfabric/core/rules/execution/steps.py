"""Look up an operation in the transition table: it is refused, keeps the state, or moves to another one."""

from __future__ import annotations

from msgspec.structs import replace

from flowfabric.core.rules.execution.transitions import (
    KEEPS_ATTEMPT_STATE,
    SITUATIONS,
    TERMINAL,
    TRANSITIONS,
    Move,
    Refuse,
    Situation,
)
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.states import AttemptState, LifecyclePhase, StateVector, TerminalOutcome

_STARTED = (AttemptState.RUNNING_ATTEMPT, AttemptState.ATTEMPT_INTERRUPTED)

_Parts = tuple[str, ...]


def _parts(state: StateVector) -> _Parts:
    return state.lifecycle_phase, state.ownership_state, state.eligibility_state, state.terminal_outcome


def _by_parts() -> dict[_Parts, Situation]:
    """The situation of a vector with a carried attempt state; the one before a first attempt comes first."""
    first = AttemptState.PENDING_FIRST_ATTEMPT
    ordered = sorted(SITUATIONS.items(), key=lambda item: item[1].attempt_state is not first)
    found: dict[_Parts, Situation] = {}
    for situation, state in ordered:
        found.setdefault(_parts(state), situation)
        found.setdefault((*_parts(state), state.attempt_state), situation)
    return found


_BY_STATE = {state: situation for situation, state in SITUATIONS.items()}
_BY_PARTS = _by_parts()


def situation_of(state: StateVector) -> Situation:
    """The row of the table for a state.

    Every suspended state reads as SUSPENDED: an escalated one has the vector of a manual pause, and differs
    only in having no timeout left.
    """
    if state.lifecycle_phase is LifecyclePhase.SUSPENDED:
        return Situation.SUSPENDED
    found = _BY_STATE.get(state) or _BY_PARTS.get((*_parts(state), state.attempt_state))
    return found or _BY_PARTS[_parts(state)]


def decide(operation: str, state: StateVector) -> Refusal | StateVector:
    """The refusal, or the state after the operation; the same state if the table keeps it."""
    effect = TRANSITIONS[operation][situation_of(state)]
    if isinstance(effect, Refuse):
        return Refusal(effect.code)
    return _state_after(operation, state, effect.to) if isinstance(effect, Move) else state


def moves(operation: str, state: StateVector) -> bool:
    """Whether the operation has something to do in this state."""
    return isinstance(TRANSITIONS[operation][situation_of(state)], Move)


def _state_after(operation: str, before: StateVector, to: Situation) -> StateVector:
    after = SITUATIONS[to]
    if operation == "replay_execution":  # the next attempt is a replay, even if the execution has to wait first
        return replace(after, attempt_state=AttemptState.PENDING_REPLAY_ATTEMPT)
    if operation == "retry_execution" and before.attempt_state is not AttemptState.ATTEMPT_TERMINAL:
        return replace(after, attempt_state=before.attempt_state)  # it ended before this attempt started
    if to in TERMINAL:
        return ended(before, after.terminal_outcome)
    if operation.partition(":")[0] in KEEPS_ATTEMPT_STATE:
        return replace(after, attempt_state=before.attempt_state)
    return after


def ended(before: StateVector, outcome: TerminalOutcome) -> StateVector:
    """The terminal state. A started attempt ends with it; a pending one stays pending unless skipped."""
    if before.attempt_state in _STARTED:
        attempt = AttemptState.ATTEMPT_TERMINAL
    else:
        attempt = AttemptState.NONE if outcome is TerminalOutcome.SKIPPED else before.attempt_state
    return StateVector(lifecycle_phase=LifecyclePhase.TERMINAL, terminal_outcome=outcome, attempt_state=attempt)

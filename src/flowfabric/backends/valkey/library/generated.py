"""Lua modules generated from `flowfabric.core`: state vectors, the tables of the public state, and bounds.

They are constants that a server builds once, when it loads the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from flowfabric.core import limits, states
from flowfabric.core.contracts.waits.suspension import SuspensionReasonCode
from flowfabric.core.rules.execution import steps
from flowfabric.core.rules.execution.transitions import BLOCKED, SITUATIONS, Situation
from flowfabric.core.rules.waits.suspension import blocking_reason
from flowfabric.core.states import (
    PHASE_DEFAULTS,
    WAITING_CHILDREN_DEFAULTS,
    AttemptState,
    BlockingReason,
    LifecyclePhase,
    PublicState,
    StateVector,
    TerminalOutcome,
)

# The bounds that Lua checks.
BOUNDS = (
    "BATCH_MAX_ITEMS", "CAPABILITIES_CSV_MAX_BYTES", "CONDITION_JSON_MAX_BYTES", "DEFAULT_MAX_LIVE_FRAMES",
    "DEFAULT_MAX_RECLAIM_COUNT", "DEFAULT_MAX_REPLAY_COUNT", "DEFAULT_MAX_SIGNALS", "DEFAULT_RETENTION_MAXLEN",
    "DIMENSION_MAX_BYTES", "ENCODING_MAX_BYTES", "FAILURE_DETAIL_MAX_BYTES", "FRAME_LABEL_MAX_BYTES",
    "FRAME_METADATA_MAX_BYTES", "LOG_MESSAGE_MAX_BYTES", "MAX_FAILURE_DETAILS", "MAX_LOG_BYTES", "MAX_LOG_LEVEL",
    "MAX_LOG_RECORDS", "MIN_LOG_BYTES", "NAME_MAX_BYTES", "EXECUTION_KIND_MAX_BYTES", "MAX_REGISTERED_TASKS",
    "MAX_TASK_NAMES", "TASK_OPTIONS_MAX_BYTES",
    "FRAME_TYPE_MAX_BYTES", "GRAPH_PART_MAX_EDGES", "KID_MAX_BYTES", "MAX_BACKOFF_MULTIPLIER", "MAX_BUDGET_IDS",
    "MAX_CAPABILITIES", "MAX_COMPOSITE_DEPTH", "MAX_CONDITION_NODES", "MAX_DIMENSIONS", "MAX_DURATION_MS",
    "MAX_FLOW_EDGES", "MAX_FLOW_MEMBERS", "MAX_FRAME_PAYLOAD_BYTES", "MAX_OPEN_RESERVATIONS", "MAX_POLICY_COUNT",
    "MAX_QUORUM", "MAX_REQUESTED_RETRY_DELAY_MS", "MAX_SAFE_INTEGER", "MAX_SCOPE_LIMITS", "MAX_STEPS",
    "MAX_SUSPENSION_WAITPOINTS", "MAX_WATCHERS", "PRIORITY_MAX", "PRIORITY_MIN", "PROGRESS_PCT_MAX",
    "REJECTION_MAX_BYTES", "REOPENED_WAITPOINT_MS", "SECRET_MAX_BYTES", "SIGNAL_PAYLOAD_MAX_BYTES",
    "STEP_INPUT_DIGEST_MAX_BYTES", "STEP_NAME_MAX_BYTES", "STEP_RESULT_MAX_BYTES", "STREAM_READ_HARD_CAP",
    "TAG_KEY_MAX_BYTES", "TIMESTAMP_MAX_MS", "WAIT_FORM_MAX_BYTES",
)  # fmt: skip

# Fields that a transition leaves out; the attempt state is kept then.
_UNSAID = asdict(StateVector(lifecycle_phase=LifecyclePhase.RUNNABLE))
_PHASE, _ATTEMPT = "lifecycle_phase", "attempt_state"


def modules() -> dict[str, str]:
    """The text of each module by path."""
    rendered = {"vectors": _vectors(), "state_tables": _state_tables(), "bounds": _bounds()}
    head = "-- Generated from flowfabric.core by library/generated.py.\nreturn "
    return {f"generated/{name}.lua": f"{head}{render(table)}\n" for name, table in rendered.items()}


def vector(state: StateVector, *, keeps_attempt: bool = False) -> dict[str, str]:
    """A state as a step names it: phase, unusual fields, and the attempt state unless it is kept."""
    said = {name: str(value) for name, value in asdict(state).items() if value != _UNSAID[name] or name == _PHASE}
    said[_ATTEMPT] = str(state.attempt_state)
    if keeps_attempt:
        del said[_ATTEMPT]
    return said


def _vectors() -> dict[str, Any]:
    """Every situation by name; under KEPT those that keep the attempt state; endings by their event."""
    paused = {str(SITUATIONS[each].blocking_reason): vector(SITUATIONS[each], keeps_attempt=True) for each in BLOCKED}
    outcomes = [each for each in TerminalOutcome if each is not TerminalOutcome.NONE]
    return {
        **{situation.name: vector(state) for situation, state in SITUATIONS.items()},
        "KEPT": {situation.name: vector(state, keeps_attempt=True) for situation, state in SITUATIONS.items()},
        "BLOCKED": paused,
        "PAUSED_BY_FLOW_CANCEL": vector(_paused_by_flow_cancel(), keeps_attempt=True),
        "SUSPENDED_BY": {str(code): vector(_suspended(code)) for code in SuspensionReasonCode},
        "ENDED": dict(_ended(each, AttemptState.RUNNING_ATTEMPT) for each in outcomes),
        "UNATTEMPTED": dict(_ended(each, AttemptState.PENDING_FIRST_ATTEMPT) for each in outcomes),
    }


def _paused_by_flow_cancel() -> StateVector:
    held = SITUATIONS[Situation.BLOCKED_BY_OPERATOR]
    return StateVector(**asdict(held) | {"blocking_reason": BlockingReason.PAUSED_BY_FLOW_CANCEL})


def _suspended(code: SuspensionReasonCode) -> StateVector:
    return StateVector(**asdict(SITUATIONS[Situation.SUSPENDED]) | {"blocking_reason": blocking_reason(code)})


def _ended(outcome: TerminalOutcome, attempt: AttemptState) -> tuple[str, dict[str, str]]:
    """A pending attempt stays pending; the event has the name of the public state."""
    before = StateVector(lifecycle_phase=LifecyclePhase.RUNNABLE, attempt_state=attempt)
    after = steps.ended(before, outcome)
    return str(after.public_state), vector(after, keeps_attempt=after.attempt_state is attempt)


def _state_tables() -> dict[str, Any]:
    blocked = {str(SITUATIONS[each].blocking_reason): str(SITUATIONS[each].eligibility_state) for each in BLOCKED}
    return {
        "DEFAULTS": {str(phase): _dimensions(state) for phase, state in PHASE_DEFAULTS.items()},
        "WAITING_CHILDREN": _dimensions(WAITING_CHILDREN_DEFAULTS),
        "UNSAID": {name: str(value) for name, value in _UNSAID.items() if name not in (_PHASE, _ATTEMPT)},
        "BY_OUTCOME": {str(outcome): str(public) for outcome, public in states.BY_OUTCOME.items()},
        "BY_ELIGIBILITY": {str(each): str(public) for each, public in states.BY_ELIGIBILITY.items()},
        "BROKEN": str(states.BY_OUTCOME[TerminalOutcome.NONE]),
        "WAITING": str(PublicState.WAITING),
        "BLOCKED_BY_REASON": blocked,
    }


def _dimensions(state: StateVector) -> dict[str, str]:
    return {name: str(value) for name, value in asdict(state).items() if name != _PHASE}


def _bounds() -> dict[str, int]:
    return {name: getattr(limits, name) for name in BOUNDS}


def render(value: Any, indent: int = 0) -> str:
    """A Lua literal of text, whole numbers, and tables of them by name."""
    if isinstance(value, Mapping):
        if not any(isinstance(each, Mapping) for each in value.values()):
            return "{" + ", ".join(f"{name} = {render(each)}" for name, each in value.items()) + "}"
        pad = "  " * (indent + 1)
        rows = [f"{pad}{name} = {render(each, indent + 1)},\n" for name, each in value.items()]
        return "{\n" + "".join(rows) + "  " * indent + "}"
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value.isidentifier():
        return f'"{value}"'
    raise ValueError(f"{value!r} cannot be rendered as a Lua constant")

"""Every operation in every situation does exactly what the transition table says."""

from __future__ import annotations

import msgspec
import pytest

from flowfabric.core import contracts as c
from flowfabric.core.rules.execution.transitions import (
    AUTOMATIC,
    CREATED,
    KEEPS_ATTEMPT_STATE,
    OPERATORS,
    SITUATIONS,
    TERMINAL,
    TRANSITIONS,
    Effect,
    Keep,
    Move,
    Refuse,
    Situation,
    moves,
    state_of,
)
from flowfabric.core.states import AttemptState, StateVector
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import Driver, Subject
from tests.conformance.operations import OPERATIONS
from tests.conformance.situations import reach_for

pytestmark = pytest.mark.every_store

# Replays and refusals that callers expect are outcomes of the port, so their codes show as values.
OUTCOME_CODES: dict[type[object], str] = {c.NotReclaimable: "execution_not_reclaimable"}


def expected_state(operation: str, before: StateVector, move: Move, x: Subject) -> StateVector:
    after = state_of(move.to, attempted=x.attempted)
    if operation == "replay_execution":  # its next attempt is one of a replay, whatever it waits for
        return msgspec.structs.replace(after, attempt_state=AttemptState.PENDING_REPLAY_ATTEMPT)
    if move.to in TERMINAL and move.to is not Situation.SKIPPED and before.attempt_state.startswith("pending_"):
        return msgspec.structs.replace(after, attempt_state=before.attempt_state)
    if operation.split(":", maxsplit=1)[0] in KEEPS_ATTEMPT_STATE:
        return msgspec.structs.replace(after, attempt_state=before.attempt_state)
    return after


@pytest.mark.parametrize("operation", TRANSITIONS)
async def test_operation_in_situation(driver: Driver, operation: str) -> None:
    """One store for all situations: each has an execution of its own."""
    wrong = [problem for situation in Situation if (problem := await _problem(driver, operation, situation))]
    assert not wrong, "\n".join(wrong)
    await driver.probe.check()


async def _problem(driver: Driver, operation: str, situation: Situation) -> str:
    """What is not as the table says; empty when all is."""
    x = await reach_for(driver, operation, situation)
    before, effect = await driver.state(x), TRANSITIONS[operation][situation]
    if before != SITUATIONS[situation]:
        return f"{situation}: reached {before}"
    try:
        result = await OPERATIONS[operation](driver, x)
        code = OUTCOME_CODES.get(type(result), "")
    except FlowFabricError as error:
        code = error.code
    found = (code, await driver.state(x))
    wanted = _wanted(operation, situation, effect, before, x)
    return "" if found == wanted else f"{situation}: found {found}, wanted {wanted}"


def _wanted(
    operation: str, situation: Situation, effect: Effect, before: StateVector, x: Subject
) -> tuple[str, StateVector]:
    match effect:
        case Refuse(code):
            return recognised(operation, situation, code), before
        case Keep():
            return "", before
        case Move():
            return "", expected_state(operation, before, effect, x)


def recognised(operation: str, situation: Situation, code: str) -> str:
    """A repeated terminal call with the same fence is answered, not refused (G3)."""
    repeats = {
        ("complete_execution", Situation.COMPLETED),
        ("fail_execution", Situation.FAILED),
        ("fail_execution:retry", Situation.FAILED),
        ("fail_execution", Situation.RETRY_BACKOFF),
        ("fail_execution:retry", Situation.RETRY_BACKOFF),
        ("fail_execution", Situation.WAITING_RETRY),
        ("fail_execution:retry", Situation.WAITING_RETRY),
        ("cancel_execution", Situation.CANCELLED),
        ("move_to_waiting_children", Situation.WAITING_CHILDREN),
    }
    return "" if (operation, situation) in repeats else code


@pytest.mark.parametrize("situation", Situation)
async def test_the_public_state_of_every_situation_is_legal(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    assert await driver.backend.get_execution_state(x.execution_id) == SITUATIONS[situation].public_state
    assert await driver.probe.check()
    assert await driver.probe.dump()


def test_every_situation_is_reachable_from_create() -> None:
    seen, frontier = set(CREATED), list(CREATED)
    while frontier:
        here = frontier.pop()
        for _, start, end in moves():
            if start is here and end not in seen:
                seen.add(end)
                frontier.append(end)
    assert seen == set(Situation)


def test_nothing_gets_stuck() -> None:
    """From every live situation an automatic path leads to completed, unless a decision is documented (G1)."""
    ways = {(start, end) for operation, start, end in moves() if operation in AUTOMATIC}
    good = {Situation.COMPLETED}
    while True:
        more = {start for start, end in ways if end in good} - good
        if not more:
            break
        good |= more
    live = set(Situation) - set(TERMINAL)
    assert live - good == set(OPERATORS)


def test_every_live_situation_can_be_cancelled_and_expires_at_its_deadline() -> None:
    live = set(Situation) - set(TERMINAL)
    for operation, exempt in (
        ("cancel_execution", set()),
        ("expire_execution:deadline", {Situation.WAITING_REPLAY}),
    ):
        for situation in live - exempt:
            assert isinstance(TRANSITIONS[operation][situation], Move), (operation, situation)

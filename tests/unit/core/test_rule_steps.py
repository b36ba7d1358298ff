"""The transition table as the rules read it: every vector has its row, and every row its vector."""

from __future__ import annotations

import pytest

from flowfabric.core.rules.execution.steps import decide, moves, situation_of
from flowfabric.core.rules.execution.transitions import SITUATIONS, TERMINAL, TRANSITIONS, Keep, Move, Refuse, Situation
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.states import AttemptState, StateVector


@pytest.mark.parametrize("situation", [each for each in Situation if each is not Situation.ESCALATED])
def test_a_situation_is_recognised_by_its_vector(situation: Situation) -> None:
    assert situation_of(SITUATIONS[situation]) is situation


@pytest.mark.parametrize("situation", [each for each in Situation if "blocked" in each])
@pytest.mark.parametrize("attempt", ["pending_retry_attempt", "pending_replay_attempt"])
def test_a_block_is_recognised_whatever_attempt_comes_next(situation: Situation, attempt: str) -> None:
    blocked = SITUATIONS[situation]
    state = StateVector(
        lifecycle_phase=blocked.lifecycle_phase, eligibility_state=blocked.eligibility_state,
        blocking_reason=blocked.blocking_reason, attempt_state=AttemptState(attempt),
    )  # fmt: skip
    assert situation_of(state) is situation


def test_an_escalated_suspension_differs_from_others_in_its_timeout_alone() -> None:
    differ = {name for name, row in TRANSITIONS.items() if row[Situation.SUSPENDED] != row[Situation.ESCALATED]}
    assert differ == {name for name in TRANSITIONS if name.startswith("expire_suspension:")}


@pytest.mark.parametrize("operation", TRANSITIONS)
def test_every_operation_does_what_its_row_says(operation: str) -> None:
    for situation in set(Situation) - {Situation.ESCALATED}:
        before, effect = SITUATIONS[situation], TRANSITIONS[operation][situation]
        decided = decide(operation, before)
        match effect:
            case Refuse(code):
                assert decided == Refusal(code)
            case Keep():
                assert decided == before
            case Move(to):
                assert isinstance(decided, StateVector)
                wanted = SITUATIONS[to]
                assert decided.public_state is wanted.public_state
                assert decided.blocking_reason is wanted.blocking_reason
                assert to in TERMINAL or decided.ownership_state is wanted.ownership_state
        assert moves(operation, before) == isinstance(effect, Move)

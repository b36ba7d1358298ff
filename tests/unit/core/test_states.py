from __future__ import annotations

import itertools

import msgspec
import pytest

from flowfabric.core.states import (
    PHASE_DEFAULTS,
    WAITING_CHILDREN_DEFAULTS,
    AttemptState,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    PublicState,
    StateVector,
    TerminalOutcome,
    derive_public_state,
    violations,
)
from flowfabric.errors import Corruption

P, OWN, E, B, T, A = (
    LifecyclePhase, OwnershipState, EligibilityState, BlockingReason, TerminalOutcome, AttemptState,
)  # fmt: skip

RUNNABLE = StateVector(
    lifecycle_phase=P.RUNNABLE,
    eligibility_state=E.ELIGIBLE_NOW,
    blocking_reason=B.WAITING_FOR_WORKER,
    attempt_state=A.PENDING_FIRST_ATTEMPT,
)
ACTIVE = StateVector(lifecycle_phase=P.ACTIVE, ownership_state=OWN.LEASED, attempt_state=A.RUNNING_ATTEMPT)
SUSPENDED = StateVector(
    lifecycle_phase=P.SUSPENDED, blocking_reason=B.WAITING_FOR_SIGNAL, attempt_state=A.ATTEMPT_INTERRUPTED
)
DONE = StateVector(lifecycle_phase=P.TERMINAL, terminal_outcome=T.SUCCESS, attempt_state=A.ATTEMPT_TERMINAL)


def changed(state: StateVector, **dimensions: object) -> StateVector:
    members = {name: getattr(state, name) for name in state.__struct_fields__}
    return StateVector(**members | dimensions)


def test_every_combination_has_one_public_state() -> None:
    """The seventh dimension follows from the other six, and from three of them only."""
    for phase, eligibility, outcome in itertools.product(P, E, T):
        expected = derive_public_state(phase, eligibility, outcome)
        assert expected in PublicState
        for owner, reason, attempt in itertools.product(OWN, B, A):
            state = StateVector(
                lifecycle_phase=phase,
                ownership_state=owner,
                eligibility_state=eligibility,
                blocking_reason=reason,
                terminal_outcome=outcome,
                attempt_state=attempt,
            )
            assert state.public_state is expected


@pytest.mark.parametrize(
    ("eligibility", "public"),
    [
        (E.ELIGIBLE_NOW, PublicState.WAITING),
        (E.NOT_ELIGIBLE_UNTIL_TIME, PublicState.DELAYED),
        (E.BLOCKED_BY_DEPENDENCIES, PublicState.WAITING_CHILDREN),
        (E.BLOCKED_BY_BUDGET, PublicState.RATE_LIMITED),
        (E.BLOCKED_BY_QUOTA, PublicState.RATE_LIMITED),
        (E.BLOCKED_BY_ROUTE, PublicState.WAITING),
        (E.BLOCKED_BY_LANE_STATE, PublicState.WAITING),
        (E.BLOCKED_BY_OPERATOR, PublicState.WAITING),
        (E.NOT_APPLICABLE, PublicState.WAITING),
    ],
)
def test_what_is_not_running_shows_why_it_waits(eligibility: EligibilityState, public: PublicState) -> None:
    for phase in (P.SUBMITTED, P.RUNNABLE):
        assert derive_public_state(phase, eligibility, T.NONE) is public


@pytest.mark.parametrize(
    ("outcome", "public"),
    [
        (T.SUCCESS, PublicState.COMPLETED),
        (T.FAILED, PublicState.FAILED),
        (T.CANCELLED, PublicState.CANCELLED),
        (T.EXPIRED, PublicState.EXPIRED),
        (T.SKIPPED, PublicState.SKIPPED),
        (T.NONE, PublicState.FAILED),
    ],
)
def test_what_has_ended_shows_how(outcome: TerminalOutcome, public: PublicState) -> None:
    for eligibility in E:
        assert derive_public_state(P.TERMINAL, eligibility, outcome) is public


def test_active_and_suspended_show_themselves_whatever_else_holds() -> None:
    for eligibility, outcome in itertools.product(E, T):
        assert derive_public_state(P.ACTIVE, eligibility, outcome) is PublicState.ACTIVE
        assert derive_public_state(P.SUSPENDED, eligibility, outcome) is PublicState.SUSPENDED


@pytest.mark.parametrize("state", [RUNNABLE, ACTIVE, SUSPENDED, DONE])
def test_ordinary_states_are_legal(state: StateVector) -> None:
    assert violations(state) == []


@pytest.mark.parametrize(
    "state",
    [
        changed(ACTIVE, ownership_state=OWN.LEASE_EXPIRED_RECLAIMABLE, attempt_state=A.ATTEMPT_INTERRUPTED),
        changed(ACTIVE, ownership_state=OWN.LEASE_REVOKED, attempt_state=A.ATTEMPT_INTERRUPTED),
        changed(RUNNABLE, attempt_state=A.ATTEMPT_INTERRUPTED),
        changed(RUNNABLE, attempt_state=A.ATTEMPT_INTERRUPTED, eligibility_state=E.BLOCKED_BY_DEPENDENCIES),
        changed(RUNNABLE, attempt_state=A.ATTEMPT_INTERRUPTED, eligibility_state=E.NOT_ELIGIBLE_UNTIL_TIME),
        changed(RUNNABLE, attempt_state=A.PENDING_REPLAY_ATTEMPT),
        changed(RUNNABLE, attempt_state=A.PENDING_REPLAY_ATTEMPT, eligibility_state=E.BLOCKED_BY_DEPENDENCIES),
        changed(DONE, terminal_outcome=T.SKIPPED, attempt_state=A.NONE),
        changed(DONE, terminal_outcome=T.CANCELLED, attempt_state=A.PENDING_FIRST_ATTEMPT),
        changed(DONE, terminal_outcome=T.EXPIRED, attempt_state=A.PENDING_RETRY_ATTEMPT),
    ],
)
def test_odd_but_expected_states_are_legal(state: StateVector) -> None:
    assert violations(state) == []


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        (changed(DONE, ownership_state=OWN.LEASED), "a terminal execution holds no lease"),
        (changed(SUSPENDED, ownership_state=OWN.LEASED), "a suspended execution holds no lease"),
        (changed(RUNNABLE, terminal_outcome=T.SUCCESS), "only a terminal execution has an outcome"),
        (changed(DONE, terminal_outcome=T.NONE), "a terminal execution has an outcome"),
        (
            changed(ACTIVE, attempt_state=A.PENDING_FIRST_ATTEMPT),
            "an active execution is past its first attempt's start",
        ),
        (changed(DONE, eligibility_state=E.ELIGIBLE_NOW), "a terminal execution is not eligible"),
        (changed(ACTIVE, eligibility_state=E.ELIGIBLE_NOW), "an active execution is not eligible"),
        (
            changed(RUNNABLE, lifecycle_phase=P.SUBMITTED, ownership_state=OWN.LEASED),
            "a submitted execution holds no lease",
        ),
        (changed(RUNNABLE, attempt_state=A.RUNNING_ATTEMPT), "a runnable execution runs no attempt"),
        (changed(ACTIVE, ownership_state=OWN.UNOWNED), "an active execution is owned"),
        (
            changed(RUNNABLE, eligibility_state=E.NOT_APPLICABLE),
            "a runnable execution says whether it is eligible",
        ),
    ],
)
def test_each_illegal_combination_is_named(state: StateVector, rule: str) -> None:
    assert violations(state) == [rule]


def test_an_absent_dimension_reads_as_its_default() -> None:
    state = StateVector(lifecycle_phase=P.ACTIVE)
    assert (state.ownership_state, state.eligibility_state) == (OWN.UNOWNED, E.NOT_APPLICABLE)
    assert (state.blocking_reason, state.terminal_outcome, state.attempt_state) == (B.NONE, T.NONE, A.NONE)


def test_a_record_is_read_with_its_defaults() -> None:
    assert StateVector.from_record({"lifecycle_phase": "active", "priority": "3"}) == PHASE_DEFAULTS[P.ACTIVE]
    revoked = StateVector.from_record({"lifecycle_phase": "active", "ownership_state": "lease_revoked"})
    assert revoked.ownership_state is OWN.LEASE_REVOKED
    waits = {"lifecycle_phase": "runnable", "public_state": "waiting_children"}
    assert StateVector.from_record(waits) == WAITING_CHILDREN_DEFAULTS
    again = StateVector.from_record({**waits, "attempt_state": "attempt_interrupted"})
    assert again == msgspec.structs.replace(WAITING_CHILDREN_DEFAULTS, attempt_state=A.ATTEMPT_INTERRUPTED)


@pytest.mark.parametrize("phase", P)
def test_the_default_of_a_phase_is_a_legal_state_of_it(phase: LifecyclePhase) -> None:
    assert PHASE_DEFAULTS[phase].lifecycle_phase is phase
    assert violations(PHASE_DEFAULTS[phase]) == []


def test_the_default_of_a_member_that_waits_is_a_legal_state_whose_public_state_says_so() -> None:
    assert WAITING_CHILDREN_DEFAULTS.public_state is PublicState.WAITING_CHILDREN
    assert violations(WAITING_CHILDREN_DEFAULTS) == []


@pytest.mark.parametrize("record", [{}, {"lifecycle_phase": "asleep"}, {"lifecycle_phase": ""}])
def test_a_record_without_a_known_state_is_corrupt(record: dict[str, str]) -> None:
    with pytest.raises(Corruption) as caught:
        StateVector.from_record(record)
    assert caught.value.code == "corruption"

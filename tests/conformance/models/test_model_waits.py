"""Random waits: suspensions, signals, time-outs, operators and steps in any order, beside all else that happens."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from flowfabric.core import contracts as c
from flowfabric.core.conditions import referenced_waitpoint_keys
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import LifecyclePhase
from tests.conformance.acts import BACKOFF, DEADLINE, TIMEOUT, TTL, agree
from tests.conformance.driver import Subject
from tests.conformance.random_conditions import KEYS, NAMES, SOURCES, condition
from tests.conformance.waiting_acts import Plan, Said, WaitingActs
from tests.soaking import lives
from tests.stores.probe import Store

pytestmark = pytest.mark.every_store

MOMENTS = (1, 1, BACKOFF, BACKOFF, BACKOFF, TTL, TTL, TIMEOUT, DEADLINE)
REASONS = (
    c.SuspensionReasonCode.MANUAL_PAUSE, c.SuspensionReasonCode.STEP_BOUNDARY,
    c.SuspensionReasonCode.WAITING_FOR_APPROVAL, c.SuspensionReasonCode.WAITING_FOR_SIGNAL,
)  # fmt: skip
CLOSERS = (c.CancelSource.OPERATOR_OVERRIDE, c.CancelSource.LEASE_HOLDER)
OTHER_ACTS = (
    "get_to_work", "replay", "retry", "claim", "claim_in_one_step", "renew", "complete", "fail", "delay", "cancel",
    "reach_the_deadline", "reach_the_attempt_timeout", "notice_an_expired_lease", "revoke", "reclaim", "promote",
    "block", "unblock",
)  # fmt: skip


def mostly(rng: Random) -> bool:
    return rng.random() < 0.8


def some_keys(rng: Random) -> list[WaitpointKey]:
    return rng.choices(KEYS, k=rng.randint(0, 3))


def plan(rng: Random) -> Plan:
    return Plan(
        condition(rng), mostly(rng), rng.choice(REASONS), rng.choice([None, BACKOFF, TTL]),
        rng.choice(list(TimeoutBehavior)), rng.choice([0, 0, BACKOFF]), rng.random() < 0.5,
    )  # fmt: skip


def signals(rng: Random) -> list[Said]:
    return [
        Said(
            rng.randint(0, 7), rng.choice(NAMES), rng.choice(SOURCES), rng.choice(["", "", "", "", "id", "key"]),
            rng.random() < 0.1,
        )
        for _ in range(rng.randint(0, 4))
    ]  # fmt: skip


class Waits(WaitingActs):
    """Workers that wait and record steps, whoever signals to them, operators, and the engine as time passes."""

    @initialize(seed=st.binary(min_size=8, max_size=8))
    def have_some_running(self, seed: bytes) -> None:
        self.rng = Random(seed)
        self.subjects = [self.create() for _ in range(3)]
        for x in self.subjects:
            self.claim_in_one_step(x)

    @rule()
    def act(self) -> None:
        """One act, drawn from the seed of the run: single choices would become the simpler, the longer a run is."""
        name = self.rng.choices(list(ACTS), weights=[weight for weight, _ in ACTS.values()])[0]
        number = self.rng.randrange(len(self.subjects))
        note(f"{name}, to number {number}")
        ACTS[name][1](self, self.rng, self.subjects[number])

    def who_waits(self, rng: Random, x: Subject) -> Subject:
        """Mostly one that is suspended, if there is one."""
        waiting = [each for each in self.subjects if self.of(each).phase is LifecyclePhase.SUSPENDED]
        return rng.choice(waiting) if waiting and mostly(rng) else x

    def wait(self, rng: Random, x: Subject) -> None:
        """A handler that runs into a wait, which some have answered before, and others answer."""
        wanted = plan(rng)
        self.get_to_work(x)
        self.make_waitpoints(x, [key for key in referenced_waitpoint_keys(wanted.condition) if rng.random() < 0.5])
        self.signal(x, signals(rng))
        self.suspend(x, wanted)
        self.signal(x, signals(rng))

    def dislike(self, rng: Random, x: Subject) -> None:
        """A handler that goes on after its wait, and mostly finds signals that do not fit."""
        ended = [each for each in self.subjects if (s := self.of(each).record.suspension) and s.resume_signals]
        x = rng.choice(ended) if ended and mostly(rng) else x
        if mostly(rng):
            self.get_to_work(x)
        self.reject(x, rng.randint(0, 2))

    def take_steps(self, rng: Random, x: Subject) -> None:
        if rng.random() < 0.5:
            self.get_to_work(x)
        for _ in range(2):
            self.record_a_step(x, rng.choice(NAMES), rng.randint(0, 1), not mostly(rng))


Act = Callable[[Waits, Random, Subject], None]


def _act_of(name: str) -> Act:
    return lambda w, rng, x: getattr(w, name)(x)


# How often each happens, beside the others.
ACTS: dict[str, tuple[int, Act]] = {
    "wait": (6, Waits.wait),
    "signal": (4, lambda w, rng, x: w.signal(w.who_waits(rng, x), signals(rng), open_ones=mostly(rng))),
    "signal_without_a_token": (4, lambda w, rng, x: w.signal_without_a_token(
        w.who_waits(rng, x), rng.choice(NAMES), rng.choice(SOURCES), rng.choice([None, *KEYS]))),
    "time_out": (4, lambda w, rng, x: w.time_out(w.who_waits(rng, x), when_due=mostly(rng))),
    "resume_as_an_operator": (2, lambda w, rng, x: w.resume_as_an_operator(x, rng.choice([0, BACKOFF]))),
    "close_a_waitpoint": (2, lambda w, rng, x: w.close_a_waitpoint(
        x, mostly(rng), rng.randint(0, 7), rng.choice(CLOSERS))),
    "reject": (4, Waits.dislike),
    "make_waitpoints": (1, lambda w, rng, x: w.make_waitpoints(x, some_keys(rng))),
    "suspend": (1, lambda w, rng, x: w.suspend(x, plan(rng))),
    "say_the_same_suspend_again": (1, lambda w, rng, x: w.say_the_same_suspend_again(x)),
    "take_steps": (3, Waits.take_steps),
    "let_the_engine_look": (2, lambda w, rng, x: w.let_the_engine_look(x)),
    "let_time_pass": (3, lambda w, rng, x: w.let_time_pass(rng.choice(MOMENTS))),
    **{name: (1, _act_of(name)) for name in OTHER_ACTS},
}  # fmt: skip


def test_the_store_agrees_with_the_model_of_waits(store: Store) -> None:
    agree(Waits, store, max_examples=lives(store, 15, soak=150), step_count=40)

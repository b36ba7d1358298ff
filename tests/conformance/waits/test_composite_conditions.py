"""Composite conditions (D6): what the store makes of any condition and any signals is what two plain readings say."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from flowfabric.core import contracts as c
from flowfabric.core.condition_json import condition_to_json
from flowfabric.core.conditions import (
    AllOf,
    Count,
    Delivery,
    ResumeCondition,
    Single,
    is_satisfied,
    referenced_waitpoint_keys,
)
from flowfabric.core.ids import SignalId, WaitpointKey
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict
from tests.conformance.driver import Driver, Subject
from tests.conformance.random_conditions import KEYS, NAMES, SOURCES, tree
from tests.conformance.suspending import KID, SECRET, Suspender
from tests.soaking import lives
from tests.stores.probe import Store

pytestmark = pytest.mark.every_store

Place = c.IssuedWaitpoint | c.PendingWaitpointCreated
ELSEWHERE = WaitpointKey("elsewhere")


class Said(NamedTuple):
    """A signal at the waitpoint of a key; "elsewhere" is a waitpoint of an earlier suspension."""

    key: WaitpointKey
    name: str
    source: tuple[str, str]
    is_repeat: bool  # of the signal before it


class Sent(NamedTuple):
    """A signal that was accepted for the condition."""

    signal_id: SignalId
    said: Said


def said(rng: Random) -> Said:
    return Said(rng.choice((*KEYS, *KEYS, ELSEWHERE)), rng.choice(NAMES), rng.choice(SOURCES), rng.random() < 0.2)


def naive(node: dict[str, Any], sent: list[Sent]) -> bool:
    """The condition as other programs read it, evaluated over everything that was sent."""
    if node["kind"] == "AllOf":
        return all(naive(member, sent) for member in node["members"])
    keys = node["waitpoints"] if node["kind"] == "Count" else [node["waitpoint_key"]]
    matcher = node["matcher"] or {"kind": "Wildcard"}
    seen = [each for each in sent if each.said.key in keys and matcher.get("name", each.said.name) == each.said.name]
    if node["kind"] == "Single":
        return len(seen) > 0
    if node["count_kind"] == "DistinctWaitpoints":
        return sum(any(each.said.key == key for each in seen) for key in keys) >= node["n"]
    told_apart = {each.signal_id for each in seen}
    if node["count_kind"] == "DistinctSources":
        told_apart = {" by ".join(each.said.source) for each in seen}  # type: ignore[misc]
    return len(told_apart) >= node["n"]


class Trial:
    """One condition, waited for by one execution, and signals one after the other."""

    def __init__(self, waits: Suspender, condition: AllOf | Count) -> None:
        self.waits = waits
        self.condition: ResumeCondition = condition
        self.tree = json.loads(condition_to_json(condition))["tree"]
        self.places: dict[WaitpointKey, Place] = {}
        self.sent: list[Sent] = []

    async def run(self, ahead: set[WaitpointKey], early: list[Said], late: list[Said]) -> None:
        self.x = await self.waits.running()
        await self._wait_once_before()
        for key in [key for key in referenced_waitpoint_keys(self.condition) if key in ahead]:
            self.places[key] = await self.waits.pending(self.x, key)
        for each in early:
            assert not await self._resumes_by(each)
        is_met = await self._suspend()
        assert is_met == self._should_be_met()
        for each in late if not is_met else []:
            is_met = await self._resumes_by(each)
            assert is_met == self._should_be_met()
            assert (await self._state() is not PublicState.SUSPENDED) == is_met
            if is_met:
                break
        await self.waits.driver.cancel(self.x)

    async def _wait_once_before(self) -> None:
        """So that there is an old waitpoint, whose signals count for nothing any more."""
        old = c.FreshWaitpoint.new(KEYS[0])
        self.places[ELSEWHERE] = (await self.waits.suspend(self.x, Single(KEYS[0]), old)).waitpoints[0]
        await self.waits.resume(self.x)
        await self.waits.driver.grant_and_claim(self.x)

    async def _suspend(self) -> bool:
        bindings = [self._binding(key) for key in referenced_waitpoint_keys(self.condition)]
        args = self.waits.args(self.x, self.condition, *reversed(bindings))
        result = await self.waits.backend.suspend_execution(args)
        self.places |= {each.waitpoint_key: each for each in result.waitpoints}
        return isinstance(result, c.SuspensionAlreadySatisfied)

    def _binding(self, key: WaitpointKey) -> c.WaitpointBinding:
        if key in self.places:
            return c.PendingWaitpoint(waitpoint_id=self.places[key].waitpoint_id, waitpoint_key=key)
        return c.FreshWaitpoint.new(key)

    async def _resumes_by(self, each: Said) -> bool:
        """Send it, and say whether the execution went on because of it."""
        if each.key not in self.places:
            return False
        repeats = self.sent[-1].signal_id if each.is_repeat and self.sent else None
        signal_id = repeats or SignalId.new()
        try:
            outcome = await self.waits.signal(
                self.x, self.places[each.key], each.name, signal_id=signal_id, source_type=each.source[0],
                source_identity=each.source[1],
            )  # fmt: skip
        except Conflict:
            assert each.key is ELSEWHERE
            return False
        assert isinstance(outcome, c.SignalDuplicate) == bool(repeats)
        assert repeats or each.key is not ELSEWHERE
        self.sent += [] if repeats else [Sent(signal_id, each)]
        return isinstance(outcome, c.ResumeTriggered)

    def _should_be_met(self) -> bool:
        deliveries = [
            Delivery(
                signal_id=each.signal_id, signal_name=each.said.name, source_type=each.said.source[0],
                source_identity=each.said.source[1], waitpoint_id=self.places[each.said.key].waitpoint_id,
            )
            for each in self.sent
        ]  # fmt: skip
        keys = {at.waitpoint_id: key for key, at in self.places.items() if key is not ELSEWHERE}
        by_reading = is_satisfied(self.condition, deliveries, keys)
        assert by_reading == naive(self.tree, self.sent)
        return by_reading

    async def _state(self) -> PublicState:
        return (await self.waits.driver.info(self.x)).public_state


def test_the_store_evaluates_as_plain_readings_do(store: Store) -> None:
    @settings(max_examples=lives(store, 150, soak=1_000), deadline=None, suppress_health_check=list(HealthCheck))
    @given(seed=st.binary(min_size=8, max_size=8))
    def check(seed: bytes) -> None:
        rng = Random(seed)
        condition, ahead = tree(rng, 4), set(rng.sample(KEYS, rng.randint(0, 3)))
        early, late = ([said(rng) for _ in range(rng.randint(0, most))] for most in (8, 24))
        note(f"{condition}, made ahead: {ahead}, said early: {early}, late: {late}")
        runner.run(Trial(waits, condition).run(ahead, early, late))

    with asyncio.Runner() as runner:
        probe = runner.run(store.open())
        waits = Suspender(Driver(probe))
        runner.run(waits.rotate(Subject(waits.driver.mint()), KID, SECRET.reveal(), 0))
        check()
        runner.run(probe.close())

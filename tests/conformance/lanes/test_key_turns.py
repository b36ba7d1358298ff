"""Who of a concurrency key is queued and who waits: random lives, compared with `core/rules` after every step."""

from __future__ import annotations

import random
from bisect import insort
from collections import Counter

import pytest

from flowfabric.core.contracts.events import EventKind
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution import turns
from flowfabric.core.rules.execution.order import score
from flowfabric.core.rules.execution.turns import KeyTurns, Place
from flowfabric.core.states import PublicState
from tests.conformance.driver import Driver, Subject
from tests.soaking import examples

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
SEEDS = range(examples(3, soak=60))
STEPS = 40
MOST = 12


class Key:
    """One concurrency key, as rows that the rules decide about: running, and queued and waiting by capability."""

    def __init__(self) -> None:
        self.limit = turns.DEFAULT_KEY_CONCURRENCY
        self.running: list[str] = []
        self.queued: dict[str, list[Place]] = {"": [], "gpu": []}
        self.waiting: dict[str, list[Place]] = {"": [], "gpu": []}
        self.unblocked: Counter[str] = Counter()  # how often each left the wait

    def turns(self, needs: str) -> KeyTurns:
        return KeyTurns(self.limit, len(self.running), self.queued[needs], self.waiting[needs])

    def enter(self, needs: str, place: Place) -> None:
        turn = turns.enter(self.turns(needs), place.score)
        if turn.displaced:
            insort(self.waiting[needs], self.queued[needs].pop())
        insort((self.queued if turn.is_queued else self.waiting)[needs], place)
        self.pass_on()

    def pass_on(self) -> None:
        for needs in self.queued:
            while ids := turns.pass_on(self.turns(needs)):
                for _ in ids:
                    insort(self.queued[needs], self.waiting[needs].pop(0))
                self.unblocked.update(ids)

    def take(self, count: int, groups: tuple[str, ...]) -> list[str]:
        """A claim goes through the queue in order. What it meets while the key is full waits again."""
        taken: list[str] = []
        while len(taken) < count:
            heads = [(self.queued[needs][0], needs) for needs in groups if self.queued[needs]]
            if not heads:
                break
            place, needs = min(heads)
            self.queued[needs].pop(0)
            if turns.may_start(self.turns(needs)):
                self.running.append(place.execution_id)
                taken.append(place.execution_id)
                self.pass_on()
            else:
                insort(self.waiting[needs], place)
        return taken

    def leave(self, execution_id: str) -> None:
        if execution_id in self.running:
            self.running.remove(execution_id)
        for places in (*self.queued.values(), *self.waiting.values()):
            places[:] = [place for place in places if place.execution_id != execution_id]
        self.pass_on()

    def states(self) -> dict[str, PublicState]:
        found = dict.fromkeys(self.running, PublicState.ACTIVE)
        for group, state in ((self.queued, PublicState.WAITING), (self.waiting, PublicState.RATE_LIMITED)):
            found |= {place.execution_id: state for places in group.values() for place in places}
        return found


class Lives:
    """Draws what happens next, does it in the store and to the rows, and compares."""

    def __init__(self, driver: Driver, chance: random.Random) -> None:
        self.driver, self.chance, self.key = driver, chance, Key()
        self.subjects: dict[str, Subject] = {}
        self.made = 0

    async def submit(self) -> None:
        if len(self.key.states()) >= MOST:
            return
        needs, priority = self.chance.choice(["", "", "gpu"]), self.chance.randint(0, 3)
        self.made += 1
        await self.driver.clock.advance(1)
        x = await self.driver.create(concurrency_key="k", priority=priority, policy=GPU if needs else None)
        self.subjects[x.execution_id] = x
        self.key.enter(needs, Place(score(self.made, priority), x.execution_id))

    async def take(self) -> None:
        count, capable = self.chance.randint(1, 3), self.chance.random() < 0.5
        taken = await self.driver.take(count, worker_capabilities=("gpu",) if capable else ())
        self.subjects |= {x.execution_id: x for x in taken}
        expected = self.key.take(count, ("", "gpu") if capable else ("",))
        assert [x.execution_id for x in taken] == expected

    async def complete(self) -> None:
        if self.key.running:
            execution_id = self.chance.choice(self.key.running)
            await self.driver.complete(self.subjects[execution_id])
            self.key.leave(execution_id)

    async def cancel(self) -> None:
        if found := list(self.key.states()):
            execution_id = self.chance.choice(found)
            await self.driver.cancel(self.subjects[execution_id])
            self.key.leave(execution_id)

    async def configure(self) -> None:
        self.key.limit = self.chance.randint(1, 4)
        await self.driver.configure(key_concurrency=self.key.limit)
        self.key.pass_on()

    async def compare(self) -> None:
        for execution_id, state in self.key.states().items():
            assert (await self.driver.info(self.subjects[execution_id])).public_state is state, execution_id

    async def compare_events(self) -> None:
        """An execution that need not wait never leaves a wait."""
        for execution_id, x in self.subjects.items():
            events = [event.event for event in (await self.driver.backend.history(x.execution_id)).events]
            assert events.count(EventKind.UNBLOCKED) == self.key.unblocked[execution_id], events


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_turns_of_a_key_are_those_of_the_rules(driver: Driver, seed: int) -> None:
    lives = Lives(driver, random.Random(seed))
    deeds = [lives.submit, lives.take, lives.complete, lives.cancel, lives.configure]
    for _ in range(STEPS):
        (deed,) = lives.chance.choices(deeds, [6, 4, 4, 1, 1])
        await deed()
        await lives.compare()
    await lives.compare_events()
    await driver.probe.check()

"""Clients, workers and engines die at any call: each flow comes to its right end, and no member ends twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.contracts.events import ENDINGS
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import Partition
from tests.conformance.flow_model import PUBLIC, Edge, FlowModel
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_flow_inputs import flow_in, home
from tests.soaking import SOAK, examples
from tests.valkey.driver import Driver
from tests.valkey.faults.mortals import LEASE_MS, Killed, MortalWorker, mortal

# On each of four topologies, and each with seeds of its own: 500 in a long run.
SEEDS = examples(3, soak=40)
TOPOLOGIES = ("embedded", "batched", "cluster", "three_nodes")
FLOWS = 4
MOST_ROUNDS = 3_000
RISK = 0.15
KINDS = [c.DependencyKind.SUCCESS_ONLY] * 4 + [c.DependencyKind.ANY_TERMINAL, c.DependencyKind.ON_FAILURE]


class Planned:
    """A random graph, which of its members fail, and how it ends whatever happens in between."""

    def __init__(self, driver: Driver, rng: random.Random, number: int) -> None:
        self.graph = Graph(driver, flow_in(driver, home(driver)))
        names = [f"f{number}n{at}" for at in range(300 if rng.random() < 0.02 else rng.randint(1, 12))]
        self.failing = frozenset(name for name in names if rng.random() < 0.15)
        edges = [
            Edge(up, rng.choice(KINDS), name)
            for at, name in enumerate(names)
            for up in rng.sample(names[:at], min(at, rng.choice([0, 1, 1, 2, 3])))
        ]
        joins = {name: self._policy(rng, edges, name) for name in sorted({edge.down for edge in edges})}
        self.model = FlowModel(fail_fast=False)
        self.model.add(names, edges, joins)
        self.args = c.SubmitFlowArgs(
            flow_id=self.graph.flow_id,
            namespace="tests",  # type: ignore[arg-type]
            members=tuple(self.graph.member(name) for name in names),
            edges=tuple(self.graph.edge(edge.up, edge.kind, edge.down) for edge in edges),
            joins=tuple(
                c.FlowJoin(downstream_execution_id=self.graph.mint(name), policy=policy)
                for name, policy in joins.items()
            ),
        )

    @staticmethod
    def _policy(rng: random.Random, edges: list[Edge], name: str) -> c.EdgeDependencyPolicy:
        """Such that it does not matter who ends first."""
        count = sum(edge.down == name for edge in edges)
        if rng.random() < 0.6:
            return c.AllOfEdges()
        return c.QuorumOfEdges(k=rng.randint(1, count), on_satisfied=c.OnSatisfied.LET_RUN)

    def expected(self) -> dict[str, str]:
        while waiting := [name for name, state in self.model.nodes.items() if state == "waiting"]:
            self.model.start(waiting[0])
            self.model.end(waiting[0], "failed" if waiting[0] in self.failing else "success")
        return {name: PUBLIC[state] for name, state in self.model.nodes.items()}


class Fate:
    """Everybody who works on the flows of one seed, killed and replaced as the seed wants it."""

    def __init__(self, driver: Driver, rng: random.Random) -> None:
        self.driver = driver
        self.random = rng
        self.partition: Partition = home(driver)
        self.flows = [Planned(driver, rng, number) for number in range(FLOWS)]
        self.failing = frozenset[str]().union(*(flow.failing for flow in self.flows))
        self.unsent = list(self.flows)
        self.workers: list[MortalWorker] = []
        self.killed = Counter[str]()

    def _process(self) -> ValkeyBackend:
        return mortal(self.driver.backend, self.random, RISK)

    async def submit(self) -> None:
        """Until an answer comes: the same flow again is the same flow."""
        if self.unsent:
            await self._process().submit_flow(self.unsent[-1].args)
            self.unsent.pop()

    async def work(self) -> None:
        if len(self.workers) < 2:
            number = self.killed["work"] + len(self.workers)
            self.workers.append(MortalWorker(self._process(), self.partition, number, self.failing))
        worker = self.random.choice(self.workers)
        try:
            await worker.round(self.random.randint(1, 8))
        except Killed:
            self.workers.remove(worker)
            raise

    async def keep_up(self) -> None:
        """An engine's turn, when some leases have run out."""
        if self.random.random() < 0.3:
            await self.driver.clock.advance(LEASE_MS + 1)
        await self._process().run_due_work(b.RunDueWorkArgs(partition=self.partition))

    async def have_ended(self) -> bool:
        states = [await self.driver.backend.describe_flow(flow.graph.flow_id) for flow in self.flows]
        return all(state is not None and state.ended_at is not None for state in states)

    async def run(self) -> None:
        for turn in range(MOST_ROUNDS):
            name = self.random.choices(["submit", "work", "keep_up"], [2, 6, 1])[0]
            try:
                await getattr(self, name)()
            except Killed:
                self.killed[name] += 1
            if turn % 10 == 9 and not self.unsent and await self.have_ended():
                return
        raise AssertionError(f"not ended after {MOST_ROUNDS} rounds")


async def ends(driver: Driver) -> Counter[ExecutionId | None]:
    """How often each execution has ended, by the event log."""
    found: Counter[ExecutionId | None] = Counter()
    page = c.EventPage(more=True)
    while page.more:
        args = c.ReadEventsArgs(events=tuple(ENDINGS), partition=home(driver), cursor=page.cursor, limit=1_000)
        page = await driver.backend.read_events(args)
        assert not page.truncated
        found.update(event.execution_id for event in page.events)
    return found


@pytest.mark.parametrize("number", range(SEEDS))
async def test_every_flow_comes_to_its_right_end_whoever_is_killed(driver: Driver, topology: str, number: int) -> None:
    seed = number * len(TOPOLOGIES) + TOPOLOGIES.index(topology)
    fate = Fate(driver, random.Random(seed))
    await fate.run()
    for flow in fate.flows:
        expected = flow.expected()
        found = {name: str(await flow.graph.state(name)) for name in expected}
        assert found == expected, seed
        assert await flow.graph.flow_state() == flow.model.state, seed
    ids = [execution_id for flow in fate.flows for execution_id in flow.graph.ids.values()]
    assert await ends(driver) == dict.fromkeys(ids, 1), seed
    if SOAK or number == 0:
        await fate.flows[0].graph.check()

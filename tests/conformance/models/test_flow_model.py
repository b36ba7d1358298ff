"""Random graphs of up to 60 members with random outcomes, cancels, replays and growth, against `core/rules`."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.core.rules.flows.work import FlowWork
from tests.conformance.driver import Driver, Subject
from tests.conformance.flow_model import LIVE, Edge, FlowModel
from tests.conformance.flowing import Graph
from tests.soaking import examples

pytestmark = pytest.mark.every_store

FULL = 256  # edges that a step of the store takes at once
SEEDS = range(examples(6, soak=80))
KINDS = [c.DependencyKind.SUCCESS_ONLY] * 6 + [c.DependencyKind.ANY_TERMINAL] * 2 + [c.DependencyKind.ON_FAILURE]
MOST_REPLAYS = 9


class Player:
    """Draws a graph and operations from a seed, and does each in the store and in the model."""

    def __init__(
        self,
        driver: Driver,
        seed: int,
        flow_id: FlowId | None = None,
        work: FlowWork | None = None,
        budget: int = FULL,
    ) -> None:
        self.random = random.Random(seed)
        self.driver = driver
        self.graph = Graph(driver, flow_id)
        fail_fast = self.random.random() < 0.2
        self.model = FlowModel(fail_fast=fail_fast, work=work, flow=self.graph.flow_id, budget=budget)
        self.is_cut = budget < FULL  # steps are cut into pieces
        self.replays: dict[str, int] = {}
        self.said: list[str] = []

    def draw_edges(self, names: list[str], known: list[str]) -> list[Edge]:
        edges: list[Edge] = []
        for at, name in enumerate(names):
            before = known + names[:at]
            chosen = self.random.sample(before, min(len(before), self.random.choice([0, 1, 1, 2, 2, 3, 5])))
            edges += [Edge(up, self.random.choice(KINDS), name) for up in chosen]
        return edges

    def draw_policies(self, edges: list[Edge]) -> dict[str, c.EdgeDependencyPolicy]:
        policies: dict[str, c.EdgeDependencyPolicy] = {}
        for name in sorted({edge.down for edge in edges}):
            count = sum(edge.down == name for edge in edges)
            rest = self.random.choice(list(c.OnSatisfied))
            chosen = self.random.random()
            if chosen < 0.15:
                policies[name] = c.AnyOfEdges(on_satisfied=rest)
            elif chosen < 0.4:
                policies[name] = c.QuorumOfEdges(k=self.random.randint(1, count), on_satisfied=rest)
        return policies

    def parts(self, edges: list[Edge], policies: dict[str, c.EdgeDependencyPolicy]) -> dict[str, object]:
        return {
            "edges": tuple(self.graph.edge(edge.up, edge.kind, edge.down) for edge in edges),
            "joins": tuple(
                c.FlowJoin(downstream_execution_id=self.graph.mint(name), policy=policy)
                for name, policy in policies.items()
            ),
        }

    async def submit(
        self, most: int = 60, children: dict[str, Player] | None = None, parent: ExecutionId | None = None
    ) -> None:
        """children: by the names of the members that stand for their flows."""
        children = children or {}
        names = [f"n{i}" for i in range(self.random.randint(1, most))]
        names += [name for name in children if name not in names]
        edges = self.draw_edges(names, [])
        policies = self.draw_policies(edges)
        args: dict[str, Any] = {
            "flow_id": self.graph.flow_id, "namespace": "tests", "parent_execution_id": parent,
            "members": tuple(self.graph.member(name) for name in names),
            "child_flows": {self.graph.mint(name): child.graph.flow_id for name, child in children.items()},
            "failure_policy": "fail_fast" if self.model.fail_fast else "continue", **self.parts(edges, policies),
        }  # fmt: skip
        await self.driver.backend.submit_flow(c.SubmitFlowArgs(**args))
        self.model.add(names, edges, policies, {name: child.model for name, child in children.items()})

    async def grow(self) -> None:
        names = [f"n{len(self.model.nodes) + i}" for i in range(self.random.randint(1, 3))]
        edges = self.draw_edges(names, list(self.model.nodes))
        policies = self.draw_policies(edges)
        args: dict[str, Any] = {
            "flow_id": self.graph.flow_id, "members": tuple(self.graph.member(name) for name in names),
            **self.parts(edges, policies),
        }  # fmt: skip
        await self.driver.backend.grow_flow(c.GrowFlowArgs(**args))
        self.model.add(names, edges, policies)

    def pick(self, *states: str, stand_ins: bool = False) -> str | None:
        names = [name for name, state in self.model.nodes.items() if state in states]
        if not stand_ins:
            names = [name for name in names if name not in self.model.children]
        return self.random.choice(names) if names else None

    async def step(self) -> None:
        """One operation that is possible now."""
        operation = self.random.choices(
            ["start", "complete", "fail", "cancel", "replay", "grow", "cancel_flow"], [8, 8, 2, 0.6, 0.8, 0.4, 0.05]
        )[0]
        self.said.append(operation)
        may_start = not self.model.has_ended and not self.model.is_held
        if operation == "start" and may_start and (name := self.pick("waiting")):
            await self.graph.start(name)
            self.model.start(name)
        elif operation in ("complete", "fail") and (name := self.pick("active")):
            outcome = "success" if operation == "complete" else "failed"
            await self.graph.end(name, outcome)
            self.model.end(name, outcome)
        elif operation == "cancel" and (name := self.pick(*LIVE, stand_ins=True)):
            await self.graph.end(name, "cancelled")
            self.model.end(name, "cancelled")
        elif operation == "replay":
            await self.replay()
        elif operation == "grow" and not self.model.has_ended:
            await self.grow()
        elif operation == "cancel_flow" and not self.model.has_ended:
            policy = self.random.choice([c.CancellationPolicy.CANCEL_ALL, c.CancellationPolicy.CANCEL_PENDING])
            args = c.CancelFlowArgs(flow_id=self.graph.flow_id, cancellation_policy=policy, wait=True)
            await self.driver.backend.cancel_flow(args)
            self.model.cancel_flow(policy)

    async def replay(self) -> None:
        name = self.pick("success", "failed", "cancelled", "skipped")
        if name is None or self.model.state == "cancelled" or self.replays.get(name, 0) >= MOST_REPLAYS:
            return
        self.replays[name] = self.replays.get(name, 0) + 1
        self.said.append(name)
        can_retry = self.model.nodes[name] in ("failed", "cancelled")
        again = self.driver.retry if can_retry and self.random.random() < 0.5 else self.driver.replay
        await again(Subject(self.graph.ids[name]))
        self.model.replay(name)  # both bring the same back

    async def compare(self) -> None:
        members: dict[str, str] = {}
        cursor = None
        while True:
            page = await self.driver.backend.list_flow_members(
                c.ListFlowMembersArgs(flow_id=self.graph.flow_id, cursor=cursor, limit=100)
            )
            members |= {member.execution_kind: str(member.public_state) for member in page.members}
            cursor = page.next_cursor
            if cursor is None:
                break
        assert members == self.model.public_states(), self.said
        self.compare_counts(await self.graph.flow())

    def compare_counts(self, flow: c.FlowSnapshot) -> None:
        """The flow's state follows from its counts, and those of its joins from their edges."""
        row, names = self.model.row, {each: name for name, each in self.graph.ids.items()}
        assert flow.public_flow_state == self.model.state, self.said
        assert (flow.node_count, +Counter(flow.ended_counts)) == (row.member_count, +Counter(row.ended)), self.said
        assert (flow.failed_execution_id is None) == (not row.failures), self.said
        if self.model.state == "failed" and self.is_cut:
            return  # a closed flow stops its work; which edges that left open depends on the order of the pieces
        for each in flow.edge_groups:
            join = self.model.work.join(self.model.key(names[each.downstream_execution_id]))
            found = (each.total_deps, each.satisfied_count, each.failed_count, each.skipped_count, each.group_state)
            assert found == (join.total, join.succeeded, join.failed, join.skipped, join.state), self.said
            assert (each.policy, each.running_count) == (join.policy, join.open_count), self.said


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_random_graph_goes_as_the_rules_say(driver: Driver, seed: int) -> None:
    player = Player(driver, seed)
    await player.submit()
    await player.compare()
    for _ in range(150):
        await player.step()
        await player.compare()
    await player.graph.check()


class Family:
    """A flow, some of whose members stand for flows of their own."""

    def __init__(self, driver: Driver, seed: int) -> None:
        self.random = random.Random(seed)
        self.outer = Player(driver, seed)
        work = self.outer.model.work
        place = flow_partition(self.outer.graph.flow_id, driver.backend.partitions)
        self.inner = {
            f"flow{at}": Player(
                driver, seed * 10 + at, FlowId.in_partition(place, driver.backend.partitions, FlowId.new()), work
            )
            for at in range(self.random.randint(1, 3))
        }

    @property
    def players(self) -> list[Player]:
        return [self.outer, *self.inner.values()]

    async def submit(self) -> None:
        await self.outer.submit(15, self.inner)
        for name, each in self.inner.items():
            each.model.parent = self.outer.model.key(name)
            await each.submit(8, parent=self.outer.graph.ids[name])

    async def step(self) -> None:
        player = self.random.choices(self.players, [2] + [1] * len(self.inner))[0]
        if player is not self.outer and player.model.has_ended:
            return  # what is replayed in it then has no stand-in that waits for it
        await player.step()

    async def compare(self) -> None:
        for each in self.players:
            await each.compare()


@pytest.mark.parametrize("seed", SEEDS)
async def test_flows_in_a_random_flow_go_as_the_rules_say(driver: Driver, seed: int) -> None:
    family = Family(driver, seed)
    await family.submit()
    await family.compare()
    for _ in range(150):
        await family.step()
        await family.compare()
    await family.outer.graph.check()

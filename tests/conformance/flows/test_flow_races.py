"""Many clients at one flow: a cancelled one is never claimed from, no child starts before its edges are in place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import WorkerId, WorkerInstanceId
from flowfabric.core.partition import flow_partition
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import LANE, TTL, Driver, Subject
from tests.conformance.flowing import Graph
from tests.soaking import examples
from tests.stores.probe import Clock, Probe

pytestmark = pytest.mark.every_store

CLIENTS = 4
REPETITIONS = examples(20, soak=80)


@pytest.fixture
async def crowd(probe: Probe, clock: Clock) -> AsyncIterator[list[Driver]]:
    """Clients with a connection each, on one store and one clock."""
    others = [await probe.another() for _ in range(CLIENTS - 1)]
    yield [Driver(probe, backend) for backend in (probe.backend, *others)]
    for backend in others:
        await backend.close()


async def claim(driver: Driver, graph: Graph, name: str, count: int = 2) -> list[Subject]:
    args = b.ClaimExecutionsArgs(
        partition=flow_partition(graph.flow_id, driver.backend.partitions),
        lane_id=LANE,
        worker_id=WorkerId(name),
        worker_instance_id=WorkerInstanceId(name),
        lease_ttl_ms=TTL,
        count=count,
    )
    return [driver.held(work) for work in await driver.backend.claim_executions(args)]


async def cancel_after(graph: Graph, policy: c.CancellationPolicy, turns: int, cancelled: asyncio.Event) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    await graph.backend.cancel_flow(c.CancelFlowArgs(flow_id=graph.flow_id, cancellation_policy=policy))
    cancelled.set()


async def work_until(driver: Driver, graph: Graph, name: str, cancelled: asyncio.Event) -> None:
    for _ in range(6):
        was_cancelled = cancelled.is_set()
        taken = await claim(driver, graph, name)
        assert not (was_cancelled and taken), "claimed after the cancel was answered"
        for x in taken:
            try:
                await driver.complete(x)
            except FlowFabricError as error:
                if error.code != "execution_not_active":  # cancelled while it ran
                    raise


async def test_a_member_of_a_cancelled_flow_is_never_claimed(crowd: list[Driver]) -> None:
    for turn in range(REPETITIONS):
        rng = random.Random(turn)
        graph = await Graph(crowd[0]).submit(" ".join(f"n{i} n{i}>m{i}" for i in range(8)))
        cancelled = asyncio.Event()
        await asyncio.gather(
            cancel_after(graph, rng.choice(list(c.CancellationPolicy)), rng.randrange(6), cancelled),
            *(work_until(driver, graph, f"w{i}", cancelled) for i, driver in enumerate(crowd[1:])),
        )
        assert await claim(crowd[1], graph, "late", 100) == []
    await graph.check()


async def work_off(driver: Driver, graph: Graph, name: str, parents: dict[str, set[str]], done: set[str]) -> None:
    """Complete what there is until nothing more comes; each must find its parents done."""
    idle = 0
    while len(done) < min(len(graph.ids), 40) and idle < 200:
        taken = await claim(driver, graph, name, 4)
        idle = 0 if taken else idle + 1
        for x in taken:
            assert parents.get(x.execution_id, set()) <= done, x.execution_id
            done.add(x.execution_id)  # before the store can let a child go
            await driver.complete(x)


async def test_no_child_starts_before_its_edges_are_in_place(crowd: list[Driver]) -> None:
    """Workers ask for work while graphs are submitted, small ones and such that come in parts."""
    for turn in range(REPETITIONS):
        width = 300 if turn % 10 == 0 else random.Random(turn).randint(1, 20)
        graph = Graph(crowd[0])
        args = graph.args(" ".join(f"a>n{i} n{i}>z" for i in range(width)))
        parents: dict[str, set[str]] = {}
        for edge in args.edges:
            parents.setdefault(edge.downstream_execution_id, set()).add(edge.upstream_execution_id)
        done: set[str] = set()
        await asyncio.gather(
            crowd[0].backend.submit_flow(args),
            *(work_off(driver, graph, f"w{i}", parents, done) for i, driver in enumerate(crowd[1:])),
        )
        assert done
    await graph.check()


async def test_two_members_that_end_at_once_decide_a_join_once(crowd: list[Driver]) -> None:
    for _ in range(REPETITIONS):
        graph = await Graph(crowd[0]).submit("a>z b>z d>z", {"z": c.QuorumOfEdges(k=2)})
        await graph.start("a", "b", "d")
        ends = [driver.complete(graph.held[name]) for driver, name in zip(crowd, ("a", "b", "d"), strict=False)]
        results = await asyncio.gather(*ends, return_exceptions=True)
        lost = [each for each in results if isinstance(each, BaseException)]
        assert all(isinstance(each, FlowFabricError) and each.code == "execution_not_active" for each in lost)
        assert len(lost) <= 1
        assert await graph.state("z") == "waiting"
    await graph.check()

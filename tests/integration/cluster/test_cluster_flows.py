"""Flows through the client, a worker and an engine on a cluster, where lanes have several shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowfabric import Context, Engine, Fabric, Worker
from flowfabric.config import Settings
from flowfabric.core.partition import flow_partition, lane_partitions
from tests.servers import start_one_node_cluster

WITHIN_S = 60
worker = Worker(lanes=["default", "other"])


@worker.task
async def plan(topic: str) -> list[str]:
    return [f"{topic} {number}" for number in range(3)]


@worker.task(lane="other")
async def search(ctx: Context, number: int, queries: list[str]) -> str:
    return await ctx.flow.add(shout, queries[number])


@worker.task
async def shout(text: str) -> str:
    return text.upper()


@worker.task
async def judge(found: list[str]) -> str:
    return ", ".join(found)


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with start_one_node_cluster() as cluster:
        yield Settings(url=cluster.url, lane_shards=4)


async def test_flows_run_on_a_cluster(settings: Settings) -> None:
    async with Fabric.connect(settings) as fabric, Engine(fabric.backend), worker.working(fabric.backend):
        flows = []
        for number in range(10):
            async with fabric.flow(f"research-{number}", lane="other") as flow:
                planned = flow.add(plan, "tides")
                verdict = flow.add(judge, flow.all(flow.map(search, range(3), planned)))
                inner = flow.add_flow("inner", after=verdict)
                inner.add(shout, "inner")
            flows.append(flow)
        for flow in flows:
            assert await flow.handle.wait(WITHIN_S) == "completed"
            assert await flow.handle.node("judge") == "TIDES 0, TIDES 1, TIDES 2"
        seen = [event.event async for event in flows[-1].handle.events()]
        partitions = fabric.backend.partitions
    assert seen[-1] == "flow_completed"
    homes = {flow_partition(flow.id, partitions) for flow in flows}
    assert homes <= set(lane_partitions(flows[0].lane_id, partitions))

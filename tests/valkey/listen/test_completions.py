"""The channel on which other programs hear that members of flows have ended; batches that nobody hears say nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from tests.conformance.flowing import Graph
from tests.stores.batched import partition_of
from tests.valkey.driver import Driver

CHANNEL = "ff:dag:completions"
# They live on different nodes where there are several.
PLACES = ("{fp:0}", "{fp:85}", "{fp:170}")
SUBSCRIPTIONS = {"by name": ("SUBSCRIBE", CHANNEL), "by pattern": ("PSUBSCRIBE", "ff:dag:*")}


@asynccontextmanager
async def listening(driver: Driver, place: str, *subscribe: str) -> AsyncIterator[asyncio.Queue[Any]]:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    connection = await driver.backend.client.dedicated(key=place, on_message=heard.put_nowait)
    try:
        await connection.send(*subscribe)
        yield heard
    finally:
        await connection.close()


async def of_flow(heard: asyncio.Queue[Any], flow_id: str) -> dict[str, str]:
    """The next message about a flow: on a cluster, late ones of others may come first."""
    while True:
        told: dict[str, str] = json.loads((await heard.get())[-1])
        if told["flow_id"] == flow_id:
            return told


async def started(driver: Driver) -> Graph:
    graph = await Graph(driver).submit("a b")
    await graph.start("a", "b")
    return graph


async def finish_both(graph: Graph) -> None:
    """Two members in one batch."""
    finish = tuple(c.CompleteExecutionArgs(execution_id=graph.ids[name], fence=graph.held[name].fence) for name in "ab")
    args = b.FinishExecutionsArgs(partition=partition_of(graph.ids["a"]), finish=finish)
    await graph.backend.finish_executions(args)


@pytest.mark.parametrize("how", SUBSCRIPTIONS)
@pytest.mark.parametrize("place", PLACES)
async def test_the_ends_of_a_batch_are_heard_wherever_somebody_listens(driver: Driver, place: str, how: str) -> None:
    graph = await started(driver)
    async with listening(driver, place, *SUBSCRIPTIONS[how]) as heard:
        await finish_both(graph)
        async with asyncio.timeout(20):
            told = [await of_flow(heard, graph.flow_id) for _ in "ab"]
    assert told == [
        {"execution_id": graph.ids[name], "flow_id": graph.flow_id, "outcome": "success"} for name in "ab"
    ]  # fmt: skip


async def test_what_nobody_hears_is_not_said(driver: Driver, topology: str) -> None:
    graph = await started(driver)
    await driver.backend.client.execute_on_primaries("CONFIG", "RESETSTAT")
    await finish_both(graph)
    stats = await driver.backend.client.execute_on_primaries("INFO", "commandstats")
    said = any(b"cmdstat_publish:" in each for each in stats)  # type: ignore[operator]
    assert said == (topology in ("cluster", "three_nodes")), "in a cluster nobody knows who hears"

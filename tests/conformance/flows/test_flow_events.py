"""What the event log says of a flow, and waiting for one."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import FlowId, Namespace
from flowfabric.errors import NotFound
from tests.conformance.driver import Driver, Subject
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_child_flows import nested

pytestmark = pytest.mark.every_store

WITHIN_MS = 20_000


async def lines(graph: Graph, **filters: object) -> list[str]:
    page = await graph.backend.read_events(c.ReadEventsArgs(flow_id=graph.flow_id, limit=1_000, **filters))  # type: ignore[arg-type]
    assert not page.more
    return [event.event for event in page.events]


async def flow_lines(graph: Graph) -> list[str]:
    page = await graph.backend.read_events(c.ReadEventsArgs(flow_id=graph.flow_id, limit=1_000))
    assert all(event.flow_id in (None, graph.flow_id) for event in page.events)
    return [event.event for event in page.events if event.flow_id]


@pytest.mark.parametrize(("outcome", "line"), [("success", "flow_completed"), ("failed", "flow_failed")])
async def test_the_last_member_ends_its_flow_with_a_line_after_its_own(driver: Driver, outcome: str, line: str) -> None:
    graph = await Graph(driver).submit("a>b a*>z")
    await graph.run("a", "b")
    assert await flow_lines(graph) == []
    await graph.end("z", outcome)
    ended = {"success": "completed"}.get(outcome, outcome)
    assert (await lines(graph))[-2:] == [ended, line]


async def test_a_cancel_and_a_fail_fast_are_lines_at_once(driver: Driver) -> None:
    cancelled = await Graph(driver).submit("a>b")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=cancelled.flow_id))
    assert await flow_lines(cancelled) == ["flow_cancelled"]
    failed = await Graph(driver).submit("a b", failure_policy="fail_fast")
    await failed.start("b")
    await failed.end("a", "failed")
    assert await flow_lines(failed) == ["flow_failed"]


async def test_a_replay_opens_its_flow_again(driver: Driver) -> None:
    graph = await Graph(driver).submit("a")
    await graph.run("a")
    await driver.replay(Subject(graph.ids["a"]))
    assert await flow_lines(graph) == ["flow_completed", "flow_reopened"]


async def test_the_end_of_a_child_flow_comes_before_that_of_its_parent(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub", "x")
    await inner.run("x")
    page = await driver.backend.read_events(c.ReadEventsArgs(events=("completed", "flow_completed")))  # type: ignore[arg-type]
    ends = [event.flow_id or event.execution_id for event in page.events]
    assert ends == [inner.ids["x"], inner.flow_id, outer.ids["sub"], outer.flow_id]


async def test_events_are_found_by_flow_and_namespace(driver: Driver) -> None:
    graph, other = await Graph(driver).submit("a>b"), await Graph(driver).submit("a")
    await graph.run("a", "b")
    await other.run("a")
    expected = ["created", "created", "claimed", "completed", "unblocked", "claimed", "completed", "flow_completed"]
    assert await lines(graph) == expected
    assert await lines(graph, namespace=Namespace("tests")) == expected
    assert await lines(graph, namespace=Namespace("others")) == []
    assert await lines(graph, execution_kind="b") == ["created", "unblocked", "claimed", "completed"]


async def test_waiting_for_a_flow_ends_with_it(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    assert await driver.backend.wait_for_flow(graph.flow_id, timeout_ms=0) is None
    waiting = asyncio.create_task(driver.backend.wait_for_flow(graph.flow_id, timeout_ms=WITHIN_MS))
    await graph.run("a", "b")
    assert await waiting is c.FlowState.COMPLETED
    assert await driver.backend.wait_for_flow(graph.flow_id, timeout_ms=0) is c.FlowState.COMPLETED
    with pytest.raises(NotFound):
        await driver.backend.wait_for_flow(FlowId.new(), timeout_ms=0)


async def test_the_events_of_a_flow_are_followed_to_its_end(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")

    async def follow() -> list[str]:
        return [event.event async for event in driver.backend.tail_flow_events(graph.flow_id)]

    following = asyncio.create_task(follow())
    await graph.run("a", "b")
    async with asyncio.timeout(WITHIN_MS / 1000):
        assert await following == await lines(graph)

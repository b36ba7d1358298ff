"""Members that may start are given to claims that wait, in the step that lets them start."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, home
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_flow_inputs import flow_in
from tests.valkey.driver import Driver
from tests.valkey.parked.parking import OTHER_INSTANCE, listening, park, waiting


async def drawn(driver: Driver, drawing: str, **more: object) -> Graph:
    return await Graph(driver, flow_in(driver, home(driver))).submit(drawing, **more)


async def test_a_submitted_graph_hands_its_roots_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        graph = await drawn(near, "a b>z")
        works = await worker.works(parked)
        assert {work.execution_id for work in works} == {graph.ids["a"], graph.ids["b"]}
    assert await graph.states() == {"a": "active", "b": "active", "z": "waiting_children"}
    assert await graph.flow_state() == "running"


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled"])
async def test_the_end_of_a_member_hands_its_children_over(near: Driver, outcome: str) -> None:
    graph = await drawn(near, "a*>y a*>z")
    await graph.start("a")
    async with listening(near) as worker:
        parked = await park(near)
        await graph.end("a", outcome)
        works = await worker.works(parked)
        assert {work.execution_id for work in works} == {graph.ids["y"], graph.ids["z"]}
        assert await waiting(near) == 0
    for work in works:
        await near.complete(near.held(work))
    assert (await graph.states())["z"] == "completed"
    assert await graph.flow_state() == "completed"


async def finish(driver: Driver, graph: Graph, name: str, claim: int | None) -> b.FinishExecutionsResult:
    """End a member as a worker does, asking for so many in the same call."""
    done = c.CompleteExecutionArgs(execution_id=graph.ids[name], fence=graph.held[name].fence, result_payload=b"r")
    asked = claim and b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=OTHER_INSTANCE, lease_ttl_ms=TTL, count=claim
    )
    args = b.FinishExecutionsArgs(partition=home(driver), finish=(done,), claim=asked or None)
    return await driver.backend.finish_executions(args)


async def test_who_ends_a_member_claims_its_child_in_the_same_call(near: Driver) -> None:
    graph = await drawn(near, "a>z")
    await graph.start("a")
    (work,) = (await finish(near, graph, "a", 4)).claimed
    assert work.execution_id == graph.ids["z"]
    await graph.check()


async def test_what_the_worker_leaves_goes_to_claims_that_wait(near: Driver) -> None:
    graph = await drawn(near, "a>x a>y a>z")
    await graph.start("a")
    async with listening(near) as worker:
        parked = await park(near)
        own = (await finish(near, graph, "a", 1)).claimed
        others = await worker.works(parked)
    assert (len(own), len(others)) == (1, 2)
    assert {work.execution_id for work in (*own, *others)} == {graph.ids[name] for name in "xyz"}
    await graph.check()


async def test_released_members_of_a_graph_in_parts_are_handed_over(near: Driver) -> None:
    """The part that commits lets the first 256 start; what is left follows from the work list."""
    async with listening(near) as worker:
        parked = await park(near, count=3)
        graph = await drawn(near, " ".join(f"n{i}>z" for i in range(300)))
        works = await worker.works(parked)
        assert len(works) == 3
        assert graph.ids["z"] not in {work.execution_id for work in works}
    await graph.check()


async def test_a_failed_flow_hands_nothing_over(near: Driver) -> None:
    graph = await drawn(near, "a b*>z", failure_policy="fail_fast")
    await graph.start("a", "b")
    async with listening(near, INSTANCE) as worker:
        await park(near)
        await graph.end("a", "failed")
        assert worker.has_nothing
        assert await waiting(near) == 1
    assert set((await graph.states()).values()) == {"failed", "cancelled"}

"""A graph is accepted in one step or not at all, in parts where it is large, and grows while it runs."""

from __future__ import annotations

import uuid

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.errors import Conflict, FlowFabricError, InvalidInput
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver
from tests.conformance.flowing import Graph

pytestmark = pytest.mark.every_store

FAN = " ".join(f"start>n{i} n{i}>join" for i in range(600))


async def claim(graph: Graph, count: int = 256) -> list[b.ClaimOutcome]:
    """What a worker gets of the flow's partition."""
    args = b.ClaimExecutionsArgs(
        partition=flow_partition(graph.flow_id, graph.backend.partitions),
        lane_id=LANE,
        worker_id=WORKER,
        worker_instance_id=INSTANCE,
        lease_ttl_ms=TTL,
        count=count,
    )
    return await graph.backend.claim_executions(args)


async def test_a_graph_is_accepted_once(driver: Driver) -> None:
    graph = Graph(driver)
    args = graph.args("a>b", flow_kind="pair")
    first = await driver.backend.submit_flow(args)
    assert isinstance(first, c.FlowSubmitted)
    assert (first.node_count, first.edge_count, first.graph_revision) == (2, 1, 3)
    before = await driver.probe.dump()
    again = await driver.backend.submit_flow(args)
    assert isinstance(again, c.FlowAlreadySubmitted)
    assert again.node_count == 2
    assert await driver.probe.dump() == before


async def test_a_repeat_after_the_end_is_still_the_same_flow(driver: Driver) -> None:
    graph = Graph(driver)
    args = graph.args("a")
    await driver.backend.submit_flow(args)
    await graph.end("a")
    again = await driver.backend.submit_flow(args)
    assert isinstance(again, c.FlowAlreadySubmitted)
    assert again.public_flow_state is c.FlowState.COMPLETED


async def test_a_refused_graph_writes_nothing(driver: Driver) -> None:
    x, graph = await driver.create(), Graph(driver)
    args = graph.args("a>b")
    await driver.backend.submit_flow(args)
    other = Graph(driver, FlowId(str(uuid.uuid4())))
    while other.mint("new").tag != graph.ids["a"].tag:
        other = Graph(driver)
    other.ids["taken"] = graph.ids["a"]
    before = await driver.probe.dump()
    with pytest.raises(Conflict) as caught:
        await other.submit("new>taken")
    assert caught.value.code == "execution_already_exists"
    assert await driver.probe.dump() == before
    assert x.execution_id


async def test_a_large_graph_comes_in_parts_and_starts_when_it_is_complete(driver: Driver) -> None:
    graph = Graph(driver)
    args = graph.args(FAN)
    result = await driver.backend.submit_flow(args)
    assert (result.node_count, result.edge_count) == (602, 1200)
    works = await claim(graph)
    assert [work.execution_id for work in works if isinstance(work, b.ClaimedWork)] == [graph.ids["start"]]


@pytest.mark.parametrize("drawing", ["a>b", " ".join(f"r{i}" for i in range(300)), FAN])
async def test_a_graph_without_its_commit_starts_when_that_comes(driver: Driver, drawing: str) -> None:
    graph = Graph(driver)
    args = graph.args(drawing, commit=False)
    for kind in (c.FlowSubmitted, c.FlowAlreadySubmitted):
        assert type(await driver.backend.submit_flow(args)) is kind
        assert not (await graph.flow()).is_committed
        assert await claim(graph) == []
    for kind in (c.FlowSubmitted, c.FlowAlreadySubmitted):
        assert type(await graph.grow("", commit=True)) is kind
        assert (await graph.flow()).is_committed
    assert await claim(graph)
    await graph.check()


async def test_a_graph_whose_commit_never_comes_is_given_up(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b", commit=False)
    await driver.clock.advance(3_600_000)
    partition = flow_partition(graph.flow_id, driver.backend.partitions)
    await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))
    assert (await graph.flow()).cancel_reason == "never_committed"
    assert (await graph.grow("", commit=True)).public_flow_state is c.FlowState.CANCELLED
    assert await graph.states() == {"a": "cancelled", "b": "cancelled"}


async def test_a_commit_comes_alone(driver: Driver) -> None:
    graph = await Graph(driver).submit("a", commit=False)
    with pytest.raises(InvalidInput, match="must be sent alone"):
        await graph.grow("a>b", old="a", commit=True)


async def test_members_must_be_of_the_flows_partition(driver: Driver) -> None:
    graph = Graph(driver)
    graph.ids["a"] = ExecutionId("{fp:0}:" + str(uuid.uuid4()))
    if graph.mint("b").tag == "{fp:0}":
        graph.ids["a"] = ExecutionId("{fp:1}:" + str(uuid.uuid4()))
    with pytest.raises(InvalidInput, match="partition"):
        await graph.submit("a")


@pytest.mark.parametrize(
    ("drawing", "code"),
    [("a>b b>a", "cycle_detected"), ("a>a", "self_referencing_edge"), ("a>b b>d d>b", "cycle_detected")],
)
async def test_a_graph_that_cannot_run_is_refused_before_it_is_sent(driver: Driver, drawing: str, code: str) -> None:
    with pytest.raises(FlowFabricError) as caught:
        Graph(driver).args(drawing)
    assert caught.value.code == code


async def test_a_quorum_of_more_than_there_are_is_refused(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="at most 1, the number of edges"):
        Graph(driver).args("a>z", {"z": c.QuorumOfEdges(k=2)})


async def test_a_running_member_adds_to_its_own_flow(driver: Driver) -> None:
    graph = await Graph(driver).submit("plan>write")
    await graph.start("plan")
    grown = await graph.grow("plan>s1 plan>s2 s1>write s2>write", old="plan write")
    assert (grown.node_count, grown.edge_count) == (4, 5)
    await graph.end("plan")
    assert await graph.states() == {"plan": "completed", "write": "waiting_children", "s1": "waiting", "s2": "waiting"}
    await graph.run("s1", "s2", "write")
    assert await graph.flow_state() == "completed"


async def test_growth_looks_at_the_revision_it_is_given(driver: Driver) -> None:
    graph = await Graph(driver).submit("a")
    revision = (await graph.flow()).graph_revision
    await graph.grow("a>b", old="a", expected_graph_revision=revision)
    with pytest.raises(Conflict) as caught:
        await graph.grow("a>d", old="a", expected_graph_revision=revision)
    assert (caught.value.code, caught.value.retryable) == ("stale_graph_revision", True)


async def test_an_edge_from_a_member_that_has_ended_is_resolved_at_once(driver: Driver) -> None:
    graph = await Graph(driver).submit("a x")
    await graph.end("a")
    await graph.grow("a>b a!>d", old="a")
    assert await graph.states() == {"a": "completed", "x": "waiting", "b": "waiting", "d": "skipped"}


async def test_an_ended_flow_takes_no_more(driver: Driver) -> None:
    graph = await Graph(driver).submit("a")
    await graph.end("a")
    with pytest.raises(Conflict) as caught:
        await graph.grow("b")
    assert caught.value.code == "flow_already_terminal"


async def test_growth_that_closes_a_cycle_is_refused_whatever_its_way(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>d x")
    with pytest.raises(FlowFabricError) as caught:
        await graph.grow("d>a", old="a d")
    assert caught.value.code == "cycle_detected"
    await graph.grow("x>b", old="x b")
    with pytest.raises(FlowFabricError) as caught:
        await graph.grow("d>new new>x", old="d x")
    assert caught.value.code == "cycle_detected"


async def test_a_decided_join_takes_no_more_edges(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z y", {"z": c.AnyOfEdges(on_satisfied=c.OnSatisfied.LET_RUN)})
    await graph.end("a")
    with pytest.raises(Conflict) as caught:
        await graph.grow("y>z", old="y z")
    assert caught.value.code == "edge_group_decided"

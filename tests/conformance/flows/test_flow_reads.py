"""Reading flows: one with its joins, members and edges in pages, lists over all partitions."""

from __future__ import annotations

import uuid

from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, FlowId
from flowfabric.core.rules.flows.graph import Timing, critical_path
from tests.conformance.driver import Driver
from tests.conformance.flowing import Graph


async def all_members(graph: Graph, limit: int) -> list[c.FlowMember]:
    found: list[c.FlowMember] = []
    args = c.ListFlowMembersArgs(flow_id=graph.flow_id, limit=limit)
    while True:
        page = await graph.backend.list_flow_members(args)
        found += page.members
        if page.next_cursor is None:
            return found
        args = c.ListFlowMembersArgs(flow_id=graph.flow_id, limit=limit, cursor=page.next_cursor)


async def all_edges(graph: Graph, limit: int, direction: c.EdgeDirection | None = None) -> list[c.EdgeSnapshot]:
    found: list[c.EdgeSnapshot] = []
    cursor = None
    while True:
        args = c.ListEdgesArgs(flow_id=graph.flow_id, limit=limit, cursor=cursor, direction=direction)
        page = await graph.backend.list_edges(args)
        found += page.edges
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_what_is_not_there_is_none(driver: Driver) -> None:
    graph = await Graph(driver).submit("a")
    assert await driver.backend.describe_flow(FlowId(str(uuid.uuid4()))) is None
    assert await driver.backend.describe_edge(graph.flow_id, EdgeId(str(uuid.uuid4()))) is None


async def test_a_flow_with_its_joins(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z z>end", {"z": c.QuorumOfEdges(k=2)}, flow_kind="research")
    await graph.end("a", "failed")
    await graph.end("b")
    snapshot = await graph.flow()
    assert (snapshot.flow_kind, snapshot.namespace, snapshot.node_count, snapshot.edge_count) == (
        "research", "tests", 5, 4,
    )  # fmt: skip
    join = await graph.join("z")
    assert join.policy == c.QuorumOfEdges(k=2)
    assert (join.total_deps, join.satisfied_count, join.failed_count, join.running_count) == (3, 1, 1, 1)
    assert len(snapshot.edge_groups) == 2


async def test_members_come_in_order_page_by_page(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>d d>e e>f")
    await graph.end("a")
    members = await all_members(graph, 2)
    assert [member.execution_kind for member in members] == ["a", "b", "d", "e", "f"]
    assert [member.number for member in members] == list(range(5))
    assert members[0].completed_at == driver.clock.now_ms
    assert members[0].edge_group is None
    assert members[1].edge_group is not None


async def test_edges_of_a_member_and_of_all(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b a>d b>z d!>z", passing=True)

    def ends(edges: list[c.EdgeSnapshot]) -> list[tuple[str, str]]:
        names = {execution_id: name for name, execution_id in graph.ids.items()}
        return [(names[e.upstream_execution_id], names[e.downstream_execution_id]) for e in edges]

    assert ends(await all_edges(graph, 1, c.OutgoingEdges(from_node=graph.ids["a"]))) == [("a", "b"), ("a", "d")]
    incoming = await all_edges(graph, 10, c.IncomingEdges(to_node=graph.ids["z"]))
    assert ends(incoming) == [("b", "z"), ("d", "z")]
    assert [e.dependency_kind for e in incoming] == [c.DependencyKind.SUCCESS_ONLY, c.DependencyKind.ON_FAILURE]
    assert [e.data_passing_ref for e in incoming] == ["b", "d"]
    for limit in (1, 2, 3, 100):
        assert ends(await all_edges(graph, limit)) == [("a", "b"), ("a", "d"), ("b", "z"), ("d", "z")]
    assert await all_edges(graph, 10, c.IncomingEdges(to_node=graph.ids["a"])) == []


async def test_flows_are_listed_newest_first_over_all_partitions(driver: Driver) -> None:
    graphs = []
    for i in range(7):
        graphs.append(await Graph(driver).submit("a", flow_kind="odd" if i % 2 else "even"))
        await driver.clock.advance(1)
    await graphs[0].end("a")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=graphs[1].flow_id))
    found: list[FlowId] = []
    cursor = None
    while True:
        page = await driver.backend.list_flows(c.ListFlowsArgs(limit=2, cursor=cursor))
        found += [flow.flow_id for flow in page.flows]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [graph.flow_id for graph in reversed(graphs)]

    async def listed(**filters: object) -> list[FlowId]:
        page = await driver.backend.list_flows(c.ListFlowsArgs(**filters))  # type: ignore[arg-type]
        return [flow.flow_id for flow in page.flows]

    assert await listed(status=c.FlowStatus.COMPLETED) == [graphs[0].flow_id]
    assert await listed(status=c.FlowStatus.CANCELLED) == [graphs[1].flow_id]
    assert await listed(status=c.FlowStatus.ACTIVE) == [graph.flow_id for graph in reversed(graphs[2:])]
    assert await listed(flow_kind="odd") == [graphs[i].flow_id for i in (5, 3, 1)]
    assert await listed(namespace="others") == []


async def test_the_critical_path_of_a_run(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>quick a>slow quick>z slow>z")
    for name in ("a", "quick", "slow", "z"):
        await driver.clock.advance(10)
        await graph.end(name)
    timings = {m.execution_id: Timing(m.started_at, m.completed_at) for m in await all_members(graph, 100)}
    edges = [(e.upstream_execution_id, e.downstream_execution_id) for e in await all_edges(graph, 100)]
    names = {execution_id: name for name, execution_id in graph.ids.items()}
    assert [names[each] for each in critical_path(timings, edges)] == ["a", "slow", "z"]

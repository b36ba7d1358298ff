"""Turn nodes into the graph that a store takes, and validate its edges and joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from flowfabric.client.flows.builder import FlowBuilder
from flowfabric.client.flows.nodes import Join, Node, Upstream
from flowfabric.client.tasks.submission import Submitter
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId
from flowfabric.core.rules.flows.graph import DependencyKind, topological_order
from flowfabric.errors import InvalidInput

# A claim carries the results of all upstreams.
MOST_UPSTREAMS: Final = 1_000

Incoming = dict[
    Node[Any], tuple[DependencyKind, bool]
]  # by upstream: the required end, and whether its result is passed


class Graph(NamedTuple):
    """The graph for `submit_flow` and `grow_flow`; each member comes after those it waits for."""

    members: tuple[c.CreateExecutionArgs, ...]
    edges: tuple[c.FlowEdge, ...]
    joins: tuple[c.FlowJoin, ...]
    child_flows: dict[ExecutionId, FlowId]


def graph_of(flow: FlowBuilder, submitter: Submitter) -> Graph:
    """The validated part of the graph that was not sent yet."""
    incoming = {node: _incoming(node) for node in flow.nodes.values()}
    new = [node for node in _ordered(incoming) if not node.is_sent]
    if not new:
        raise InvalidInput("flow", flow.name, "must have a node; add one with flow.add(task, ...)")
    return Graph(
        tuple(submitter.member_args(node.task, node.payload, node.id) for node in new),
        tuple(edge for node in new for edge in _edges(node, incoming[node])),
        tuple(join for node in new for join in _joins(node, incoming)),
        {child.node.id: child.flow_id for child in flow.children if not child.node.is_sent},
    )


def _incoming(node: Node[Any]) -> Incoming:
    found: Incoming = {}
    for given, passes in [*((each, True) for each in node.given), *((each, False) for each in node.awaited)]:
        for upstream, kind in given.upstreams:
            known, passed = found.get(upstream, (kind, False))
            if known is not kind:
                problem = f"{node.name} must wait for it in one way, not as {known} and as {kind}"
                raise InvalidInput("after", upstream.name, problem)
            found[upstream] = (kind, passes or passed)
    if len(found) > MOST_UPSTREAMS:
        raise InvalidInput(node.name, len(found), f"must wait for at most {MOST_UPSTREAMS} nodes")
    return found


def _ordered(incoming: Mapping[Node[Any], Incoming]) -> list[Node[Any]]:
    by_name = {node.name: node for node in incoming}
    pairs = [(up.name, node.name) for node, ups in incoming.items() for up in ups if up.name in by_name]
    return [by_name[name] for name in topological_order(by_name, pairs)]


def _edges(node: Node[Any], upstreams: Incoming) -> Iterator[c.FlowEdge]:
    for upstream, (kind, passes) in upstreams.items():
        yield c.FlowEdge(
            edge_id=EdgeId(str(uuid5(UUID(node.id.uuid), upstream.id.uuid))),
            upstream_execution_id=upstream.id,
            downstream_execution_id=node.id,
            dependency_kind=kind,
            data_passing_ref=upstream.name if passes else None,
        )


def _joins(node: Node[Any], incoming: Mapping[Node[Any], Incoming]) -> Iterator[c.FlowJoin]:
    chosen = [each for each in (*node.given, *node.awaited) if isinstance(each, Join) and each.needed is not None]
    if len(chosen) > 1:
        problem = "must have at most one any-of or quorum; join the rest in another node, and wait for that node"
        raise InvalidInput(node.name, chosen, problem)
    if chosen:
        yield c.FlowJoin(downstream_execution_id=node.id, policy=_policy(node, chosen[0], incoming))


def _policy(node: Node[Any], join: Join[Any], incoming: Mapping[Node[Any], Incoming]) -> c.EdgeDependencyPolicy:
    """A store joins all edges of a node in one way: edges beside the join must be satisfied whenever the join is."""
    assert join.needed is not None
    joined = {each.node for each in join.upstreams}
    others = [upstream for upstream in incoming[node] if upstream not in joined]
    for other in others:
        _check_beside(node, other, join, incoming)
    needed = join.needed + len(others)
    if needed == 1:
        return c.AnyOfEdges(on_satisfied=join.on_satisfied)
    return c.QuorumOfEdges(k=needed, on_satisfied=join.on_satisfied)


def _check_beside(node: Node[Any], other: Node[Any], join: Join[Any], incoming: Mapping[Node[Any], Incoming]) -> None:
    kind, _ = incoming[node][other]
    depend = all(_needs(each.node, other, incoming) for each in join.upstreams)
    vouch = join.needed == len(join.upstreams) or all(map(_has_run, join.upstreams))
    if kind is not DependencyKind.SUCCESS_ONLY or not depend or not vouch:
        problem = (
            f"waits for {join!r} and for {other.name!r}, which may not have succeeded when the join is satisfied; join "
            f"in two steps: add a node that waits for the join, and let this one wait for that node and {other.name!r}"
        )
        raise InvalidInput(node.name, other.name, problem)


def _has_run(upstream: Upstream) -> bool:
    """Whether a node with this end has run: a skipped node ends, too, and a node that passes its deadline fails."""
    node, kind = upstream
    can_expire = node.task.options.deadline is not None
    return kind is DependencyKind.SUCCESS_ONLY or (kind is DependencyKind.ON_FAILURE and not can_expire)


def _needs(node: Node[Any], wanted: Node[Any], incoming: Mapping[Node[Any], Incoming]) -> bool:
    """Whether a node can run only after the other has succeeded."""
    seen, left = {node}, [node]
    while left:
        at = left.pop()
        if any(isinstance(each, Join) and each.needed is not None for each in (*at.given, *at.awaited)):
            continue
        for upstream, (kind, _) in incoming.get(at, {}).items():
            if kind is not DependencyKind.SUCCESS_ONLY or upstream in seen:
                continue
            if upstream is wanted:
                return True
            seen.add(upstream)
            left.append(upstream)
    return False


def in_parts(graph: Graph) -> Iterator[Graph]:
    """Parts small enough for one call, each with all edges of its members."""
    edges: dict[ExecutionId, list[c.FlowEdge]] = {member.execution_id: [] for member in graph.members}
    for edge in graph.edges:
        edges[edge.downstream_execution_id].append(edge)
    members: list[c.CreateExecutionArgs] = []
    size = 0
    for member in graph.members:
        size += len(edges[member.execution_id])
        if len(members) == limits.BATCH_MAX_ITEMS or (members and size > limits.GRAPH_PART_MAX_EDGES):
            yield _part(graph, members, edges)
            members, size = [], len(edges[member.execution_id])
        members.append(member)
    yield _part(graph, members, edges)


def _part(
    graph: Graph, members: Sequence[c.CreateExecutionArgs], edges: Mapping[ExecutionId, list[c.FlowEdge]]
) -> Graph:
    ids = {member.execution_id for member in members}
    return Graph(
        tuple(members),
        tuple(edge for each in ids for edge in edges[each]),
        tuple(join for join in graph.joins if join.downstream_execution_id in ids),
        {each: flow_id for each, flow_id in graph.child_flows.items() if each in ids},
    )

"""Split a graph into parts that fit one call each. Nothing runs before the last part has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flowfabric.backends.valkey.ports.executions import create_items
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import to_msgpack
from flowfabric.core.contracts.flows.edges import policy_fields
from flowfabric.core.ids import ExecutionId, FlowId

# Bounds for graphs of several calls, so that no call blocks the server for long.
_MEMBERS_A_PART, _EDGES_A_PART = 128, 256


class GraphPart(NamedTuple):
    """The request of one call, and the payloads of its members."""

    request: bytes
    payloads: list[bytes]


def submit_parts(args: c.SubmitFlowArgs) -> list[GraphPart]:
    """One part if it fits, else members first, then joins and edges. The last part commits, if requested."""
    said: dict[str, object] = {
        "create": True,
        "flow_kind": args.flow_kind,
        "namespace": str(args.namespace),
        "failure_policy": str(args.failure_policy),
        "parent_execution_id": str(args.parent_execution_id or ""),
    }
    pieces = list(_pieces(args))
    last = len(pieces) - 1
    return [
        _part(piece, args.child_flows, {**(said if at == 0 else {}), "commit": args.commit and at == last})
        for at, piece in enumerate(pieces)
    ]


def grow_part(args: c.GrowFlowArgs) -> GraphPart:
    revision = args.expected_graph_revision
    said: dict[str, object] = {} if revision is None else {"revision": revision}
    if args.commit:
        said["commit"] = True
    return _part((args.ordered_members(), args.joins, args.edges), args.child_flows, said)


Piece = tuple[Sequence[c.CreateExecutionArgs], Sequence[c.FlowJoin], Sequence[c.FlowEdge]]


def _pieces(args: c.SubmitFlowArgs) -> Iterator[Piece]:
    members = args.ordered_members()
    batches = list(_batches(members, limits.BATCH_MAX_ITEMS))
    most = limits.GRAPH_PART_MAX_EDGES
    if len(batches) == 1 and len(args.edges) <= most and len(args.joins) <= most:
        yield batches[0], args.joins, args.edges
        return
    for batch in _batches(members, _MEMBERS_A_PART):
        yield batch, (), ()
    for start in range(0, len(args.joins), _EDGES_A_PART):
        yield (), args.joins[start : start + _EDGES_A_PART], ()
    for start in range(0, len(args.edges), _EDGES_A_PART):
        yield (), (), args.edges[start : start + _EDGES_A_PART]
    if args.commit and not args.edges:
        yield (), (), ()


def _batches(members: Sequence[c.CreateExecutionArgs], most: int) -> Iterator[list[c.CreateExecutionArgs]]:
    """Group members, bounded by count and payload size."""
    batch: list[c.CreateExecutionArgs] = []
    size = 0
    for member in members:
        size += len(member.input_payload)
        if batch and (len(batch) == most or size > limits.GRAPH_PART_MAX_BYTES):
            yield batch
            batch, size = [], len(member.input_payload)
        batch.append(member)
    yield batch


def _part(piece: Piece, child_flows: Mapping[ExecutionId, FlowId], said: Mapping[str, object]) -> GraphPart:
    members, joins, edges = piece
    here = [member.execution_id for member in members if member.execution_id in child_flows]
    request = {
        **said,
        "members": [create_items(member) for member in members],
        "edges": [_edge_item(edge) for edge in edges],
        "groups": [_join_item(join) for join in joins],
        "child_flows": [(each.uuid, str(child_flows[each])) for each in here],
    }
    return GraphPart(to_msgpack(request), [member.input_payload for member in members])


def _edge_item(edge: c.FlowEdge) -> tuple[str, ...]:
    return (
        str(edge.edge_id),
        edge.upstream_execution_id.uuid,
        edge.downstream_execution_id.uuid,
        str(edge.dependency_kind),
        edge.data_passing_ref or "",
    )


def _join_item(join: c.FlowJoin) -> tuple[str | int, ...]:
    variant, on_satisfied, k = policy_fields(join.policy)
    return (join.downstream_execution_id.uuid, variant, on_satisfied, k)

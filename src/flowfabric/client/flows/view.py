"""A snapshot of a whole flow: its named members, its edges and the longest path."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.flows.drawing import dot, mermaid, text_tree
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.rules.flows.graph import Timing, critical_path, topological_order
from flowfabric.core.states import PublicState

_PAGE = 1_000


class FlowView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A flow, its members in the order in which they were added, and the edges between them."""

    flow: c.FlowSnapshot
    members: tuple[c.FlowMember, ...]
    edges: tuple[c.EdgeSnapshot, ...]

    @cached_property
    def labels(self) -> Mapping[ExecutionId, str]:
        """The members' names: those of their nodes where they can be derived, else kind and id."""
        return _labels(self.flow.flow_id, self.members)

    @cached_property
    def upstreams(self) -> Mapping[ExecutionId, list[ExecutionId]]:
        """The members that each member waits for."""
        found: defaultdict[ExecutionId, list[ExecutionId]] = defaultdict(list)
        for edge in self.edges:
            found[edge.downstream_execution_id].append(edge.upstream_execution_id)
        return found

    @cached_property
    def order(self) -> list[ExecutionId]:
        """The members, each after those it waits for."""
        pairs = [(edge.upstream_execution_id, edge.downstream_execution_id) for edge in self.edges]
        return topological_order([each.execution_id for each in self.members], pairs)

    @property
    def leaves(self) -> list[c.FlowMember]:
        """The members that no other member waits for."""
        awaited = {edge.upstream_execution_id for edge in self.edges}
        return [member for member in self.members if member.execution_id not in awaited]

    @cached_property
    def critical_path(self) -> tuple[ExecutionId, ...]:
        """The chain of members that decided when the last one ended, without cancelled and skipped members."""
        timings = {each.execution_id: _timing(each) for each in self.members}
        pairs = [(edge.upstream_execution_id, edge.downstream_execution_id) for edge in self.edges]
        return tuple(critical_path(timings, pairs))

    @cached_property
    def critical_members(self) -> frozenset[ExecutionId]:
        return frozenset(self.critical_path)

    @property
    def duration_ms(self) -> int | None:
        """From its creation to its end; None while it runs."""
        return None if self.flow.ended_at is None else self.flow.ended_at - self.flow.created_at

    def tree(self) -> str:
        """A text tree: each member below the last member that all paths to it share."""
        return text_tree(self)

    def mermaid(self) -> str:
        """Mermaid, for a `mermaid` block of a Markdown page."""
        return mermaid(self)

    def dot(self) -> str:
        """DOT, for Graphviz."""
        return dot(self)


async def read_view(backend: EngineBackend, flow: c.FlowSnapshot) -> FlowView:
    """All members and edges of a flow."""
    members = await read_members(backend, flow.flow_id)
    edges: list[c.EdgeSnapshot] = []
    args = c.ListEdgesArgs(flow_id=flow.flow_id, limit=_PAGE)
    while flow.edge_count:
        page = await backend.list_edges(args)
        edges += page.edges
        if page.next_cursor is None:
            break
        args = replace(args, cursor=page.next_cursor)
    return FlowView(flow=flow, members=tuple(members), edges=tuple(edges))


async def read_members(backend: EngineBackend, flow_id: FlowId) -> list[c.FlowMember]:
    """All members of a flow."""
    found: list[c.FlowMember] = []
    args = c.ListFlowMembersArgs(flow_id=flow_id, limit=_PAGE)
    while True:
        page = await backend.list_flow_members(args)
        found += page.members
        if page.next_cursor is None:
            return found
        args = replace(args, cursor=page.next_cursor)


def _timing(member: c.FlowMember) -> Timing:
    if member.public_state in (PublicState.CANCELLED, PublicState.SKIPPED):
        return Timing(None, None)
    return Timing(member.started_at, member.completed_at)


def _labels(flow_id: FlowId, members: tuple[c.FlowMember, ...]) -> dict[ExecutionId, str]:
    """Node ids are derived from names, so try the names that the members may have."""
    names: dict[str, str] = {}
    for kind, count in Counter(member.execution_kind for member in members).items():
        for number in range(1, count + 1):
            name = kind if number == 1 else f"{kind}-{number}"
            names[str(uuid5(UUID(flow_id), name))] = name
    return {
        each.execution_id: names.get(each.execution_id.uuid, f"{each.execution_kind} {each.execution_id.uuid[-6:]}")
        for each in members
    }

"""A handler waits for nodes that it added to its flow: edges lead from them to the running member.

The attempt hands its lease back until the nodes have ended; then its handler is run again. Any outcome of a node
satisfies its edge, so the handler decides how to treat a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.failures import ExecutionEnded
from flowfabric.client.flows.graph import MOST_UPSTREAMS
from flowfabric.client.flows.nodes import Given, Join, Node, Upstream
from flowfabric.client.handle import Handle
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import ENDINGS
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId
from flowfabric.core.rules.flows.graph import DependencyKind
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.worker.durable.changed_steps import check_wait
from flowfabric.worker.durable.journal import Journal

if TYPE_CHECKING:
    from flowfabric.worker.context.flow import GrowingFlow

_ENDED = frozenset(ENDINGS.values())


def awaited(flow: GrowingFlow, given: Given[Any]) -> tuple[Upstream, ...]:
    """The nodes to wait for; refuses nodes that can never end before this handler."""
    flow.check_given("node", given)
    if isinstance(given, Join) and given.needed is not None:
        problem = "has a count, which a handler cannot wait for; add a node that joins them and wait for that node"
        raise InvalidInput("node", given, problem)
    if len(given.upstreams) > MOST_UPSTREAMS:
        raise InvalidInput("node", given, f"must be at most {MOST_UPSTREAMS} nodes")
    for node, kind in given.upstreams:
        if kind is DependencyKind.ON_FAILURE:
            raise InvalidInput("node", given, "has no result; wait for node.ended")
        if _needs(node, flow.this):
            raise InvalidInput("node", node.name, "depends on this handler, so this handler cannot wait for it")
    return given.upstreams


def _needs(node: Node[Any], wanted: Node[Any]) -> bool:
    seen, left = {node}, [node]
    while left:
        at = left.pop()
        if at is wanted:
            return True
        for given in (*at.given, *at.awaited):
            new = {each.node for each in given.upstreams} - seen
            seen |= new
            left += new
    return False


async def have_ended(backend: EngineBackend, upstreams: Sequence[Upstream]) -> bool:
    states = await asyncio.gather(*(backend.get_execution_state(each.node.id) for each in upstreams))
    return _ENDED.issuperset(states)


async def result_of(backend: EngineBackend, upstream: Upstream) -> Any:
    """The result of a node that has ended."""
    try:
        return await Handle(backend, upstream.node.id, upstream.node.task).result()
    except ExecutionEnded:
        if upstream.kind is not DependencyKind.ANY_TERMINAL:
            raise
        return None


async def wait_until_ended(journal: Journal) -> None:
    """active -> waiting_children, and `Suspended` unwinds the handler. Returns if all nodes have ended meanwhile."""
    async with journal.gate.alone():
        journal.attempt.check()
        await check_wait(journal)
        await journal.keep()
        try:
            await journal.ask(journal.services.suspender.move_to_waiting_children(journal.attempt))
        except FlowFabricError as refusal:
            if refusal.code != "not_blocked_by_deps":
                raise
        journal.attempt.check()


async def link(backend: EngineBackend, flow_id: FlowId, this: ExecutionId, upstreams: Sequence[Upstream]) -> None:
    """Add edges from the nodes to this member, unless an earlier pass has added them."""
    known = {edge.upstream_execution_id async for edge in _edges_into(backend, flow_id, this)}
    new = [each.node.id for each in upstreams if each.node.id not in known]
    if not new:
        return
    edges = tuple(
        c.FlowEdge(
            edge_id=EdgeId(str(uuid5(UUID(this.uuid), upstream.uuid))),
            upstream_execution_id=upstream,
            downstream_execution_id=this,
            dependency_kind=DependencyKind.ANY_TERMINAL,
        )
        for upstream in new
    )
    await backend.grow_flow(c.GrowFlowArgs(flow_id=flow_id, edges=edges))


async def _edges_into(backend: EngineBackend, flow_id: FlowId, this: ExecutionId) -> AsyncIterator[c.EdgeSnapshot]:
    args = c.ListEdgesArgs(flow_id=flow_id, direction=c.IncomingEdges(to_node=this), limit=1_000)
    while True:
        page = await backend.list_edges(args)
        for edge in page.edges:
            yield edge
        if page.next_cursor is None:
            return
        args = replace(args, cursor=page.next_cursor)

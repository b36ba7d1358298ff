"""`ctx.flow`: a running member adds nodes to its own flow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from flowfabric.client.flows.builder import FlowBuilder, choose_options
from flowfabric.client.flows.flow import WholeFlow, new_children, send
from flowfabric.client.flows.graph import Graph, graph_of, in_parts
from flowfabric.client.flows.nodes import Given, Join, Node
from flowfabric.client.tasks.submission import Submitter
from flowfabric.core import contracts as c
from flowfabric.core.contracts.flows.graphs import check_size
from flowfabric.core.ids import FlowId
from flowfabric.errors import Conflict, InvalidInput
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.context.awaited import Note, must_await
from flowfabric.worker.durable.child_waits import awaited, have_ended, link, result_of, wait_until_ended
from flowfabric.worker.durable.journal import Journal

if TYPE_CHECKING:
    from flowfabric.worker.context.services import Services

R = TypeVar("R")


class GrowingFlow(FlowBuilder):
    """The flow of the running member, which is `this`. Add nodes as in `fabric.flow(...)`.

    New nodes are sent at the end of an `async with ctx.flow:`, or before the worker reports that the handler returned.
    Their ids derive from the member's id and their names, so a handler that is run again does not add them twice.
    """

    def __init__(self, attempt: Attempt, services: Services, records: Callable[[], Journal]) -> None:
        mine = attempt.execution_id
        super().__init__(attempt.handler.name, services.backend.partitions, mine.tag, mine.uuid)
        self.this: Node[Any] = Node(self, mine.uuid, mine, attempt.handler.task)
        self._attempt = attempt
        self._records = records
        self._backend = services.backend
        self._submitter = Submitter(
            services.backend.partitions, services.settings.namespace, services.settings.worker_instance_id
        )
        self._registered = services.registered
        self._flow_id: FlowId | None = None
        self._noted: Note | None = None

    def note_calls(self, note: Note) -> None:
        """Where the context notes calls that must be awaited."""
        self._noted = note

    def _note(self, call: Coroutine[Any, Any, Any], name: str, frame: FrameType) -> None:
        if self._noted is not None:
            self._noted(call, f"flow.{name}", frame)

    @property
    def unsent(self) -> list[Node[Any]]:
        return [node for node in self.nodes.values() if not node.is_sent]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.send()
            return
        for node in self.unsent:
            del self.nodes[node.name]
        self.children = [child for child in self.children if child.node.is_sent]

    @must_await
    async def send(self) -> None:
        """Send the nodes that were not sent yet."""
        new = self.unsent
        if not new:
            return
        await choose_options(self, self._registered)
        new_flows = [child for child in self.children if not child.node.is_sent]
        graph = graph_of(self, self._submitter)
        children = new_children(self, self._submitter)
        flow_id = await self._find_flow()
        parts = list(in_parts(graph))
        if len(parts) > 1:
            await self._check_room(flow_id, parts)
        for part in parts:
            self._attempt.check()
            await self._backend.grow_flow(c.GrowFlowArgs(flow_id=flow_id, **part._asdict()))
        for child in children:
            await self._send_child(child)
        for node in new:  # more nodes may have been added while these were sent
            node.is_sent = True
        for each in new_flows:
            each.mark_sent()

    @must_await
    async def result(self, given: Given[R]) -> R:
        """Wait for a node that was added here, and return its result; of `all([...])` the list of them.

        Meanwhile the execution holds no worker: the handler ends here, and is run again from its top when the node has
        ended. A node without a result raises the same error as its handle; `node.ended` gives None instead. In async
        handlers `await node` does the same.
        """
        upstreams = awaited(self, given)
        journal = self._records()
        journal.check("ctx.flow.result")
        await self.send()
        await link(self._backend, await self._find_flow(), self.this.id, upstreams)
        if not await have_ended(self._backend, upstreams):
            await wait_until_ended(journal)
        found = await asyncio.gather(*(result_of(self._backend, each) for each in upstreams))
        return cast("R", list(found) if isinstance(given, Join) else found[0])

    async def _check_room(self, flow_id: FlowId, parts: list[Graph]) -> None:
        """Refuse too many nodes before any of them runs; the store refuses a single part that is too large."""
        flow = await self._backend.describe_flow(flow_id)
        if flow is None:
            return
        new = parts
        while new and await self._backend.get_execution_state(new[0].members[0].execution_id):
            new = new[1:]  # an earlier pass of the handler has sent it
        members = flow.node_count + sum(len(part.members) for part in new)
        check_size(members, flow.edge_count + sum(len(part.edges) for part in new))

    async def _send_child(self, child: WholeFlow) -> None:
        """The child's node may have ended by now; then no member of the child may run."""
        try:
            await send(self._backend, child)
        except Conflict as error:
            if error.code != "flow_already_terminal":
                raise

    async def _find_flow(self) -> FlowId:
        if self._flow_id is None:
            found = await self._backend.describe_execution(self._attempt.execution_id)
            if found is None or found.flow_id is None:
                raise InvalidInput("ctx.flow", self._attempt.execution_id, "is not a member of a flow")
            self._flow_id = found.flow_id
        return self._flow_id

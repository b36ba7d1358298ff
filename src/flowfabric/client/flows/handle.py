"""A handle for a flow: wait for it, read it, cancel it and replay it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping
from typing import Any, Final, TypeVar, overload
from uuid import UUID, uuid5

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.failures import FlowEnded
from flowfabric.client.flows.nodes import Node
from flowfabric.client.flows.view import FlowView, read_view
from flowfabric.client.handle import Handle, Submission
from flowfabric.client.tasks.options import Duration, ms
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, InvalidInput, NotFound

T = TypeVar("T")

_FAILED: Final = (PublicState.FAILED, PublicState.EXPIRED)


class FlowHandle:
    """One flow. `await handle` returns the result of its only leaf.

    It holds no connection and no state: create as many as you like, in any process, with `fabric.flow_handle(id)`.
    `submission` is "created", or "duplicate" if the flow existed already; None without a submission.
    """

    def __init__(
        self,
        backend: EngineBackend,
        flow_id: FlowId,
        *,
        nodes: Mapping[str, Node[Any]] | None = None,
        submission: Submission | None = None,
    ) -> None:
        self._backend = backend
        self._nodes = dict(nodes or {})
        self.id = flow_id
        self.submission = submission

    def __repr__(self) -> str:
        return f"FlowHandle({str(self.id)!r})"

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109 - the store waits, not this process
        """Wait for the end and return the result of the only completed leaf, a node that no other node waits for.

        For other nodes use `handle.node(node).result()`. Raises FlowEnded if the flow failed or was cancelled, and
        TimeoutError after `timeout`; the flow continues then.
        """
        if await self.wait(timeout) is not c.FlowState.COMPLETED:
            raise await self._failure()
        view = await self.view()
        ends = [each for each in view.leaves if each.public_state is PublicState.COMPLETED]
        if len(ends) != 1:
            names = ", ".join(view.labels[each.execution_id] for each in ends) or "none"
            problem = f"must have one completed leaf to have a result, but has: {names}; use handle.node(...).result()"
            raise InvalidInput("flow", self.id, problem)
        return await self._handle_of(ends[0].execution_id).result()

    async def wait(self, timeout: Duration | None = None) -> c.FlowState:  # noqa: ASYNC109 - the store waits, not this process
        """Wait for the end, however it ends, and return the state; raises TimeoutError after `timeout`."""
        timeout_ms = limits.MAX_DURATION_MS if timeout is None else ms("timeout", timeout)
        state = await self._backend.wait_for_flow(self.id, timeout_ms=timeout_ms)
        if state is None:
            raise TimeoutError(
                f"{self!r} is still {await self.status()} after {timeout_ms / 1000:g} seconds; it continues. "
                "Wait again, cancel() it, or see view() for its members"
            )
        return state

    async def status(self) -> c.FlowState:
        """Its state."""
        return (await self.describe()).public_flow_state

    async def describe(self) -> c.FlowSnapshot:
        """Its state with counts, tags and joins."""
        snapshot = await self._backend.describe_flow(self.id)
        if snapshot is None:
            raise NotFound(f"{self.id}: no such flow", code="flow_not_found", flow_id=str(self.id))
        return snapshot

    async def view(self) -> FlowView:
        """Its members and edges, to inspect or draw: `print((await handle.view()).tree())`."""
        return await read_view(self._backend, await self.describe())

    async def members(self, *, cursor: str | None = None, limit: int = 100) -> c.ListFlowMembersPage:
        """Its members, in the order in which they were added."""
        return await self._backend.list_flow_members(c.ListFlowMembersArgs(flow_id=self.id, cursor=cursor, limit=limit))

    @overload
    def node(self, node: Node[T]) -> Handle[T]: ...
    @overload
    def node(self, node: str) -> Handle[Any]: ...
    def node(self, node: Node[Any] | str) -> Handle[Any]:
        """A handle for the execution of a node, given as a node or by name."""
        if isinstance(node, Node):
            return Handle(self._backend, node.id, node.task)
        if not isinstance(node, str):
            raise InvalidInput("node", node, "must be a node of the flow, or a node's name")
        if node in self._nodes:
            return self.node(self._nodes[node])
        tag = flow_partition(self.id, self._backend.partitions).tag
        return Handle(self._backend, ExecutionId(f"{tag}:{uuid5(UUID(self.id), node)}"))

    def events(self, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """Events of the flow and its members, past and new, until it ends.

        `cursor` is that of the last event seen, or "end" for new events only.
        """
        return self._backend.tail_flow_events(self.id, cursor=cursor)

    async def cancel(
        self,
        reason: str = "",
        *,
        policy: c.CancellationPolicy | str = c.CancellationPolicy.CANCEL_ALL,
        wait: bool = False,
    ) -> c.CancelFlowResult:
        """Cancel it: no member starts from now on. With `wait`, return after all members were cancelled.

        "cancel_all" cancels all members, "cancel_pending" all but running ones, "flow_only" none.
        """
        args = c.CancelFlowArgs(
            flow_id=self.id,
            reason=reason,
            cancellation_policy=policy,  # type: ignore[arg-type]  # checked there
            wait=wait,
        )
        result = await self._backend.cancel_flow(args)
        if result.cancellation_policy is not args.cancellation_policy:
            before, wanted = result.cancellation_policy, args.cancellation_policy
            message = f"cancel {self.id}: it was already cancelled with {before}, so {wanted} has no effect"
            raise Conflict(
                f"{message}; cancel remaining members with handle.node(...).cancel()",
                code="flow_already_terminal",
                flow_id=str(self.id),
                state="cancelled",
            )
        return result

    async def retry(self) -> list[ExecutionId]:
        """Run failed members again with their recorded steps, and those skipped or cancelled because of them.

        Returns the ids of the failed members. Raises Conflict when a child flow failed, because child flows cannot be
        run again; retry the other members one by one with `handle.node(...).retry()`.
        """
        again = await self._failed("retry", "retry_not_allowed")
        for execution_id in again:
            await self._backend.retry_execution(c.RetryExecutionArgs(execution_id=execution_id))
        return again

    async def replay(self) -> list[ExecutionId]:
        """As retry, but the failed members start from their beginning, without their recorded steps."""
        again = await self._failed("replay", "replay_not_allowed")
        for execution_id in again:
            await self._backend.replay_execution(c.ReplayExecutionArgs(execution_id=execution_id))
        return again

    async def _failed(self, operation: str, code: str) -> list[ExecutionId]:
        """Its failed members, upstream members first, so that those that depend on them wait for them again."""
        view = await self.view()
        culprit = view.flow.failed_execution_id  # which may have been cancelled
        failed = [each for each in view.members if each.public_state in _FAILED or each.execution_id == culprit]
        if flows := [view.labels[each.execution_id] for each in failed if each.child_flow_id]:
            message = f"{operation} {self.id}: {', '.join(flows)} failed, and a child flow cannot be run again"
            raise Conflict(message, code=code, flow_id=str(self.id))
        place = {execution_id: at for at, execution_id in enumerate(view.order)}
        return sorted((each.execution_id for each in failed), key=place.__getitem__)

    async def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add tags or overwrite their values; other tags stay."""
        await self._backend.set_flow_tags(c.SetFlowTagsArgs(flow_id=self.id, tags=dict(tags)))

    async def _failure(self) -> FlowEnded:
        flow = await self.describe()
        failed = flow.failed_execution_id and await self._backend.describe_execution(flow.failed_execution_id)
        return FlowEnded(flow, failed.failure_reason if failed else None)

    def _handle_of(self, execution_id: ExecutionId) -> Handle[Any]:
        for node in self._nodes.values():
            if node.id == execution_id:
                return self.node(node)
        return Handle(self._backend, execution_id)

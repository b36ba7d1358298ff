"""Flows for code without an event loop: submitted and watched through the portal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from flowfabric.client.flows.flow import Flow
from flowfabric.client.flows.handle import FlowHandle
from flowfabric.client.flows.nodes import Node
from flowfabric.client.sync.handle import SyncHandle
from flowfabric.client.sync.portal import Portal
from flowfabric.client.tasks.options import Duration
from flowfabric.core import contracts as c

P = ParamSpec("P")
T = TypeVar("T")


def _of_handle(
    method: Callable[Concatenate[FlowHandle, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncFlowHandle, P], T]:
    """A method of FlowHandle, run in the portal."""

    @wraps(method)
    def run(self: SyncFlowHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._handle, *args, **kwargs)

    return run


class SyncFlowHandle:
    """One flow; `result()` waits for the result of its only leaf."""

    def __init__(self, portal: Portal, handle: FlowHandle) -> None:
        self._portal = portal
        self._handle = handle
        self.id = handle.id
        self.submission = handle.submission

    def __repr__(self) -> str:
        return f"Sync{self._handle!r}"

    @overload
    def node(self, node: Node[T]) -> SyncHandle[T]: ...
    @overload
    def node(self, node: str) -> SyncHandle[Any]: ...
    def node(self, node: Node[Any] | str) -> SyncHandle[Any]:
        """As FlowHandle.node."""
        return SyncHandle(self._portal, self._handle.node(node))

    def result(self, timeout: Duration | None = None) -> Any:
        """As FlowHandle.result."""
        return self._portal.run(self._handle.result, timeout)

    def events(self, *, cursor: str | None = None) -> Iterator[c.Event]:
        """As FlowHandle.events."""
        return self._portal.iterate(self._handle.events(cursor=cursor))

    wait = _of_handle(FlowHandle.wait)
    status = _of_handle(FlowHandle.status)
    describe = _of_handle(FlowHandle.describe)
    view = _of_handle(FlowHandle.view)
    members = _of_handle(FlowHandle.members)
    cancel = _of_handle(FlowHandle.cancel)
    replay = _of_handle(FlowHandle.replay)
    retry = _of_handle(FlowHandle.retry)
    set_tags = _of_handle(FlowHandle.set_tags)


class SyncFlow:
    """`with fabric.flow("research") as flow: ...`: a flow that is submitted at the end of the block."""

    def __init__(self, portal: Portal, flow: Flow) -> None:
        self._portal = portal
        self._flow = flow
        self.id = flow.id
        self.add = flow.add
        self.map = flow.map
        self.all = flow.all
        self.any = flow.any
        self.quorum = flow.quorum
        self.add_flow = flow.add_flow

    @property
    def handle(self) -> SyncFlowHandle:
        """The submitted flow."""
        return SyncFlowHandle(self._portal, self._flow.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._portal.run(self._flow.submit)

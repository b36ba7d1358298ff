"""SyncFabric: Fabric for scripts, Django and Flask. Its methods run those of Fabric in a portal."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, overload

from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.client.sync.flows import SyncFlow, SyncFlowHandle
from flowfabric.client.sync.handle import SyncHandle
from flowfabric.client.sync.limits import SyncBudgets, SyncQuotas
from flowfabric.client.sync.portal import Portal
from flowfabric.client.tasks.task import Call, Task
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.errors import FlowFabricError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SyncSubmissions: TypeAlias = list["SyncHandle[R] | FlowFabricError"]


def _of_fabric(
    method: Callable[Concatenate[Fabric, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncFabric, P], T]:
    """A method of Fabric, run in the portal."""

    @wraps(method)
    def run(self: SyncFabric, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._fabric, *args, **kwargs)

    return run


class SyncFabric:
    """One store, for code without an event loop: one thread serves all threads of the process.

    Close it, use it in a `with`, or let the end of the process close it. A forked process must connect again.
    """

    def __init__(self, portal: Portal, fabric: Fabric) -> None:
        self._portal = portal
        self._fabric = fabric
        self.budgets = SyncBudgets(portal, fabric.budgets)
        self.quotas = SyncQuotas(portal, fabric.quotas)
        atexit.register(self._close_at_exit)

    @classmethod
    def connect(cls, where: str | Settings | None = None, *, namespace: str = "default") -> Self:
        """Connect to the store at a URL, or of these settings; by default FLOWFABRIC_URL."""
        portal = Portal()
        try:
            return cls(portal, portal.run(Fabric.open, where, namespace=namespace))
        except BaseException:
            portal.close()
            raise

    def close(self) -> None:
        """Close the store and end the thread. A second call does nothing, nor does one in a forked process."""
        atexit.unregister(self._close_at_exit)
        if self._portal.is_open:
            try:
                self._portal.run(self._fabric.close)
            finally:
                self._portal.close()

    def _close_at_exit(self) -> None:
        self._portal.work_without_threads()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @overload
    def submit(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]: ...
    @overload
    def submit(self, task: str, /, *args: Any, **kwargs: Any) -> SyncHandle[Any]: ...
    def submit(self, task: Any, /, *args: Any, **kwargs: Any) -> SyncHandle[Any]:
        """As Fabric.submit."""
        return SyncHandle(self._portal, self._portal.run(self._fabric.submit, task, *args, **kwargs))

    @overload
    def submit_many(self, calls: Iterable[Call[R]], /) -> SyncSubmissions[R]: ...
    @overload
    def submit_many(self, task: Task[..., R], calls: Iterable[tuple[Any, ...]], /) -> SyncSubmissions[R]: ...
    @overload
    def submit_many(self, task: str, calls: Iterable[tuple[Any, ...]], /) -> SyncSubmissions[Any]: ...
    def submit_many(self, first: Any, /, *more: Any) -> SyncSubmissions[Any]:
        """As Fabric.submit_many."""
        outcomes = self._portal.run(self._fabric.submit_many, first, *more)
        return [SyncHandle(self._portal, each) if isinstance(each, Handle) else each for each in outcomes]

    @overload
    def handle(self, execution_id: str, task: Task[..., R]) -> SyncHandle[R]: ...
    @overload
    def handle(self, execution_id: str, task: None = None) -> SyncHandle[Any]: ...
    def handle(self, execution_id: str, task: Any = None) -> SyncHandle[Any]:
        """As Fabric.handle."""
        return SyncHandle(self._portal, self._fabric.handle(execution_id, task))

    def flow(
        self,
        name: str,
        *,
        lane: str = "default",
        failure_policy: c.FailurePolicy | str = c.FailurePolicy.CONTINUE,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> SyncFlow:
        """As Fabric.flow, in a `with`."""
        flow = self._fabric.flow(
            name, lane=lane, failure_policy=failure_policy, idempotency_key=idempotency_key, tags=tags
        )
        return SyncFlow(self._portal, flow)

    def flow_handle(self, flow_id: str) -> SyncFlowHandle:
        """As Fabric.flow_handle."""
        return SyncFlowHandle(self._portal, self._fabric.flow_handle(flow_id))

    counts = _of_fabric(Fabric.counts)
    flows = _of_fabric(Fabric.flows)
    events = _of_fabric(Fabric.events)
    signal = _of_fabric(Fabric.signal)
    suspended = _of_fabric(Fabric.suspended)
    workers = _of_fabric(Fabric.workers)
    pause_lane = _of_fabric(Fabric.pause_lane)
    drain_lane = _of_fabric(Fabric.drain_lane)
    resume_lane = _of_fabric(Fabric.resume_lane)
    configure_lane = _of_fabric(Fabric.configure_lane)
    describe_lane = _of_fabric(Fabric.describe_lane)
    lanes = _of_fabric(Fabric.lanes)
    explain = _of_fabric(Fabric.explain)
    trim = _of_fabric(Fabric.trim)
    list = _of_fabric(Fabric.list)

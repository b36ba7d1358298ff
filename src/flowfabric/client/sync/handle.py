"""SyncHandle: Handle for code without an event loop. Its methods run those of Handle in a portal."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from flowfabric.client.forks import Input, Step
from flowfabric.client.handle import Handle
from flowfabric.client.streaming import Attempts, StreamItem
from flowfabric.client.sync.portal import Portal
from flowfabric.client.tasks.options import Duration
from flowfabric.core import contracts as c

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _of_handle(
    method: Callable[Concatenate[Handle[Any], P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncHandle[Any], P], T]:
    """A method of Handle, run in the portal."""

    @wraps(method)
    def run(self: SyncHandle[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.run(method, self._handle, *args, **kwargs)

    return run


class SyncHandle(Generic[R]):
    """One execution; `result()` waits for the task's result."""

    def __init__(self, portal: Portal, handle: Handle[R]) -> None:
        self._portal = portal
        self._handle = handle
        self.id = handle.id
        self.submission = handle.submission

    def __repr__(self) -> str:
        return f"Sync{self._handle!r}"

    def result(self, timeout: Duration | None = None) -> R:
        """As Handle.result."""
        return self._portal.run(self._handle.result, timeout)

    def events(self, *, cursor: str | None = None) -> Iterator[c.Event]:
        """As Handle.events."""
        return self._portal.iterate(self._handle.events(cursor=cursor))

    def stream(
        self, *, after: str | None = None, attempts: Attempts = "latest", live: bool = True
    ) -> Iterator[StreamItem]:
        """As Handle.stream."""
        return self._portal.iterate(self._handle.stream(after=after, attempts=attempts, live=live))

    def logs(
        self, *, after: str | None = None, attempt: int | None = None, level: str = "debug", follow: bool = False
    ) -> Iterator[c.LogRecord]:
        """As Handle.logs."""
        return self._portal.iterate(self._handle.logs(after=after, attempt=attempt, level=level, follow=follow))

    def fork(
        self,
        from_step: Step | None = None,
        *,
        input: Input | None = None,  # noqa: A002
        changed: Mapping[Step, Any] | None = None,
    ) -> SyncHandle[R]:
        """As Handle.fork."""
        made = self._portal.run(self._handle.fork, from_step, input=input, changed=changed)
        return SyncHandle(self._portal, made)

    wait = _of_handle(Handle.wait)
    raw_result = _of_handle(Handle.raw_result)
    status = _of_handle(Handle.status)
    describe = _of_handle(Handle.describe)
    attempts = _of_handle(Handle.attempts)
    history = _of_handle(Handle.history)
    summary = _of_handle(Handle.summary)
    signal = _of_handle(Handle.signal)
    waitpoints = _of_handle(Handle.waitpoints)
    link = _of_handle(Handle.link)
    resume = _of_handle(Handle.resume)
    cancel = _of_handle(Handle.cancel)
    retry = _of_handle(Handle.retry)
    replay = _of_handle(Handle.replay)
    change = _of_handle(Handle.change)

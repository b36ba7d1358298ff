"""A connection to the store that a test can cut, hold up, or make fail."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from flowfabric.backends.ports import EngineBackend
from flowfabric.core.contracts import FlowState
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.states import PublicState
from flowfabric.errors import BackendUnavailable, InvalidInput

WhyOpen = Callable[[ExecutionId | FlowId], Awaitable[Exception]]


class Line:
    """A store that some calls do not reach. A call that fails here has no effect."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._is_cut = False
        self._faults: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self._released: asyncio.Event | None = None  # while calls are held

    @property
    def end(self) -> EngineBackend:
        """The store with all its ports, for the caller."""
        return cast("EngineBackend", self)

    def cut(self) -> None:
        """Let no more calls through. Calls that are out may still arrive; their callers may not get an answer."""
        self._is_cut = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold calls up while the context manager is open."""
        self._released = released = asyncio.Event()
        try:
            yield
        finally:
            self._released = None
            released.set()

    def fail_next(self, operation: str, error: Exception, times: int) -> None:
        """Make the next calls of a port's method fail."""
        if operation.startswith("_") or not callable(getattr(EngineBackend, operation, None)):
            raise InvalidInput("operation", operation, "must be a method of EngineBackend, such as submit_executions")
        self._faults[operation].extend([error] * times)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if not callable(found):
            return found
        if self._released is not None:
            return partial(self._later, name, self._released)
        error = self._next_error(name)
        return found if error is None else partial(_fails, error)

    async def _later(self, name: str, released: asyncio.Event, *args: Any, **kwargs: Any) -> Any:
        await released.wait()
        return await getattr(self, name)(*args, **kwargs)

    def _next_error(self, name: str) -> Exception | None:
        if self._is_cut:
            return BackendUnavailable("the worker was killed", sent=False)
        faults = self._faults.get(name)
        return faults.popleft() if faults else None


class PatientLine(Line):
    """A line on which waiting for an end times out: in a test it may never come."""

    def __init__(self, backend: EngineBackend, patience_ms: Callable[[], int], why_open: WhyOpen) -> None:
        super().__init__(backend)
        self._patience_ms = patience_ms
        self._why_open = why_open

    async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> PublicState | None:
        patience_ms = self._patience_ms()
        wait = self.__getattr__("wait_for_execution")
        state: PublicState | None = await wait(execution_id, timeout_ms=min(timeout_ms, patience_ms))
        if state is None and timeout_ms > patience_ms:
            raise await self._why_open(execution_id)
        return state

    async def wait_for_flow(self, flow_id: FlowId, *, timeout_ms: int) -> FlowState | None:
        patience_ms = self._patience_ms()
        wait = self.__getattr__("wait_for_flow")
        state: FlowState | None = await wait(flow_id, timeout_ms=min(timeout_ms, patience_ms))
        if state is None and timeout_ms > patience_ms:
            raise await self._why_open(flow_id)
        return state


async def _fails(error: Exception, *args: Any, **kwargs: Any) -> Any:
    raise error

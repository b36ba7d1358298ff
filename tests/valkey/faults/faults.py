"""Named fault points: a call of a backend dies, or stands still, right before or right after a function of the store.

A point is `before <operation>` or `after <operation>`, as in `after admit_batch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend

T = TypeVar("T")


class Killed(BaseException):
    """The process ends here."""


class Faults:
    """Acts at the points that calls of one backend pass."""

    def __init__(self, backend: ValkeyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        self._invoke = backend._caller._invoke
        self._deadly: set[str] = set()
        self._still: dict[str, asyncio.Event] = {}
        self._reached: dict[str, asyncio.Event] = {}
        monkeypatch.setattr(backend._caller, "_invoke", self._watched)

    async def killed(self, point: str, work: Coroutine[Any, Any, Any]) -> None:
        """Do the work until the process that does it dies at the point."""
        self._deadly.add(point)
        with pytest.raises(Killed):
            await work
        self._deadly.remove(point)

    @asynccontextmanager
    async def still(self, point: str, work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
        """The work stands still at the point while the body runs, and goes on after it; no other call does."""
        self._reached[point], goes_on = asyncio.Event(), asyncio.Event()
        self._still[point] = goes_on
        task = asyncio.create_task(work)
        async with asyncio.timeout(20):
            await self._reached[point].wait()
        yield task
        goes_on.set()
        await asyncio.wait([task])

    async def _watched(self, spec: Any, *args: Any) -> Any:
        await self._pass(f"before {spec.operation}")
        found = await self._invoke(spec, *args)
        await self._pass(f"after {spec.operation}")
        return found

    async def _pass(self, point: str) -> None:
        if point in self._deadly:
            raise Killed
        if goes_on := self._still.pop(point, None):
            self._reached[point].set()
            await goes_on.wait()

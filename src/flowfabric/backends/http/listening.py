"""Being told of work by a server's stream of events, which is read whether or not somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, TypeVar

from flowfabric.backends.http.transport import Event

T = TypeVar("T")


class Ear(Generic[T]):
    """What was heard since the last wait. Nothing in an event means that anything may have happened."""

    def __init__(self, events: AsyncGenerator[Event, None], read: Callable[[bytes], set[T]]) -> None:
        self._events = events
        self._read = read
        self._heard: set[T] = set()
        self._is_anything = False
        self._news = asyncio.Event()
        self._failure: Exception | None = None

    async def __aenter__(self) -> Ear[T]:
        """Once the server listens: its first event says so."""
        self._task = asyncio.create_task(self._hear())
        try:
            await self._news.wait()
            self._check()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._events.aclose()

    async def wait(self) -> frozenset[T]:
        await self._news.wait()
        self._check()
        heard = frozenset() if self._is_anything else frozenset(self._heard)
        self._heard, self._is_anything = set(), False
        self._news.clear()
        return heard

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _hear(self) -> None:
        try:
            async for event in self._events:
                found = self._read(event.data)
                self._heard |= found
                self._is_anything |= not found
                self._news.set()
        except Exception as failure:
            self._failure = failure
        finally:
            self._news.set()

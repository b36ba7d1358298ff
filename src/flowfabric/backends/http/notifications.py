"""Listen for work on a server's event stream, which is read whether or not the listener waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from flowfabric.backends.http.transport import Event
from flowfabric.backends.notifications import Heard, News
from flowfabric.errors import BackendUnavailable


class Ear(News[Heard]):
    """Collects the notifications of a stream. An event that names nothing means that anything may have changed."""

    def __init__(self, events: AsyncGenerator[Event, None], read: Callable[[bytes], set[Heard]]) -> None:
        super().__init__()
        self._events = events
        self._read = read

    async def __aenter__(self) -> Ear[Heard]:
        """Wait until the server is listening, which its first event confirms."""
        self._task = asyncio.create_task(self._hear())
        try:
            await self.first()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._events.aclose()

    def _tell(self, found: set[Heard]) -> None:
        for heard in found:
            self.note(heard)
        if not found:
            self.look_everywhere()

    async def _hear(self) -> None:
        try:
            async for event in self._events:
                self._tell(self._read(event.data))
            raise BackendUnavailable("the server ended its event stream", sent=False)
        except Exception as failure:
            self.fail(failure)

"""The end of a backend: closing it ends its open waits, and refuses every later call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from flowfabric.errors import BackendUnavailable


class Lifetime:
    """Lasts until `end()`."""

    def __init__(self) -> None:
        self._ended = False
        self._waits: set[asyncio.Timeout] = set()

    def check(self) -> None:
        if self._ended:
            raise BackendUnavailable("the backend is closed", sent=False)

    @asynccontextmanager
    async def wait(self) -> AsyncIterator[None]:
        """Interrupt the body when the backend is closed. A generator must not yield inside."""
        self.check()
        try:
            async with asyncio.timeout(None) as timeout:
                self._waits.add(timeout)
                try:
                    yield
                finally:
                    self._waits.discard(timeout)
        except TimeoutError:
            self.check()
            raise

    def end(self) -> None:
        """End every wait, by a timeout that is due now."""
        if self._ended:
            return
        self._ended = True
        now = asyncio.get_running_loop().time()
        for timeout in self._waits:
            timeout.reschedule(now)

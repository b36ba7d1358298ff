"""Limit concurrent heavy calls, so that a busy engine does not slow down other clients of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A slower call hangs on a server that is gone. Free its slot, so that other calls continue.
_PATIENCE_S = 0.25


class Slots:
    """A fixed number of concurrent calls; waiting calls take turns."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a slot while the body runs, at most for `_PATIENCE_S`."""
        await self._free.acquire()
        given_back = False

        def give_back() -> None:
            nonlocal given_back
            if not given_back:
                given_back = True
                self._free.release()

        timer = asyncio.get_running_loop().call_later(_PATIENCE_S, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()

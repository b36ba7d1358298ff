"""A bound on heavy calls at once, so that an engine with much to do does not keep everybody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A call that takes longer is not busy but stuck, on a server that is gone, and must not keep the others waiting.
_PATIENCE_S = 0.25


class Slots:
    """So many calls at once; those who wait take turns."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a slot, for as long as the body runs but not for ever."""
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

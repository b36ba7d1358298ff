"""Local durations: how long to wait, how long something took. Never state: that has the store's clock (G5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any


class Timer:
    """A clock that only measures, and the two ways to wait. Tests have one of their own."""

    def now_ms(self) -> float:
        return time.monotonic() * 1_000

    async def wait(self, event: asyncio.Event, ms: float) -> None:
        """Until the event is set, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ms / 1_000):
                await event.wait()

    async def wait_for_all(self, tasks: Collection[asyncio.Future[Any]], ms: float) -> None:
        """Until all have ended, or so long; none is cancelled."""
        if tasks:
            await asyncio.wait(tasks, timeout=ms / 1_000)

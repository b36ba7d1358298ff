"""Local durations for waits and measurements. State uses the store's clock (G5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any


class Timer:
    """A monotonic clock and two ways to wait; tests replace it."""

    def now_ms(self) -> float:
        return time.monotonic() * 1_000

    async def wait(self, event: asyncio.Event, ms: float) -> None:
        """Wait until the event is set or the time has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ms / 1_000):
                await event.wait()

    async def wait_for_all(self, tasks: Collection[asyncio.Future[Any]], ms: float) -> None:
        """Wait until all tasks have ended or the time has passed; cancel none."""
        if tasks:
            await asyncio.wait(tasks, timeout=ms / 1_000)

"""Turns: the worker handles all changes of one round of the event loop together, in the next round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Turns:
    """Calls its listeners in the round of the event loop after a change, once for all changes of a round.

    This event lets parts that change something (an attempt ended, a call returned) be built before the parts that
    react to it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Callable[[], None]] = []
        self._is_due = False
        self._turned = asyncio.Event()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` in every turn, after the listeners that were added before it."""
        self._listeners.append(listener)

    def soon(self) -> None:
        """Something changed: take a turn in the next round of the event loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        for listener in self._listeners:
            listener()
        self._turned.set()

    async def until(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait until the condition holds after some turn. Returns False on timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._turned.clear()
                    await self._turned.wait()
        except TimeoutError:
            return condition()
        return True

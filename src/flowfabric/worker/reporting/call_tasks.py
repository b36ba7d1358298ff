"""Calls to the store that run in the background; the worker waits for them before it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from flowfabric.worker.loop.turns import Turns

T = TypeVar("T")


class CallTasks:
    """Runs calls to their end. It is true while a call is out."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._awaited = 0  # calls of `see_through`, which run in the caller's task

    def __bool__(self) -> bool:
        return bool(self._tasks) or self._awaited > 0

    def start(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the call to its end, even if its caller is cancelled."""
        task = self._loop.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._turns.soon()

    async def see_through(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Make a repeatable call whose effect must be known, even if the caller is cancelled meanwhile.

        A cancelled caller makes the call again and raises the cancellation after the answer. Cancellations are
        rare, so this is cheaper than a task for each call.
        """
        self._awaited += 1
        try:
            return await call()
        except asyncio.CancelledError:
            again = self.start(call())
            await asyncio.wait([again])
            if not again.cancelled():
                again.exception()  # mark it as retrieved
            raise
        finally:
            self._awaited -= 1
            self._turns.soon()

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel the calls that are out, and wait for their tasks."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

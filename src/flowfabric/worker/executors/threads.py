"""Threads for handlers that are plain functions.

They are daemon threads: a handler that never returns cannot be stopped, and must not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_numbers: Final = itertools.count(1)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether it runs on the event loop; other functions run in a thread."""
    # An object is async if the __call__ of its class is.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class Threads:
    """Starts threads as needed, and reuses them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, function: Callable[[], T]) -> T:
        """Call the function in a thread, with the caller's context variables. A call always runs to its end."""
        done: asyncio.Future[tuple[T | None, BaseException | None]] = self._loop.create_future()
        context = contextvars.copy_context()
        self._jobs.put(lambda: self._call(lambda: context.run(function), done))
        self._busy += 1
        if self._busy > self._started:
            self._start()
        value, error = await done
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def close(self) -> None:
        """End the threads; busy threads end after their current call."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _start(self) -> None:
        self._started += 1
        name = f"flowfabric-handler-{next(_numbers)}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _call(self, function: Callable[[], Any], done: asyncio.Future[tuple[Any, BaseException | None]]) -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = (function(), None)
        except BaseException as error:  # report it; the thread continues with the next job
            outcome = (None, error)
        try:
            self._loop.call_soon_threadsafe(self._tell, done, outcome)
        except RuntimeError:
            return  # the loop is closed; no one waits for the result

    def _tell(self, done: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
        self._busy -= 1
        if not done.done():
            done.set_result(outcome)

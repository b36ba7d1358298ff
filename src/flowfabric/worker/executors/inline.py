"""Runs handlers that do not wait for anything, one after the other in one asyncio task.

A task for each attempt costs more than such a handler does. Whether a handler waits shows when it runs, so the first
that does keeps the task it was begun in, and those behind it go on in another; its later attempts have a task of their
own from the start. So every handler has a current task that can be cancelled, as time-outs and task groups need it, and
each attempt has its own copy of the context variables.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from types import coroutine
from typing import Any

from flowfabric.worker.attempts.attempt import Attempt


class SharedTask:
    """Attempts in line, and the task that runs them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._line: deque[Attempt] = deque()
        self._is_served = False
        self._task: asyncio.Task[None] | None = None  # the last one; the loop itself does not hold it

    def run(self, attempt: Attempt) -> None:
        """Run its handler soon; if that waits for something, the task is the attempt's `handle`."""
        self._line.append(attempt)
        if not self._is_served:
            self._serve_line()

    def _serve_line(self) -> None:
        self._is_served = bool(self._line)
        if self._is_served:
            self._task = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._run_all()
        finally:
            self._serve_line()

    @coroutine
    def _run_all(self) -> Generator[Any, Any, None]:
        """Those in line now. Who comes meanwhile is next, after the others on this loop."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(len(self._line)):
            attempt = self._line.popleft()
            context, run = copy_context(), attempt.handler.run(attempt)
            try:
                awaited = context.run(run.send, None)
            except StopIteration:
                if task.cancelling():  # it cancelled itself, and not those behind it
                    return
                continue
            attempt.handler.waits = True
            attempt.handle = task
            self._serve_line()
            yield from _go_on(run, context, awaited)
            return


def _go_on(run: Coroutine[Any, Any, None], context: Context, awaited: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that has begun to wait, every step in its context, as a task of its own does it."""
    try:
        while True:
            try:
                value = yield awaited
            except BaseException as error:
                awaited = context.run(run.throw, error)
            else:
                awaited = context.run(run.send, value)
    except StopIteration:
        return

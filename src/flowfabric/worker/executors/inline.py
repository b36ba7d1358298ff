"""Runs handlers that never wait one after the other in one asyncio task.

A task for each attempt costs more than running such a handler. Whether a handler waits shows when it runs: the first
attempt that waits keeps the task it started in, and the attempts behind it continue in another task. Later attempts of
that handler get their own task from the start. So every handler has a current task that can be cancelled, as timeouts
and task groups need, and each attempt has its own copy of the context variables.
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
    """A queue of attempts, and the task that runs them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._line: deque[Attempt] = deque()
        self._is_served = False
        self._task: asyncio.Task[None] | None = None  # the latest; the event loop keeps no strong reference

    def run(self, attempt: Attempt) -> None:
        """Run the handler soon; if it waits, the task becomes the attempt's `handle`."""
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
        """Run the attempts that are queued now; attempts that come meanwhile run in the next round."""
        task = asyncio.current_task()
        assert task is not None
        for _ in range(len(self._line)):
            attempt = self._line.popleft()
            context, run = copy_context(), attempt.handler.run(attempt)
            try:
                awaited = context.run(run.send, None)
            except StopIteration:
                if task.cancelling():  # it cancelled itself; do not cancel the attempts behind it
                    return
                continue
            attempt.handler.waits = True
            attempt.handle = task
            self._serve_line()
            yield from _go_on(run, context, awaited)
            return


def _go_on(run: Coroutine[Any, Any, None], context: Context, awaited: Any) -> Generator[Any, Any, None]:
    """Continue a coroutine that has started to wait, every step in its context, as its own task would."""
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

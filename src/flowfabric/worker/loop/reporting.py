"""What is sent for one attempt alone: it goes back, it is cancelled, it is so far."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts.batch import ClaimedWork
from flowfabric.errors import FlowFabricError
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.stats import WorkerStats

T = TypeVar("T")

_logger: Final = logging.getLogger("flowfabric.worker")


class SingleCalls:
    """Calls that have no batch. A worker knows all of them before it ends, whether somebody waits for them or not."""

    def __init__(self, backend: EngineBackend, stats: WorkerStats, held: set[Attempt]) -> None:
        self._backend = backend
        self._stats = stats
        self._held = held
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waited_for = 0  # calls that somebody waits for himself
        self.changed: Callable[[], None]

    def __bool__(self) -> bool:
        return bool(self._tasks) or self._waited_for > 0

    def delay(self, attempt: Attempt, until_ms: int, counted_as: str) -> None:
        """Give the attempt back; it goes on at that time. 0 is now."""
        args = c.DelayExecutionArgs(execution_id=attempt.execution_id, fence=attempt.fence, delay_until=until_ms)
        self.start(self._end(attempt, self._backend.delay_execution(args), counted_as))

    def cancel(self, attempt: Attempt, reason: str) -> None:
        args = c.CancelExecutionArgs(execution_id=attempt.execution_id, fence=attempt.fence, reason=reason)
        self.start(self._end(attempt, self._backend.cancel_execution(args), "cancelled"))

    def progress(self, attempt: Attempt, args: c.UpdateProgressArgs) -> None:
        """While one is on its way, only the last of the next ones is kept."""
        is_sending = attempt.note is not None
        attempt.note = args
        if not is_sending:
            self.start(self._send_progress(attempt))

    def return_unknown(self, work: ClaimedWork, message: str, until_ms: int) -> None:
        """Give back what this worker cannot run, and say so where `describe` shows it."""

        async def call() -> None:
            note = c.UpdateProgressArgs(execution_id=work.execution_id, fence=work.fence, progress_message=message)
            args = c.DelayExecutionArgs(execution_id=work.execution_id, fence=work.fence, delay_until=until_ms)
            try:
                await self._backend.update_progress(note)
                await self._backend.delay_execution(args)
            except FlowFabricError as error:
                _logger.warning("%s could not be handed back: %s", work.execution_id, error)

        self.start(call())

    async def _end(self, attempt: Attempt, call: Awaitable[object], counted_as: str) -> None:
        try:
            await call
            setattr(self._stats, counted_as, getattr(self._stats, counted_as) + 1)
        except FlowFabricError as error:
            self._stats.lost += 1
            _logger.warning("%s was not %s: %s", attempt.execution_id, counted_as.replace("_", " "), error)
        finally:
            self._held.discard(attempt)

    async def _send_progress(self, attempt: Attempt) -> None:
        sent = None
        try:
            while (args := attempt.note) is not None and args is not sent:
                sent = args
                await self._backend.update_progress(args)
        except FlowFabricError as error:
            _logger.info("the progress of %s was not noted: %s", attempt.execution_id, error)
        finally:
            attempt.note = None

    async def see_through(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to a call whose effect must be known, and which may be repeated.

        Whoever is cancelled meanwhile asks once more, and is cancelled when that has been answered. A task of its own
        for each call would do, too, but few are cancelled.
        """
        self._waited_for += 1
        try:
            return await call()
        except asyncio.CancelledError:
            again = self.start(call())
            await asyncio.wait([again])
            if not again.cancelled():
                again.exception()  # nobody else asks for it
            raise
        finally:
            self._waited_for -= 1
            self.changed()

    def start(self, call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have it run to its end, whoever waits for it."""
        task = asyncio.get_running_loop().create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.changed()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

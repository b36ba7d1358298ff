"""Calls for one attempt that have no batch: hand it back, cancel it, send its progress."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts.batch import ClaimedWork
from flowfabric.errors import FlowFabricError
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger("flowfabric.worker")


class SingleCalls:
    """Sends each call in the background."""

    def __init__(self, backend: EngineBackend, pool: AttemptPool, tasks: CallTasks, stats: WorkerStats) -> None:
        self._backend = backend
        self._pool = pool
        self._tasks = tasks
        self._stats = stats

    def delay(self, attempt: Attempt, until_ms: int, counted_as: str) -> None:
        """Hand the attempt back; it resumes at `until_ms`, where 0 is now."""
        args = c.DelayExecutionArgs(execution_id=attempt.execution_id, fence=attempt.fence, delay_until=until_ms)
        self._tasks.start(self._end(attempt, self._backend.delay_execution(args), counted_as))

    def cancel(self, attempt: Attempt, reason: str) -> None:
        args = c.CancelExecutionArgs(execution_id=attempt.execution_id, fence=attempt.fence, reason=reason)
        self._tasks.start(self._end(attempt, self._backend.cancel_execution(args), "cancelled"))

    def progress(self, attempt: Attempt, args: c.UpdateProgressArgs) -> None:
        """Send progress. While a call is out, only the latest of the following updates is kept."""
        is_sending = attempt.note is not None
        attempt.note = args
        if not is_sending:
            self._tasks.start(self._send_progress(attempt))

    def return_unknown(self, work: ClaimedWork, message: str, until_ms: int) -> None:
        """Hand back work that this worker has no task for, with a progress message that `describe` shows."""

        async def call() -> None:
            note = c.UpdateProgressArgs(execution_id=work.execution_id, fence=work.fence, progress_message=message)
            args = c.DelayExecutionArgs(execution_id=work.execution_id, fence=work.fence, delay_until=until_ms)
            try:
                await self._backend.update_progress(note)
                await self._backend.delay_execution(args)
            except FlowFabricError as error:
                _logger.warning("could not hand %s back: %s", work.execution_id.short, error)

        self._tasks.start(call())

    async def _end(self, attempt: Attempt, call: Awaitable[object], counted_as: str) -> None:
        try:
            await call
            setattr(self._stats, counted_as, getattr(self._stats, counted_as) + 1)
        except FlowFabricError as error:
            self._stats.lost += 1
            _logger.warning("%s was not %s: %s", attempt.execution_id.short, counted_as.replace("_", " "), error)
        finally:
            self._pool.held.discard(attempt)

    async def _send_progress(self, attempt: Attempt) -> None:
        sent = None
        try:
            while (args := attempt.note) is not None and args is not sent:
                sent = args
                await self._backend.update_progress(args)
        except FlowFabricError as error:
            _logger.info("progress of %s was not recorded: %s", attempt.execution_id.short, error)
        finally:
            attempt.note = None

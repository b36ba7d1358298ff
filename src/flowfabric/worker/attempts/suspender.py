"""Suspends attempts whose handlers wait: the lease goes back to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.worker.attempts.attempt import Attempt, Suspension
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.loop.claim_planner import ClaimPlanner
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.reporting.outgoing_frames import frames_taken
from flowfabric.worker.stats import WorkerStats

T = TypeVar("T")


class Suspender:
    """Makes the calls by which an attempt waits. Handlers call it through their context."""

    def __init__(
        self, backend: EngineBackend, pool: AttemptPool, tasks: CallTasks, planner: ClaimPlanner, stats: WorkerStats
    ) -> None:
        self._backend = backend
        self._pool = pool
        self._tasks = tasks
        self._planner = planner
        self._stats = stats

    async def suspend(self, attempt: Attempt, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        """active -> suspended. After the answer the attempt is settled, whatever its handler does."""
        call = partial(self._backend.suspend_execution, args)
        return await self._tasks.see_through(lambda: self._step_back(attempt, call))

    async def reject(self, attempt: Attempt, args: c.RejectSignalsArgs) -> c.RejectSignalsResult:
        """active -> suspended again. After the answer the attempt is settled, whatever its handler does."""
        call = partial(self._backend.reject_signals, args)
        return await self._tasks.see_through(lambda: self._step_back(attempt, call))

    async def move_to_waiting_children(self, attempt: Attempt) -> c.MoveToWaitingChildrenResult:
        """active -> waiting_children. After the answer the attempt is settled, whatever its handler does."""
        args = c.MoveToWaitingChildrenArgs(execution_id=attempt.execution_id, fence=attempt.fence)
        call = partial(self._backend.move_to_waiting_children, args)
        return await self._tasks.see_through(lambda: self._step_back(attempt, call))

    async def _step_back(self, attempt: Attempt, call: Callable[[], Awaitable[T]]) -> T:
        await frames_taken(attempt)
        attempt.suspension = Suspension.ASKED
        self._pool.held.discard(attempt)  # a renewal after the suspension would be refused
        try:
            result = await call()
        except asyncio.CancelledError:
            raise  # see_through makes the call again
        except BaseException:
            self._keep(attempt)
            raise
        if isinstance(result, c.ExecutionSuspended | c.MovedToWaitingChildren):
            self._suspended(attempt)
        else:
            self._keep(attempt)
        return result

    def _suspended(self, attempt: Attempt) -> None:
        attempt.suspension = Suspension.DONE
        attempt.settled = True
        attempt.frames = None
        self._stats.suspended += 1
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._planner.ask_again(attempt.execution_id.tag)

    def _keep(self, attempt: Attempt) -> None:
        """The attempt was not suspended."""
        attempt.suspension = None
        if not attempt.settled:
            self._pool.held.add(attempt)

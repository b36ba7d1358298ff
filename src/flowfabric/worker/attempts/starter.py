"""Starts the handlers of claimed attempts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import limits
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.worker.attempts import outcomes
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.attempts.stopper import Stopper
from flowfabric.worker.attempts.tracing import run_traced
from flowfabric.worker.clock import Clock
from flowfabric.worker.executors.dispatch import Handler
from flowfabric.worker.executors.inline import SharedTask
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.reporting.single_calls import SingleCalls
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger("flowfabric.worker")


class Starter:
    """Turns claimed work into attempts, and starts as many handlers as there are slots."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        backend: EngineBackend,
        pool: AttemptPool,
        stopper: Stopper,
        calls: SingleCalls,
        clock: Clock,
        settings: WorkerSettings,
        stats: WorkerStats,
        turns: Turns,
    ) -> None:
        self._handlers = handlers
        self._backend = backend
        self._pool = pool
        self._stopper = stopper
        self._calls = calls
        self._clock = clock
        self._settings = settings
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._shared_task = SharedTask()
        self._unknown: set[str] = set()  # task names that were warned about
        turns.listen(self._start_backlog)

    def claimed(self, works: Sequence[b.ClaimedWork], lane_id: LaneId, sent_at: float) -> None:
        """Start the attempts of a claim that was sent at `sent_at`, or keep them until a slot is free."""
        if not works:
            return
        pool, settings = self._pool, self._settings
        ttl_ms = settings.lease_ttl_ms
        self._stats.claimed += len(works)
        self._clock.observe(works[0].lease_expires_at - ttl_ms)
        lease_until, renew_at = sent_at + ttl_ms / 1000, sent_at + settings.renew_every_ms / 1000
        for work in works:
            handler = self._handlers.get(work.execution_kind)
            if handler is None:
                self._hand_back_unknown(work, lane_id)
                continue
            attempt = Attempt(work, handler, lane_id, lease_until, renew_at)
            pool.held.add(attempt)
            if pool.has_free_slot:
                self._start(attempt)
            else:
                pool.backlog.append(attempt)

    def _start_backlog(self) -> None:
        pool = self._pool
        while pool.backlog and pool.has_free_slot:
            self._start(pool.backlog.popleft())

    def _start(self, attempt: Attempt) -> None:
        self._pool.running.add(attempt)
        handler = attempt.handler
        if tracing.is_on():
            attempt.handle = self._loop.create_task(run_traced(attempt, self._backend))
        elif handler.waits:
            attempt.handle = self._loop.create_task(handler.run(attempt))
        else:
            self._shared_task.run(attempt)
        if handler.timeout_ms is not None:
            attempt.timer = self._loop.call_later(handler.timeout_ms / 1000, self._stopper.time_out, attempt)

    def _hand_back_unknown(self, work: b.ClaimedWork, lane_id: LaneId) -> None:
        """Another worker may know the task; the execution's progress says why it came back."""
        name = work.execution_kind
        self._stats.unknown += 1
        if name not in self._unknown:
            self._unknown.add(name)
            _logger.warning("no task %r in this worker; its executions of lane %s are handed back", name, lane_id)
        message = f"{self._settings.worker_instance_id} has no task {name!r} and handed it back"
        until_ms = self._clock.now_ms() + self._settings.unknown_delay_ms
        self._calls.return_unknown(work, outcomes.bounded(message, limits.PROGRESS_MESSAGE_MAX_BYTES), until_ms)

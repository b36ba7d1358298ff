"""Stops attempts: on timeout, when their lease is lost, and when the worker drains."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from flowfabric.worker.attempts.attempt import Attempt, Stop
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.reporting.reporter import Reporter
from flowfabric.worker.settings import WorkerSettings

_logger: Final = logging.getLogger("flowfabric.worker")


class Stopper:
    """Interrupts handlers, and ends attempts whose handlers do not stop."""

    def __init__(self, pool: AttemptPool, reporter: Reporter, settings: WorkerSettings) -> None:
        self._pool = pool
        self._reporter = reporter
        self._cancel_grace_s = settings.cancel_grace_ms / 1000
        self._loop = asyncio.get_running_loop()

    def time_out(self, attempt: Attempt) -> None:
        self.stop(attempt, Stop.TIMED_OUT)
        attempt.timer = self._loop.call_later(self._cancel_grace_s, self._give_up, attempt)

    def stop(self, attempt: Attempt, cause: Stop) -> None:
        attempt.order(cause)
        self.interrupt(attempt)

    def interrupt(self, attempt: Attempt) -> None:
        """Interrupt the handler of an attempt that was ordered to stop, or drop the attempt from the backlog."""
        if attempt in self._pool.running:
            attempt.handler.interrupt(attempt)
        elif attempt in self._pool.backlog:
            self._pool.backlog.remove(attempt)
            self._give_up(attempt)

    def lose(self, attempt: Attempt, cause: Stop) -> None:
        """The store refused a call of the handler because the lease is gone."""
        self._pool.held.discard(attempt)
        attempt.order(cause)

    def frames_refused(self, attempt: Attempt, cause: Stop) -> None:
        """The store refused frames because the lease is gone; the handler does not know yet."""
        if attempt.settled or attempt.suspension or attempt.stop:
            return
        _logger.warning(
            "stopping %s attempt %d: its frames are refused", attempt.execution_id.short, attempt.attempt_index
        )
        self.lose(attempt, cause)
        self.interrupt(attempt)

    def hand_back_backlog(self) -> None:
        """Hand back attempts that were claimed ahead and have not started."""
        for attempt in list(self._pool.backlog):
            self.stop(attempt, Stop.DRAINING)

    def stop_all(self) -> None:
        for attempt in list(self._pool.running):
            self.stop(attempt, Stop.DRAINING)

    def give_up_all(self) -> None:
        for attempt in list(self._pool.running):
            self._give_up(attempt)

    def abandon_all(self) -> None:
        """Stop everything without reporting it."""
        for attempt in (*self._pool.running, *self._pool.backlog):
            attempt.settled = True
        self._pool.backlog.clear()
        self.stop_all()

    def _give_up(self, attempt: Attempt) -> None:
        """End an attempt whose handler ignored the request to stop; the handler keeps its slot until it ends."""
        if not attempt.settled:
            attempt.settled = True
            self._reporter.stopped(attempt)

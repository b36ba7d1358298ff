"""The attempts that a worker has, and its capacity."""

from __future__ import annotations

from collections import deque

from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.settings import WorkerSettings


class AttemptPool:
    """Attempts whose leases the worker keeps, those whose handlers run, and those claimed ahead.

    An attempt leaves `running` when its handler ends, and `held` when the store has answered its end.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._concurrency = settings.concurrency
        self.capacity = settings.concurrency + settings.prefetch
        self.held: set[Attempt] = set()  # leases to renew
        self.running: set[Attempt] = set()
        self.backlog: deque[Attempt] = deque()  # claimed ahead

    @property
    def occupied(self) -> int:
        return len(self.running) + len(self.backlog)

    @property
    def has_free_slot(self) -> bool:
        return len(self.running) < self._concurrency

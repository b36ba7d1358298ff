"""A service: one periodic job of the engine, measured and isolated from the other services."""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from flowfabric.backends.ports import EngineBackend
from flowfabric.engine.backoff import Backoff, SetAside, SetAsideItem, described
from flowfabric.engine.ownership import Territory
from flowfabric.engine.settings import EngineSettings
from flowfabric.engine.slots import Slots
from flowfabric.engine.timing import Timer
from flowfabric.errors import FlowFabricError, Unavailable

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The objects that all services of one engine share."""

    backend: EngineBackend
    settings: EngineSettings
    territory: Territory
    timer: Timer
    slots: Slots


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a service.

    `lag_ms` is how late the service is. For due work: how long the oldest item of the last non-empty run had been due.
    For the other services: the time since the last full pass. None before the first one.
    """

    name: str
    runs: int
    items: int
    errors: int
    last_error: str | None
    duration_ms: float  # of the last run
    lag_ms: float | None
    cursor: str | None  # where the next run continues, in services that need several runs for a pass
    restarts: int
    set_aside: int
    set_aside_items: tuple[SetAsideItem, ...]  # those with most failures


class Service(ABC):
    """A periodic job with its interval and statistics.

    A run that fails on a store error is counted and retried. Any other error is a bug; the supervisor handles it.
    """

    name: ClassVar[str]

    def __init__(self, around: Surroundings, interval_ms: int) -> None:
        self.around = around
        self.interval_ms = interval_ms
        self.backoff = Backoff(around.settings.set_aside_ms, around.settings.set_aside_most_ms)
        self.set_aside = SetAside(self.backoff)
        self.runs = self.items = self.errors = self.restarts = 0
        self.last_error: str | None = None
        self.duration_ms = 0.0
        self.passed_at_ms: float | None = None  # when the last full pass ended
        self._woken = asyncio.Event()
        self._stopped = False
        self._failed: BaseException | None = None  # in the last run
        self._failures = 0  # consecutive failed runs

    @abstractmethod
    async def run_once(self) -> int:
        """Do all current work within the time budget; return the number of items done."""

    async def run_next(self) -> int:
        """One turn of the loop; a service with a schedule visits only the partitions that are due."""
        return await self.run_once()

    def next_in_ms(self) -> float:
        """Time until the next run, with jitter, so that replicas that started together drift apart."""
        spread = self.around.settings.jitter_pct / 100
        return self.interval_ms * random.uniform(1 - spread, 1 + spread)  # noqa: S311 - not a secret

    def lag_ms(self) -> float | None:
        return None if self.passed_at_ms is None else self.now_ms() - self.passed_at_ms

    def cursor(self) -> str | None:
        return None

    def now_ms(self) -> float:
        return self.around.timer.now_ms()

    def deadline_ms(self) -> float:
        """When the time budget of a run that starts now is used up."""
        return self.now_ms() + self.around.settings.budget_ms

    async def run(self) -> None:
        """Run until stopped."""
        while not self._stopped:
            self._woken.clear()
            await self.turn(self.run_next)
            if self._failures:
                self._woken.clear()  # wait out the backoff, even if a wakeup came meanwhile
            if not self._stopped:
                await self.around.timer.wait(self._woken, self._pause_ms())

    async def turn(self, work: Callable[[], Awaitable[int]]) -> int:
        """Run once and record statistics. Store errors are recorded, not raised."""
        started, items = self.now_ms(), 0
        try:
            items = await work()
            self._failed, self._failures = None, 0
        except FlowFabricError as error:
            self._failed, self._failures = error, self._failures + 1
            self.note_error(error)
            if self._failures == 1:
                _logger.warning("%s failed; retrying: %s", self.name, described(error))
        self.runs += 1
        self.items += items
        self.duration_ms = self.now_ms() - started
        return items

    def note_error(self, error: BaseException) -> None:
        self.errors += 1
        self.last_error = described(error)

    def leave_alone(self, what: str, error: BaseException) -> None:
        """Set a failed item aside. The log has the first failure, the status all of them."""
        wait = self.set_aside.failed(what, error, self.now_ms())
        self.note_error(error)
        if wait == self.backoff.first_ms and not isinstance(error, Unavailable):
            _logger.warning("%s: %s failed; set aside for %d ms: %s", self.name, what, wait, described(error))

    def wake(self) -> None:
        """Run again now."""
        self._woken.set()

    def stop(self) -> None:
        """Stop after the current run."""
        self._stopped = True
        self.wake()

    async def close(self) -> None:  # noqa: B027 - most services hold nothing
        """Release what unfinished runs hold."""

    def status(self) -> ServiceStatus:
        return ServiceStatus(
            name=self.name,
            runs=self.runs,
            items=self.items,
            errors=self.errors,
            last_error=self.last_error,
            duration_ms=self.duration_ms,
            lag_ms=self.lag_ms(),
            cursor=self.cursor(),
            restarts=self.restarts,
            set_aside=len(self.set_aside),
            set_aside_items=self.set_aside.shown(self.now_ms()),
        )

    def _pause_ms(self) -> float:
        if self._failures:
            return self.backoff.after(self._failures, self._failed)
        return self.next_in_ms()

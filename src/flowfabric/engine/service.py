"""One duty of an engine: done again and again, measured, and never in the way of another."""

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
    """What all services of one engine share."""

    backend: EngineBackend
    settings: EngineSettings
    territory: Territory
    timer: Timer
    slots: Slots


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a service does.

    `lag_ms` is how late the work was. For due work: how long the oldest item of the last run that did something had
    been due. For the others: how long ago their last full pass ended. None before there was any.
    """

    name: str
    runs: int
    items: int
    errors: int
    last_error: str | None
    duration_ms: float  # of the last run
    lag_ms: float | None
    cursor: str | None  # where the next run goes on, in services that need several for a pass
    restarts: int
    set_aside: int
    set_aside_items: tuple[SetAsideItem, ...]  # the worst of them


class Service(ABC):
    """A duty with its interval and its facts.

    A run that the store fails is counted and tried again later; any other error is a bug, and the supervisor's.
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
        self.passed_at_ms: float | None = None  # the end of the last full pass
        self._woken = asyncio.Event()
        self._stopped = False
        self._failed: BaseException | None = None  # in the last run
        self._failures = 0  # runs in a row

    @abstractmethod
    async def run_once(self) -> int:
        """Do all there is to do now, within the time budget; how many items were done."""

    async def run_next(self) -> int:
        """What the loop does each time; a service that knows when to look where does less than all."""
        return await self.run_once()

    def next_in_ms(self) -> float:
        """How long until the next run; replicas that started together drift apart."""
        spread = self.around.settings.jitter_pct / 100
        return self.interval_ms * random.uniform(1 - spread, 1 + spread)  # noqa: S311 - not a secret

    def lag_ms(self) -> float | None:
        return None if self.passed_at_ms is None else self.now_ms() - self.passed_at_ms

    def cursor(self) -> str | None:
        return None

    def now_ms(self) -> float:
        return self.around.timer.now_ms()

    def deadline_ms(self) -> float:
        """When a run that starts now must end."""
        return self.now_ms() + self.around.settings.budget_ms

    async def run(self) -> None:
        """Run until stopped."""
        while not self._stopped:
            self._woken.clear()
            await self.turn(self.run_next)
            if self._failures:
                self._woken.clear()  # a failure has its pause, whatever was heard meanwhile
            if not self._stopped:
                await self.around.timer.wait(self._woken, self._pause_ms())

    async def turn(self, work: Callable[[], Awaitable[int]]) -> int:
        """One run with its facts. What the store refuses or cannot do is a fact, too."""
        started, items = self.now_ms(), 0
        try:
            items = await work()
            self._failed, self._failures = None, 0
        except FlowFabricError as error:
            self._failed, self._failures = error, self._failures + 1
            self.note_error(error)
            if self._failures == 1:
                _logger.warning("%s failed and is tried again: %s", self.name, described(error))
        self.runs += 1
        self.items += items
        self.duration_ms = self.now_ms() - started
        return items

    def note_error(self, error: BaseException) -> None:
        self.errors += 1
        self.last_error = described(error)

    def leave_alone(self, what: str, error: BaseException) -> None:
        """Set something aside that failed; the log has its first failure, the status all of them."""
        wait = self.set_aside.failed(what, error, self.now_ms())
        self.note_error(error)
        if wait == self.backoff.first_ms and not isinstance(error, Unavailable):
            _logger.warning("%s: %s is left alone for %d ms: %s", self.name, what, wait, described(error))

    def wake(self) -> None:
        """Run again now."""
        self._woken.set()

    def stop(self) -> None:
        """End after the present run."""
        self._stopped = True
        self.wake()

    async def close(self) -> None:  # noqa: B027 - most leave nothing behind
        """Let go of whatever a run has left behind."""

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

"""Connects a context to the worker in the same process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.errors import ExecutionNotFound, InvalidInput
from flowfabric.worker.attempts.attempt import Attempt, Stop, Suspension
from flowfabric.worker.context.budget_spending import WorkerPurse
from flowfabric.worker.context.flow import GrowingFlow
from flowfabric.worker.context.spending import Purse
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.reporting.outgoing_frames import SENT

if TYPE_CHECKING:
    from flowfabric.worker.context.services import Services

T = TypeVar("T")


class WorkerLink:
    """An attempt and its worker. Handlers in threads call it from their threads."""

    __slots__ = ("_attempt", "_services")

    def __init__(self, attempt: Attempt, services: Services) -> None:
        self._attempt = attempt
        self._services = services

    @property
    def execution_id(self) -> ExecutionId:
        return self._attempt.execution_id

    @property
    def attempt_index(self) -> int:
        return self._attempt.attempt_index

    @property
    def task(self) -> str:
        return self._attempt.handler.name

    @property
    def lane(self) -> LaneId:
        return self._attempt.lane_id

    @property
    def namespace(self) -> Namespace:
        return self._services.settings.namespace

    @property
    def deadline(self) -> datetime | None:
        timeout_ms = self._attempt.handler.timeout_ms
        if timeout_ms is None:
            return None
        claimed_at = self._attempt.work.lease_expires_at - self._services.settings.lease_ttl_ms
        return datetime.fromtimestamp((claimed_at + timeout_ms) / 1000, UTC)

    @property
    def state(self) -> Any:
        return self._services.state

    @property
    def stop(self) -> Stop | None:
        return self._attempt.stop

    def check(self) -> None:
        self._attempt.check()

    def journal(self) -> Journal:
        return Journal(self._attempt, self._services)

    def purse(self, records: Callable[[], Journal]) -> Purse:
        return WorkerPurse(records())

    def flow(self, records: Callable[[], Journal]) -> GrowingFlow:
        return GrowingFlow(self._attempt, self._services, records)

    @property
    def is_lease_healthy(self) -> bool:
        return self._attempt.is_lease_healthy

    def stopping(self) -> threading.Event:
        return self._attempt.stopping()

    def progress(self, pct: int | None, message: str | None) -> None:
        attempt = self._attempt
        args = c.UpdateProgressArgs(
            execution_id=attempt.execution_id, fence=attempt.fence, progress_pct=pct, progress_message=message
        )
        self._services.loop.call_soon_threadsafe(self._services.calls.progress, attempt, args)

    @property
    def log_level(self) -> int:
        return self._services.logs.level

    def keep_log(self, level: int, logger: str, message: str) -> None:
        self._services.logs.keep(self._attempt, level, logger, message)

    def emit(self, frame: c.Frame) -> Awaitable[None]:
        if threading.get_ident() != self._services.thread_id:
            asyncio.run_coroutine_threadsafe(self._emit(frame), self._services.loop).result()
            return SENT
        return self._services.frames.emit(self._attempt, frame)

    async def _emit(self, frame: c.Frame) -> None:
        await self._services.frames.emit(self._attempt, frame)

    async def describe(self) -> c.ExecutionSnapshot:
        if self._attempt.suspension is Suspension.DONE:
            self._attempt.check()
        snapshot = await self._services.backend.describe_execution(self.execution_id)
        if snapshot is None:
            raise ExecutionNotFound(f"{self.execution_id} no longer exists")
        return snapshot

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        if threading.get_ident() == self._services.thread_id:
            call.close()
            raise InvalidInput("ctx.wait", self.task, "is for handlers in threads; here, await the call")
        return asyncio.run_coroutine_threadsafe(call, self._services.loop).result()

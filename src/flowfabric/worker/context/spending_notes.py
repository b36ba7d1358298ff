"""Totals that a handler has used of its reservations, on their way to the store: of several in a row, only the last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from flowfabric.core.ids import ReservationId
from flowfabric.errors import FlowFabricError
from flowfabric.worker.context.spending import Amounts, Hold
from flowfabric.worker.reporting.call_tasks import CallTasks

_logger: Final = logging.getLogger("flowfabric.worker")

Send: TypeAlias = Callable[[Hold, Amounts], Awaitable[None]]


class Notes:
    """Sends the latest totals of each reservation, one call at a time. Used on the event loop only."""

    def __init__(self, send: Send, settle: Send, tasks: CallTasks) -> None:
        self._send = send
        self._settle = settle
        self._tasks = tasks
        self._latest: dict[ReservationId, Amounts] = {}
        self._sending: dict[ReservationId, asyncio.Task[None]] = {}

    def add(self, hold: Hold, spent: Amounts) -> None:
        self._latest[hold.reservation_id] = spent
        if hold.reservation_id not in self._sending:
            self._sending[hold.reservation_id] = self._tasks.start(self._send_all(hold))

    def drop(self, hold: Hold) -> None:
        """The reservation is being settled, which reports its totals."""
        self._latest.pop(hold.reservation_id, None)

    async def sent(self, hold: Hold) -> None:
        """Wait until nothing of this reservation is on its way."""
        await asyncio.sleep(0)  # a report that was just made is added in the next round of the loop
        while (task := self._sending.get(hold.reservation_id)) is not None:
            await asyncio.wait([task])

    def end(self, hold: Hold, spent: Amounts) -> None:
        """Settle it: its attempt has ended within the block."""
        self.drop(hold)
        self._tasks.start(self._end(hold, spent))

    async def _end(self, hold: Hold, spent: Amounts) -> None:
        try:
            await self._settle(hold, spent)
        except FlowFabricError as error:  # what was noted before counts
            _logger.warning("reservation %s could not be settled: %s", hold.reservation_id, error)

    async def _send_all(self, hold: Hold) -> None:
        try:
            while (spent := self._latest.pop(hold.reservation_id, None)) is not None:
                await self._send(hold, spent)
        except FlowFabricError as error:  # only a crash needs them
            _logger.warning("the usage of reservation %s could not be noted: %s", hold.reservation_id, error)
        finally:
            self._sending.pop(hold.reservation_id, None)

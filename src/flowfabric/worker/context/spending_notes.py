"""Totals that a handler has used of its reservations, on their way to the store: of several in a row, only the last."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from flowfabric.core.ids import ReservationId
from flowfabric.errors import FlowFabricError
from flowfabric.worker.context.spending import Amounts, Hold
from flowfabric.worker.reporting.call_tasks import CallTasks

_logger: Final = logging.getLogger("flowfabric.worker")


class Notes:
    """Sends the latest totals of each reservation, one call at a time. Used on the event loop only."""

    def __init__(self, send: Callable[[Hold, Amounts], Awaitable[None]], tasks: CallTasks) -> None:
        self._send = send
        self._tasks = tasks
        self._latest: dict[ReservationId, Amounts] = {}
        self._sending: set[ReservationId] = set()

    def add(self, hold: Hold, spent: Amounts) -> None:
        self._latest[hold.reservation_id] = spent
        if hold.reservation_id not in self._sending:
            self._sending.add(hold.reservation_id)
            self._tasks.start(self._send_all(hold))

    def drop(self, hold: Hold) -> None:
        """The reservation is being settled, which reports its totals."""
        self._latest.pop(hold.reservation_id, None)

    async def _send_all(self, hold: Hold) -> None:
        try:
            while (spent := self._latest.pop(hold.reservation_id, None)) is not None:
                await self._send(hold, spent)
        except FlowFabricError as error:  # only a crash needs them
            _logger.warning("the usage of reservation %s could not be noted: %s", hold.reservation_id, error)
        finally:
            self._sending.discard(hold.reservation_id)

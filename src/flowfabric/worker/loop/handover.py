"""Work that the store hands to parked claims, and the recall of claims that should no longer wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.errors import FlowFabricError, Unavailable
from flowfabric.worker.loop.claim_planner import ClaimPlanner
from flowfabric.worker.loop.parked_claims import Parked, Parking
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.settings import WorkerSettings

_logger: Final = logging.getLogger(__name__)

OnClaimed: TypeAlias = Callable[[Sequence[b.ClaimedWork], LaneId, float], None]


class Handover:
    """Starts the work of parked claims, whether it comes as a message or as the answer to a recall."""

    def __init__(
        self,
        parking: Parking,
        planner: ClaimPlanner,
        calls: CallTasks,
        settings: WorkerSettings,
        on_claimed: OnClaimed,
    ) -> None:
        self._parking = parking
        self._planner = planner
        self._calls = calls
        self._on_claimed = on_claimed
        self._retry_pause_s = settings.retry_pause_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def park(self, parked: Parked) -> None:
        """A claim found no work and waits in the store."""
        message = self._parking.take_early(parked.claim.key)
        if message is not None:
            self._start(parked, message)
            return
        if older := self._parking.at(parked.place):  # one for each place is enough
            self.recall([older])
        has_room = self._parking.add(parked)
        if not (has_room and self._planner.claiming):
            self.recall([parked])

    def handed(self, key: str, message: bytes) -> None:
        """The store handed work to a parked claim."""
        parked = self._parking.take(key)
        if parked is not None:
            self._start(parked, message)
        elif self._planner.has_claims_out:
            self._parking.keep_early(key, message)

    def _start(self, parked: Parked, message: bytes) -> None:
        try:
            works = parked.claim.read(message)
        except FlowFabricError as error:
            _logger.warning("could not read the work that was handed over; recalling the claim: %s", error)
            self._parking.add(parked)
            self.recall([parked])
            return
        self._planner.emptied(parked.place)  # its end claims there again, and parks again
        self._on_claimed(works, parked.place.lane.lane_id, time.monotonic())

    def recall_one(self) -> None:
        """Recall the oldest parked claim, because other work needs its slots."""
        self.recall(self._parking.to_recall()[:1])

    def recall_all(self) -> list[asyncio.Task[None]]:
        return self.recall(self._parking.to_recall())

    def recall(self, waiting: Iterable[Parked]) -> list[asyncio.Task[None]]:
        """End the wait of these claims. Work that they were given meanwhile is started."""
        tasks = []
        for parked in waiting:
            parked.is_recalled = True
            tasks.append(self._calls.start(self._recall(parked)))
        return tasks

    async def _recall(self, parked: Parked) -> None:
        sent_at, works = time.monotonic(), []
        try:
            works = await parked.claim.recall()
        except FlowFabricError as error:
            if isinstance(error, Unavailable) and self._planner.claiming:  # work may still come: its slots stay kept
                self._loop.call_later(self._retry_pause_s, self._recall_again, parked)
                return
            _logger.warning("could not recall a parked claim; the leases of its work will expire: %s", error)
        if self._parking.take(parked.claim.key) is not None and not self._closed:  # or its message came first
            self._on_claimed(works, parked.place.lane.lane_id, sent_at)

    def _recall_again(self, parked: Parked) -> None:
        if self._parking.waits(parked) and not self._closed:
            self.recall([parked])

    async def close(self) -> None:
        """Recall all claims and wait a moment for the answers. Work that they were given is left to expire."""
        self._closed = True
        if recalled := self.recall_all():
            await asyncio.wait(recalled, timeout=self._retry_pause_s)

"""Unblock executions whose blocking reason no longer holds (D21)."""

from __future__ import annotations

import random

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService
from flowfabric.errors import FlowFabricError

# Applied where nothing is blocked.
_SLOWER = 4
_MOST_OFFERS = 100


class BlockedWork(PartitionService):
    """Checks blocked executions page by page. A run ends with its time budget; the next one continues from there."""

    name = "blocked_work"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.blocked_ms, around.settings.blocked_ms * _SLOWER)
        self._cursors: dict[Partition, str] = {}
        self._offers: tuple[c.WorkerOffer, ...] = ()

    async def run_next(self) -> int:
        await self._refresh()
        return await super().run_next()

    async def run_once(self) -> int:
        await self._refresh()
        return await super().run_once()

    def is_dry(self) -> bool:
        return super().is_dry() and not self._cursors

    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        checked, unblocked, more = 0, 0, True
        while more:
            result = await self._page(partition)
            checked, unblocked = checked + result.checked, unblocked + result.unblocked
            more = result.cursor is not None and self.now_ms() < deadline_ms
        return Found(unblocked, checked > 0)

    async def _page(self, partition: Partition) -> c.BlockedReevaluated:
        # After a failed page start from the first one: the cursor itself may be bad.
        cursor = self._cursors.pop(partition, None)
        args = c.ReevaluateBlockedArgs(
            partition=partition, cursor=cursor, limit=self.around.settings.batch, offers=self._offers
        )
        async with self.around.slots.one():
            result = await self.around.backend.reevaluate_blocked(args)
        if result.cursor is not None:
            self._cursors[partition] = result.cursor
        return result

    async def _refresh(self) -> None:
        own = frozenset(self.around.territory.own)
        self._cursors = {partition: cursor for partition, cursor in self._cursors.items() if partition in own}
        if not own:
            return
        try:
            self._offers = await self._live_offers()
        except FlowFabricError as error:  # reasons that do not depend on workers are still checked
            self._offers = ()
            self.note_error(error)

    async def _live_offers(self) -> tuple[c.WorkerOffer, ...]:
        """The distinct lanes and capabilities of live workers; a random sample if there are too many."""
        offers: set[c.WorkerOffer] = set()
        cursor, more = None, True
        while more:
            args = c.ListWorkersArgs(cursor=cursor, limit=limits.SCAN_LIMIT_MAX)
            page = await self.around.backend.list_workers(args)
            offers |= {c.WorkerOffer(lanes=each.lanes, capabilities=each.capabilities) for each in page.workers}
            cursor, more = page.next_cursor, page.next_cursor is not None
        return tuple(random.sample(sorted(offers, key=repr), min(len(offers), _MOST_OFFERS)))

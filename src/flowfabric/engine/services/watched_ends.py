"""Tell executions that wait for others of their ends: a signal to each watcher, at least once, in any partition."""

from __future__ import annotations

import asyncio

from flowfabric.core import contracts as c
from flowfabric.core.ids import SignalId, WaitpointKey
from flowfabric.core.partition import Partition
from flowfabric.core.rules.waits.children import CHILD_ENDED, child_key
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService
from flowfabric.errors import Conflict, Invalid, Limited, NotFound

# Rarely by itself: the due work service reports partitions with such ends.
_SELDOM_MS = 60_000


class WatchedEnds(PartitionService):
    """Signals the watchers of executions that ended in this replica's partitions."""

    name = "watched_ends"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, _SELDOM_MS, _SELDOM_MS)

    def expect(self, partition: Partition, in_ms: float) -> None:
        """Schedule a partition in which a watched execution has ended."""
        if self.looks.expect(partition, self.now_ms() + in_ms):
            self.wake()

    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        told: list[c.WatchedEnd] = []
        items = 0
        while True:
            ends = await self.around.backend.read_watched_ends(partition, done=told, limit=self.around.settings.batch)
            if not ends or self.now_ms() >= deadline_ms:
                return Found(items, items > 0, 0 if ends else None)
            async with self.around.slots.one():
                results = await asyncio.gather(*map(self._tell, ends))
            told = [end for end, is_told in zip(ends, results, strict=True) if is_told]
            items += len(told)
            if not told:  # the regular checks try again
                return Found(items, is_busy=True)

    async def _tell(self, end: c.WatchedEnd) -> bool:
        """Signal the watcher. One that is gone, has ended or does not wait for it any more needs no signal.

        Any other refusal concerns this watcher alone; it is tried again later.
        """
        args = c.SignalExecutionArgs(
            execution_id=end.watcher_id,
            signal_id=SignalId.new(),
            signal_name=CHILD_ENDED,
            waitpoint_key=WaitpointKey(child_key(end.execution_id)),
            source_type="system",
            source_identity="watched_ends",
        )
        try:
            await self.around.backend.signal_execution(args)
        except (NotFound, Conflict, Invalid):
            return True
        except Limited as error:
            self.note_error(error)
            return False
        return True

"""Tell executions that wait for others of their ends: a signal to each watcher, at least once, in any partition."""

from __future__ import annotations

import asyncio

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, SignalId, WaitpointKey
from flowfabric.core.partition import Partition
from flowfabric.core.rules.waits.children import CHILD_ENDED, child_key
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService
from flowfabric.errors import Conflict, Invalid, NotFound

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
            told = ends
            items += len(ends)
            async with self.around.slots.one():
                await asyncio.gather(*(self._tell(end.watcher_id, end.execution_id) for end in ends))

    async def _tell(self, watcher_id: ExecutionId, ended: ExecutionId) -> None:
        """Signal the watcher. One that is gone, has ended or does not wait for it any more needs no signal."""
        args = c.SignalExecutionArgs(
            execution_id=watcher_id,
            signal_id=SignalId.new(),
            signal_name=CHILD_ENDED,
            waitpoint_key=WaitpointKey(child_key(ended)),
            source_type="system",
            source_identity="watched_ends",
        )
        try:
            await self.around.backend.signal_execution(args)
        except (NotFound, Conflict, Invalid):
            return

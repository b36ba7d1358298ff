"""Return slots to limits, take back expired offers and unblock the next executions in line (D20).

Workers do most of this in the calls that end their work. The engine does what crashed workers left, and what depends on
time: a rate window that moves on, a budget that is reset.
"""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService

# Rarely by itself: the due work service reports partitions whose limits have work.
_SELDOM_MS = 60_000


class Admissions(PartitionService):
    """Drains the handovers of this replica's partitions when the due work service reports some."""

    name = "admissions"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, _SELDOM_MS, _SELDOM_MS)

    def expect(self, partition: Partition, in_ms: float) -> None:
        """Schedule a partition whose limits have work in `in_ms`."""
        if self.looks.expect(partition, self.now_ms() + in_ms):
            self.wake()

    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        args = c.DrainAdmissionsArgs(partition=partition, limit=self.around.settings.batch)
        items = 0
        while True:
            async with self.around.slots.one():
                drained = await self.around.backend.drain_admissions(args)
            done = drained.lapsed + drained.paid + drained.woken
            items += done
            due_in_ms = None if drained.next_at_ms is None else max(0, drained.next_at_ms - drained.now_ms)
            if not done or due_in_ms != 0 or self.now_ms() >= deadline_ms:
                return Found(items, items > 0, due_in_ms if done or due_in_ms else None)

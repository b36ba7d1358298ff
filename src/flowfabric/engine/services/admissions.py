"""Limits and what waits for them: slots go back, lapsed offers are taken back, the next in line are let go (D20).

Workers do nearly all of it in the calls that end their work. What is left is what a worker did not live to do, and
what waits for a time: a rate window that moves on, a budget that is reset.
"""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService

# By itself: all that is due is seen by the looks for due work.
_SELDOM_MS = 60_000


class Admissions(PartitionService):
    """Drains what the partitions of this replica owe to limits, when it is told that there is something."""

    name = "admissions"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, _SELDOM_MS, _SELDOM_MS)

    def expect(self, partition: Partition, in_ms: float) -> None:
        """Whoever looks at a partition has seen when it has something to do with limits."""
        at_ms = self.now_ms() + in_ms
        if at_ms < self.looks.at_ms(partition):
            self.looks.expect(partition, at_ms)
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

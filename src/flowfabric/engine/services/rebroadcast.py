"""Announce queued work again, in case a wakeup was lost."""

from __future__ import annotations

from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService

# Applied where the queues were empty: a lost wakeup is unlikely there.
_SLOWER = 4


class Rebroadcast(PartitionService):
    """Announces every queue that has work; each queue counts as an item."""

    name = "rebroadcast"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.announce_ms, around.settings.announce_ms * _SLOWER)

    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        announced = await self.around.backend.announce_work(partition)
        return Found(announced, announced > 0)

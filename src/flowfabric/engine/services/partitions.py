"""Find the partitions that hold executions; the others are not checked."""

from __future__ import annotations

from flowfabric.engine.service import Service, Surroundings


class PartitionFinder(Service):
    """Records which partitions are in use."""

    name = "partitions"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.look_ms)

    async def run_once(self) -> int:
        found = await self.around.backend.partitions_in_use()
        self.around.territory.find(found)
        self.passed_at_ms = self.now_ms()
        return len(found)

"""Listens for work: announcements of the store, and work that it hands to parked claims."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, lane_partitions
from flowfabric.errors import FlowFabricError
from flowfabric.worker.loop.claim_loop import ClaimLoop
from flowfabric.worker.loop.claim_planner import ClaimPlanner
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.settings import WorkerSettings

_logger: Final = logging.getLogger("flowfabric.worker")


class WorkListener:
    """Reports announced work to the claim loop.

    has_looked: whether every place that may have work was checked once.
    """

    def __init__(
        self,
        backend: EngineBackend,
        planner: ClaimPlanner,
        claim_loop: ClaimLoop,
        settings: WorkerSettings,
        turns: Turns,
        kinds: Collection[str] = (),
    ) -> None:
        self._backend = backend
        self._planner = planner
        self._claim_loop = claim_loop
        self._settings = settings
        self._turns = turns
        self._kinds = kinds
        self.has_looked = False

    async def run(self) -> None:
        settings = self._settings
        while True:
            try:
                async with self._backend.listen_for_work(
                    tuple(settings.lanes),
                    settings.capabilities,
                    worker_instance_id=settings.worker_instance_id,
                    on_handed=self._claim_loop.handover.handed,
                    kinds=self._kinds,
                ) as listener:
                    while True:
                        await self._hear(await listener.wait())
            except FlowFabricError as error:
                _logger.warning("listening for work failed; retrying: %s", error)
                await asyncio.sleep(settings.retry_pause_ms / 1000)

    async def _hear(self, where: Collection[tuple[LaneId, Partition]]) -> None:
        if where:
            self._planner.hear(where)
            self._claim_loop.turn()  # at once: each round of the loop in between would delay the start
            return
        # Messages may be lost: recall the claims they may have been for, and check every place.
        self._claim_loop.handover.recall_all()
        lanes, partitions = self._settings.lanes, self._backend.partitions
        self._planner.hear((lane, shard) for lane in lanes for shard in lane_partitions(lane, partitions))
        self._turns.soon()
        # Members of flows wait in the partitions of their flows, which may be any.
        in_use = await self._backend.partitions_in_use()
        self._planner.hear((lane, partition) for lane in lanes for partition in in_use)
        self.has_looked = True
        self._turns.soon()

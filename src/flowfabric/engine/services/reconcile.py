"""Release slots and holds that no execution owns any more, and forget parked claims without a client.

Every step that could lose a slot records a handover for it, so normally nothing is found. This is the safety net: a
leaked slot comes back within a minute.
"""

from __future__ import annotations

from typing import Final

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition
from flowfabric.engine.service import Service, Surroundings
from flowfabric.errors import FlowFabricError

_BREATH_MS: Final = 10


class Reconcile(Service):
    """Checks all limits page by page, and all parked claims; one replica runs it."""

    name = "reconcile"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.reconcile_ms)
        self._left: list[Partition] = []  # the first is the current one
        self._page: str | None = None
        around.territory.watch(self.wake)

    def cursor(self) -> str | None:
        return self._left[0].tag if self._left else None

    def next_in_ms(self) -> float:
        return _BREATH_MS if self._left else super().next_in_ms()

    async def run_once(self) -> int:
        if not self.around.territory.has_duty(self.name):
            self._left, self._page = [], None
            return 0
        deadline, items = self.deadline_ms(), 0
        if not self._left:
            items += await self._begin()
        while self._left:
            items += await self._step(self._left[0])
            if self.now_ms() >= deadline:
                return items
        self.passed_at_ms = self.now_ms()
        return items

    async def _begin(self) -> int:
        """Begin a pass over all partitions with limits; parked claims are checked in one call."""
        backend, limit = self.around.backend, self.around.settings.batch
        forgotten = await backend.forget_parked_claims(limit=limit)
        self._left, self._page = await backend.limit_partitions_in_use(), None
        return forgotten

    async def _step(self, partition: Partition) -> int:
        args = c.ReconcileLimitsArgs(partition=partition, cursor=self._page, limit=self.around.settings.batch)
        try:
            async with self.around.slots.one():
                result = await self.around.backend.reconcile_limits(args)
        except FlowFabricError as error:  # continue with the others; the next pass retries this one
            self.leave_alone(partition.tag, error)
            self._left, self._page = self._left[1:], None
            return 0
        self.set_aside.worked(partition.tag)
        self._page = result.cursor
        if result.cursor is None:
            self._left = self._left[1:]
        return result.released

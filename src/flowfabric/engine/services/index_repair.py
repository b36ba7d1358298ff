"""Compare records with their indexes and repair differences, slowly and continuously."""

from __future__ import annotations

from typing import Final

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition
from flowfabric.engine.service import Service, Surroundings

# A page blocks the store for a fifteenth of a millisecond per entry. So a batch is checked in parts, and the parts of
# one partition follow each other that much sooner.
_PARTS: Final = 4


class IndexRepair(Service):
    """Visits the partitions in turn, one page per run."""

    name = "index_repair"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.repair_ms)
        self._at = -1  # index of the current partition, or of the last one
        self._page: str | None = None
        self._passes = 0

    def next_in_ms(self) -> float:
        pause_ms = super().next_in_ms()
        return pause_ms if self._page is None else pause_ms / _PARTS

    def cursor(self) -> str | None:
        return f"{self._at} {self._page or ''}".rstrip() if self._at >= 0 else None

    async def run_once(self) -> int:
        """Check pages until the pass ends, within the time budget."""
        deadline, repaired, passes = self.deadline_ms(), 0, self._passes
        while self._passes == passes:
            repaired += await self.run_next()
            if self.now_ms() >= deadline:
                break
        return repaired

    async def run_next(self) -> int:
        """Check one page."""
        partition = self._current()
        if partition is None:
            self._end_pass()
            return 0
        limit = max(1, self.around.settings.batch // _PARTS)
        args = c.RepairIndexesArgs(partition=partition, cursor=self._page, limit=limit)
        self._at, self._page = partition.index, None
        try:
            async with self.around.slots.one():
                result = await self.around.backend.repair_indexes(args)
        except Exception as error:  # any error must not stop the other partitions
            self.leave_alone(partition.tag, error)
            return 0
        self.set_aside.worked(partition.tag)
        self._page = result.cursor
        return result.repaired

    def _current(self) -> Partition | None:
        """The current partition, or the next one; None at the end of a pass."""
        own = sorted(self.around.territory.own, key=lambda each: each.index)
        if self._page is not None:
            under_way = next((each for each in own if each.index == self._at), None)
            if under_way is not None:
                return under_way
            self._page = None  # another replica owns it now
        now = self.now_ms()
        return next((each for each in own if each.index > self._at and not self.set_aside.holds(each.tag, now)), None)

    def _end_pass(self) -> None:
        self._at, self._page = -1, None
        self.set_aside.keep_only(frozenset(each.tag for each in self.around.territory.own))
        self.passed_at_ms = self.now_ms()
        self._passes += 1

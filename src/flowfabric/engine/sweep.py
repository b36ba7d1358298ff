"""Doing something in each partition of one's own, side by side: one that fails or hangs holds up no other."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable

from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found, Looks
from flowfabric.engine.service import Service, Surroundings

# Whatever is due within it is done in one go.
_BREATH_MS = 10


class PartitionService(Service):
    """A duty that is done partition by partition, each at its own pace: `quick_ms` when busy, `slow_ms` when quiet."""

    def __init__(self, around: Surroundings, quick_ms: int, slow_ms: int) -> None:
        super().__init__(around, slow_ms)
        self.looks = Looks(quick_ms, slow_ms)
        self._out: dict[Partition, asyncio.Task[int]] = {}  # at most one step a partition
        around.territory.watch(self.wake)

    @abstractmethod
    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        """Do what there is to do in one partition, until dry or until the deadline."""

    async def run_once(self) -> int:
        return await self.sweep(self.around.territory.own)

    async def run_next(self) -> int:
        """Only where it is time to look."""
        return await self.sweep(self.looks.near(self.around.territory.own, self.now_ms()))

    def next_in_ms(self) -> float:
        now = self.now_ms()
        waits = (self._wait_ms(partition, now) for partition in self.around.territory.own)
        return max(_BREATH_MS, min(waits, default=self.interval_ms))

    async def sweep(self, partitions: Iterable[Partition]) -> int:
        """A step in each, but for those that are set aside or still have one out; waits within the time budget."""
        now, deadline, items = self.now_ms(), self.deadline_ms(), self._collect()
        started = [each for each in partitions if each not in self._out and not self.set_aside.holds(each.tag, now)]
        self._out |= {each: asyncio.create_task(self._guarded(each, deadline)) for each in started}
        await self.around.timer.wait_for_all([self._out[each] for each in started], self.around.settings.budget_ms)
        if self.set_aside:
            self.set_aside.keep_only(frozenset(each.tag for each in self.around.territory.own))
        items += self._collect()
        if self.is_dry():
            self.passed_at_ms = self.now_ms()
        return items

    def is_dry(self) -> bool:
        """Whether a sweep that ended now has left nothing undone."""
        return not self._out

    async def close(self) -> None:
        for task in self._out.values():
            task.cancel()
        await asyncio.gather(*self._out.values(), return_exceptions=True)
        self._out.clear()

    def _collect(self) -> int:
        """What the steps that have ended did, those of earlier sweeps included."""
        ended = [partition for partition, task in self._out.items() if task.done()]
        return sum(self._out.pop(partition).result() for partition in ended)

    async def _guarded(self, partition: Partition, deadline_ms: float) -> int:
        try:
            found = await self.step(partition, deadline_ms)
        except Exception as error:  # whatever it is, it is this partition's alone
            self.leave_alone(partition.tag, error)
            return 0
        self.set_aside.worked(partition.tag)
        self.looks.plan(partition, found, self.now_ms())
        if self.now_ms() > deadline_ms:
            self.wake()  # the sweep did not wait for it
        return found.items

    def _wait_ms(self, partition: Partition, now_ms: float) -> float:
        if partition in self._out:
            return self.interval_ms  # it tells when it is done
        set_aside_until_ms = self.set_aside.until_ms(partition.tag) if self.set_aside else 0.0
        return max(self.looks.at_ms(partition), set_aside_until_ms) - now_ms

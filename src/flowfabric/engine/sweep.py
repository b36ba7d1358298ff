"""Run a step in each owned partition concurrently: a partition that fails or hangs does not delay the others."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable

from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found, Looks
from flowfabric.engine.service import Service, Surroundings

# Work that is due within this time is done in one run.
_BREATH_MS = 10


class PartitionService(Service):
    """A service that visits each partition on its own schedule: every `quick_ms` when busy, `slow_ms` when quiet."""

    def __init__(self, around: Surroundings, quick_ms: int, slow_ms: int) -> None:
        super().__init__(around, slow_ms)
        self.looks = Looks(quick_ms, slow_ms)
        self._out: dict[Partition, asyncio.Task[int]] = {}  # at most one step per partition
        around.territory.watch(self.wake)

    @abstractmethod
    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        """Do the work of one partition until none is left or the deadline passes."""

    async def run_once(self) -> int:
        return await self.sweep(self.around.territory.own)

    async def run_next(self) -> int:
        """Sweep only the partitions that are due for a visit."""
        return await self.sweep(self.looks.near(self.around.territory.own, self.now_ms()))

    def next_in_ms(self) -> float:
        now = self.now_ms()
        waits = (self._wait_ms(partition, now) for partition in self.around.territory.own)
        return max(_BREATH_MS, min(waits, default=self.interval_ms))

    async def sweep(self, partitions: Iterable[Partition]) -> int:
        """Start a step in each partition that is not set aside or still running; wait within the time budget."""
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
        """Whether the sweep has finished all its work."""
        return not self._out

    async def close(self) -> None:
        for task in self._out.values():
            task.cancel()
        await asyncio.gather(*self._out.values(), return_exceptions=True)
        self._out.clear()

    def _collect(self) -> int:
        """Collect the results of finished steps, including those of earlier sweeps."""
        ended = [partition for partition, task in self._out.items() if task.done()]
        return sum(self._out.pop(partition).result() for partition in ended)

    async def _guarded(self, partition: Partition, deadline_ms: float) -> int:
        self.looks.begin(partition)
        try:
            found = await self.step(partition, deadline_ms)
        except Exception as error:  # any error affects this partition only
            self.leave_alone(partition.tag, error)
            return 0
        self.set_aside.worked(partition.tag)
        self.looks.plan(partition, found, self.now_ms())
        if self.now_ms() > deadline_ms:
            self.wake()  # the sweep did not wait for this step
        return found.items

    def _wait_ms(self, partition: Partition, now_ms: float) -> float:
        if partition in self._out:
            return self.interval_ms  # the running step wakes the service when it ends
        set_aside_until_ms = self.set_aside.until_ms(partition.tag) if self.set_aside else 0.0
        return max(self.looks.at_ms(partition), set_aside_until_ms) - now_ms

"""Listen for new work: short retries and timeouts may follow, so those partitions are checked soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from flowfabric.backends.ports import WorkListener
from flowfabric.backends.ports.budgets import BudgetListener
from flowfabric.backends.ports.upkeep import DueListener
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition
from flowfabric.engine.service import Service, Surroundings

_LISTEN_MS = 60_000
_LISTEN_LONG_MS = 3_600_000


class Listening(Service):
    """Listens to all lanes and reports the partitions with new work. A run lasts until the lanes may have changed.

    Missed announcements, such as work that needs capabilities, are found by the regular checks.
    """

    name = "listening"

    def __init__(self, around: Surroundings, hear: Callable[[Partition], None]) -> None:
        super().__init__(around, around.settings.look_ms)
        self._hear = hear
        around.territory.watch(self.wake)

    async def run_once(self) -> int:
        """Do nothing: in a single pass every partition is checked anyway."""
        return 0

    async def run_next(self) -> int:
        """Listen until woken or for a minute; each announcement counts as an item."""
        lanes = await self._lanes()
        if lanes:
            async with self.around.backend.listen_for_work(lanes) as listener:
                await self._listen(listener)
        self.passed_at_ms = self.now_ms()
        return 0

    async def _listen(self, listener: WorkListener) -> None:
        await self._until_woken(self._pass_on(listener))

    async def _until_woken(self, passing: Coroutine[Any, Any, None], ms: int = _LISTEN_MS) -> None:
        passing_on = asyncio.create_task(passing)
        passing_on.add_done_callback(lambda _: self.wake())
        try:
            await self.around.timer.wait(self._woken, ms)
        finally:
            passing_on.cancel()
            (error,) = await asyncio.gather(passing_on, return_exceptions=True)
        if isinstance(error, Exception):
            raise error

    async def _pass_on(self, listener: WorkListener) -> None:
        while True:
            heard = await listener.wait()
            self.items += len(heard)
            for partition in {partition for _, partition in heard}:
                self._hear(partition)
            # Announcements meanwhile are handled together; a partition is not checked more often anyway.
            await self.around.timer.wait(asyncio.Event(), self.around.settings.quick_look_ms)

    async def _lanes(self) -> tuple[LaneId, ...]:
        """The first page of lanes with executions; the regular checks cover the rest."""
        if not self.around.territory.own:
            return ()
        return (await self.around.backend.list_lanes(c.ListLanesArgs(limit=limits.SCAN_LIMIT_MAX))).lanes


class BudgetListening(Listening):
    """Listens for budgets in the replica that handles them; None stands for any partition."""

    name = "budget_listening"

    def __init__(self, around: Surroundings, duty: str, hear: Callable[[Partition | None], None]) -> None:
        super().__init__(around, hear)
        self._duty = duty
        self._hear_of = hear

    async def run_next(self) -> int:
        if self.around.territory.has_duty(self._duty):
            async with self.around.backend.listen_for_budgets() as listener:
                await self._until_woken(self._pass_on_budgets(listener))
        self.passed_at_ms = self.now_ms()
        return 0

    async def _pass_on_budgets(self, listener: BudgetListener) -> None:
        while True:
            heard = await listener.wait()
            self.items += len(heard)
            for partition in heard or (None,):
                self._hear_of(partition)


class DueListening(Listening):
    """Listens for timers that are due soon, so that short sleeps, delays and retries end on time.

    The channel is the same for all partitions, so a run lasts, whatever this replica owns.
    """

    name = "due_listening"

    def __init__(self, around: Surroundings, expect: Callable[[Partition, float], None]) -> None:
        Service.__init__(self, around, around.settings.look_ms)
        self._expect = expect

    async def run_next(self) -> int:
        async with self.around.backend.listen_for_due() as listener:
            await self._until_woken(self._pass_on_timers(listener), _LISTEN_LONG_MS)
        self.passed_at_ms = self.now_ms()
        return 0

    async def _pass_on_timers(self, listener: DueListener) -> None:
        while True:
            heard = await listener.wait()
            self.items += len(heard)
            for partition, in_ms in heard or [(each, 0) for each in self.around.territory.own]:
                self._expect(partition, in_ms)

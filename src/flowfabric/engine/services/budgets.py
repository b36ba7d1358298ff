"""Reset budgets that are due, report limits that were passed, and cancel executions after a breach (G10).

The store announces budgets with work, and says when the next reset of a partition is due. All partitions are also
checked at a long interval, in case an announcement was lost.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition
from flowfabric.engine.scope_cancel import ScopeCancel
from flowfabric.engine.service import Service, Surroundings
from flowfabric.errors import FlowFabricError, NotFound

_logger: Final = logging.getLogger(__name__)

OnBudgetNotice: TypeAlias = Callable[[c.BudgetNotice, c.BudgetStatus], Awaitable[None] | None]

_BREATH_MS: Final = 10


class Budgets(Service):
    """Handles all budgets of the store; one replica runs it."""

    name = "budgets"

    def __init__(self, around: Surroundings, on_notice: OnBudgetNotice | None = None) -> None:
        super().__init__(around, around.settings.budgets_ms)
        self._on_notice = on_notice
        self._next_ms: dict[Partition, float] = {}  # when each partition with budgets is checked next
        self._find_at_ms = 0.0  # when the list of those partitions is refreshed
        self._cancelling = ScopeCancel(around)
        self._told: set[c.BudgetNotice] = set()
        around.territory.watch(self.wake)

    def hear(self, partition: Partition | None) -> None:
        """A partition has work; None: any of them may."""
        if partition is None:
            self._find_at_ms = 0.0
        else:
            self._next_ms[partition] = 0.0
        self.wake()

    def next_in_ms(self) -> float:
        if not self.around.territory.has_duty(self.name):
            return super().next_in_ms()
        first = min(self._find_at_ms, *self._next_ms.values()) if self._next_ms else self._find_at_ms
        return max(_BREATH_MS, first - self.now_ms())

    async def run_once(self) -> int:
        self._find_at_ms = 0.0
        return await self.run_next()

    async def run_next(self) -> int:
        if not self.around.territory.has_duty(self.name):
            self._next_ms, self._find_at_ms = {}, 0.0
            return 0
        now = self.now_ms()
        if self._find_at_ms <= now:
            self._next_ms = dict.fromkeys(await self.around.backend.budget_partitions_in_use(), 0.0)
            self._find_at_ms = now + self.interval_ms
        return await self._look_at([each for each, at in self._next_ms.items() if at <= now])

    async def _look_at(self, partitions: Iterable[Partition]) -> int:
        """Check the partitions in turn until the time budget is used up; the rest stay due."""
        deadline, items = self.deadline_ms(), 0
        for partition in partitions:
            try:
                items += await self._step(partition, deadline)
            except FlowFabricError as error:
                self.leave_alone(partition.tag, error)
                self._next_ms[partition] = self.set_aside.until_ms(partition.tag)
            if self.now_ms() >= deadline:
                return items
        self.passed_at_ms = self.now_ms()
        return items

    async def _step(self, partition: Partition, deadline_ms: float) -> int:
        self._next_ms[partition] = self.now_ms() + self.interval_ms  # an announcement from now on moves it forward
        reset, due_in_ms = await self._reset(partition)
        done, is_dry = await self._act(partition, deadline_ms)
        if not is_dry:
            due_in_ms = 0.0
        if due_in_ms is not None:
            self._next_ms[partition] = min(self._next_ms[partition], self.now_ms() + due_in_ms)
        self.set_aside.worked(partition.tag)
        return reset + done

    async def _reset(self, partition: Partition) -> tuple[int, float | None]:
        result = await self.around.backend.reset_due_budgets(partition, limit=self.around.settings.batch)
        if result.next_at_ms is None:
            return len(result.budget_ids), None
        return len(result.budget_ids), max(0, result.next_at_ms - result.now_ms)

    async def _act(self, partition: Partition, deadline_ms: float) -> tuple[int, bool]:
        """Act on budget notices, oldest first; return how many, and whether none are left."""
        limit, done, finished = self.around.settings.batch, 0, list[c.BudgetNotice]()
        while True:
            found = await self.around.backend.read_budget_notices(partition, done=finished, limit=limit)
            self._told.difference_update(finished)
            done += len(finished)
            finished = [each for each in found if await self._handle(each, deadline_ms)]
            if not finished:
                return done, not found

    async def _handle(self, notice: c.BudgetNotice, deadline_ms: float) -> bool:
        """Report a notice once per engine and apply the budget's policy; return whether that is finished."""
        try:
            status = await self.around.backend.get_budget_status(notice.budget_id)
        except NotFound:
            return True
        if notice not in self._told:
            self._told.add(notice)
            await self._tell(notice, status)
        if notice.kind == "soft":
            return True
        return await self._cancelling.cancel(status, deadline_ms)

    async def _tell(self, notice: c.BudgetNotice, status: c.BudgetStatus) -> None:
        name = notice.dimension
        limits = status.soft_limits if notice.kind == "soft" else status.hard_limits
        numbers = f"{status.usage.get(name, 0)} of {limits.get(name, 0)}"
        _logger.info("budget %s passed its %s limit: %s %s used", notice.budget_id, notice.kind, numbers, name)
        if self._on_notice is None:
            return
        try:
            told = self._on_notice(notice, status)
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # a failing callback must not stop the breach from being handled
            self.note_error(error)

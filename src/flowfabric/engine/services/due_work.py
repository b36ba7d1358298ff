"""Requeue expired leases, promote delays, apply timeouts and deadlines (D4, D10, D12).

The store says when a partition's next work is due, and the partition is checked then. Because earlier work may arrive
meanwhile, each partition is also checked regularly: often while it changes, rarely while it is quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import Partition
from flowfabric.engine.schedule import Found
from flowfabric.engine.service import Surroundings
from flowfabric.engine.sweep import PartitionService

Expect: TypeAlias = Callable[[Partition, float], None]


class DueWork(PartitionService):
    """Runs the due work of this replica's partitions."""

    name = "due_work"

    def __init__(self, around: Surroundings, limits_due: Expect | None = None, ends_due: Expect | None = None) -> None:
        super().__init__(around, around.settings.quick_look_ms, around.settings.look_ms)
        self._limits_due = limits_due  # called when the limits of a partition have work
        self._ends_due = ends_due  # called when a watched execution of a partition has ended
        self._last: dict[Partition, c.NextDue] = {}  # the store's answer at the end of the last check
        self._late_ms: float | None = None  # of the oldest item in this run
        self._lag_ms: float | None = None

    def lag_ms(self) -> float | None:
        return self._lag_ms

    def hear(self, partition: Partition) -> None:
        """A partition has changed: check it soon."""
        self.looks.hear(partition)
        self.wake()

    def expect(self, partition: Partition, in_ms: float) -> None:
        """A timer of a partition is due in `in_ms`: check the partition then."""
        if self.looks.expect(partition, self.now_ms() + in_ms):
            self.wake()

    async def sweep(self, partitions: Iterable[Partition]) -> int:
        self._late_ms = None
        self._last = {each: self._last[each] for each in self.around.territory.own if each in self._last}
        items = await super().sweep(partitions)
        self._lag_ms = self._late_ms if self._late_ms is not None else self._lag_ms
        return items

    async def step(self, partition: Partition, deadline_ms: float) -> Found:
        due, items, last = await self.around.backend.next_due(partition), 0, self._last.get(partition)
        more = False
        if _is_due(due):
            items, more = await self._until_dry(partition, deadline_ms)
            if items:
                self._late_ms = max(self._late_ms or 0, _late_ms(due, last))
            due = await self.around.backend.next_due(partition)
        self._last[partition] = due
        if due.limits_at_ms is not None and self._limits_due is not None:
            self._limits_due(partition, max(0, due.limits_at_ms - due.now_ms))
        if due.ends_at_ms is not None and self._ends_due is not None:
            self._ends_due(partition, 0)
        is_same = last is not None and (due.at_ms, due.limits_at_ms) == (last.at_ms, last.limits_at_ms)
        is_busy = more or items > 0 or not is_same
        return Found(items, is_busy, 0 if more else _due_in_ms(due, items))

    async def _until_dry(self, partition: Partition, deadline_ms: float) -> tuple[int, bool]:
        """The number of items done, and whether work is left."""
        args, items, more = b.RunDueWorkArgs(partition=partition, limit=self.around.settings.batch), 0, True
        while more:
            async with self.around.slots.one():
                done = await self.around.backend.run_due_work(args)
            items += done.items
            more = done.more
            if self.now_ms() >= deadline_ms:
                break
        return items, more


def _is_due(due: c.NextDue) -> bool:
    return due.at_ms is not None and due.at_ms <= due.now_ms


def _late_ms(due: c.NextDue, last: c.NextDue | None) -> int:
    """How long the oldest item had been due, counted from the last check that found nothing due.

    An index entry without an execution may carry any time, so older times are not trusted.
    """
    known_ms = last.now_ms if last is not None and not _is_due(last) else 0
    return due.now_ms - max(due.at_ms or 0, known_ms)


def _due_in_ms(due: c.NextDue, items: int) -> float | None:
    """Time until the next due work; None if due entries could not be processed, which are left to regular checks."""
    if due.at_ms is None or (_is_due(due) and not items):
        return None
    return max(0, due.at_ms - due.now_ms)

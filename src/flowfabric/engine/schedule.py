"""When to check each partition again: often while it is busy, rarely while it is quiet, and when work is due."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from flowfabric.core.partition import Partition


class Found(NamedTuple):
    """The result of checking a partition."""

    items: int
    is_busy: bool  # more work is likely soon
    due_in_ms: float | None = None  # when the next work is due, if known


@dataclass(slots=True)
class _Look:
    every_ms: float
    last_at_ms: float = 0.0
    regular_at_ms: float = 0.0
    due_at_ms: float = 0.0
    told_at_ms: float = inf  # the earliest timer that was announced since the last check began

    @property
    def at_ms(self) -> float:
        return min(self.regular_at_ms, self.due_at_ms, self.told_at_ms)


class Looks:
    """The next check of each partition; the interval doubles from `quick_ms` to `slow_ms` while it is quiet."""

    def __init__(self, quick_ms: float, slow_ms: float) -> None:
        self._quick_ms = quick_ms
        self._slow_ms = slow_ms
        self._looks: dict[Partition, _Look] = {}

    def near(self, partitions: Iterable[Partition], now_ms: float) -> list[Partition]:
        """The partitions to check now, or so soon that they can join this run. Drop the schedules of all others."""
        self._looks = {partition: self._look(partition) for partition in partitions}
        return [
            partition
            for partition, look in self._looks.items()
            if look.at_ms <= now_ms or look.regular_at_ms <= now_ms + look.every_ms / 8
        ]

    def at_ms(self, partition: Partition) -> float:
        """When the partition is checked next; a new partition is due at once."""
        return self._look(partition).at_ms

    def begin(self, partition: Partition) -> None:
        """A check begins: it finds every timer announced before."""
        self._look(partition).told_at_ms = inf

    def plan(self, partition: Partition, found: Found, now_ms: float) -> None:
        """Record a check of the partition and schedule the next one."""
        look = self._look(partition)
        look.every_ms = self._quick_ms if found.is_busy else min(look.every_ms * 2, self._slow_ms)
        look.last_at_ms, look.regular_at_ms = now_ms, now_ms + look.every_ms
        look.due_at_ms = look.regular_at_ms if found.due_in_ms is None else now_ms + found.due_in_ms

    def hear(self, partition: Partition) -> None:
        """The partition has changed: check it soon, but not more often than a busy partition."""
        look = self._look(partition)
        look.regular_at_ms = min(look.regular_at_ms, look.last_at_ms + self._quick_ms)

    def expect(self, partition: Partition, at_ms: float) -> bool:
        """Work is due at that time, or earlier; return whether the next check must come sooner than planned.

        It is noted in any case: a check in flight may have missed it and replaces the plan.
        """
        look = self._look(partition)
        is_sooner = at_ms < look.at_ms
        look.told_at_ms = min(look.told_at_ms, at_ms)
        return is_sooner

    def _look(self, partition: Partition) -> _Look:
        return self._looks.setdefault(partition, _Look(self._quick_ms))

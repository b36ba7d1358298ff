"""What one caller may hold at the same time, so that what one takes leaves the others theirs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from flowfabric.errors import Limited

_READS_AT_ONCE: Final = 2


class Shares:
    """So many of something for each caller."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._held: Counter[str] = Counter()

    def check(self, caller: str) -> None:
        """Refuse where there is no room for one more."""
        if self._held[caller] >= self._most:
            problem = f"{self._most} {self._what} of this caller are open already; try again when some have ended"
            raise Limited(problem, code="tail_limit_exceeded", limit=self._most)

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        self.check(caller)
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]


class Turns:
    """Readers that catch up read long stretches of the logs: those of one caller do so after one another."""

    def __init__(self) -> None:
        self._by_caller: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, caller: str) -> asyncio.Semaphore:
        found = self._by_caller.get(caller)
        if found is None:
            found = self._by_caller[caller] = asyncio.Semaphore(_READS_AT_ONCE)
        return found

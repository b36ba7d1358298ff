"""How much one caller may hold at the same time, so that enough is left for the others."""

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
    """A limit per caller on concurrent use."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._held: Counter[str] = Counter()

    def check(self, caller: str) -> None:
        """Refuse if the caller's share is used up."""
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
    """Turns for readers that catch up over long stretches of the logs: one at a time per caller."""

    def __init__(self) -> None:
        self._by_caller: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, caller: str) -> asyncio.Semaphore:
        found = self._by_caller.get(caller)
        if found is None:
            found = self._by_caller[caller] = asyncio.Semaphore(_READS_AT_ONCE)
        return found

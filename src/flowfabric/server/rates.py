"""How often one caller may call: a bucket that fills steadily and holds a burst."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from flowfabric.errors import Limited

_MOST: Final = 10_000  # callers that are remembered; who was forgotten has a full bucket again


class Rates:
    """Buckets by caller; a rate of 0 lets everything pass."""

    def __init__(self, per_second: int, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def take(self, caller: str) -> None:
        """Take one, or refuse with how long it takes until there is one."""
        if not self._per_second:
            return
        now = self._clock()
        left, at = self._buckets.pop(caller, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._buckets[caller] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        if left < 1:
            after_ms = int((1 - left) / self._per_second * 1000) + 1
            raise Limited(f"more than {self._per_second} calls a second", retry_after_ms=after_ms)

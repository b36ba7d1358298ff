"""How often one caller may call: a bucket that fills steadily and holds a burst."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from flowfabric.errors import Limited

_MOST: Final = 10_000  # remembered callers; a forgotten caller has a full bucket again


class Rates:
    """Buckets by caller; a rate of 0 means no limit."""

    def __init__(
        self, per_second: int, burst: int, clock: Callable[[], float] | None = None, what: str = "calls"
    ) -> None:
        self._per_second = per_second
        self._what = what
        self._burst = burst
        self._clock = clock or monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the tokens left, and when

    def take(self, caller: str) -> None:
        """Take one token, or refuse with the time until there is one."""
        if not self._per_second:
            return
        left = self._left(caller)
        if left < 1:
            after_ms = int((1 - left) / self._per_second * 1000) + 1
            raise Limited(f"more than {self._per_second} {self._what} a second", retry_after_ms=after_ms)
        self._pay(caller, left - 1)

    def charge(self, caller: str, more: int) -> None:
        """Charge an admitted call more; the caller owes the missing part and waits longer next time."""
        if self._per_second and more > 0:
            self._pay(caller, self._left(caller) - more)

    def _left(self, caller: str) -> float:
        left, at = self._buckets.get(caller, (float(self._burst), 0.0))
        return min(float(self._burst), left + (self._clock() - at) * self._per_second)

    def _pay(self, caller: str, left: float) -> None:
        self._buckets[caller] = (left, self._clock())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)

"""The store's time as a worker knows it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a worker reads the store's time. Tests pass their own to `Worker.start`."""

    def now_ms(self) -> int: ...

    def observe(self, store_ms: int) -> None:
        """The store's clock shows `store_ms` now."""


class StoreClock:
    """Estimates the store's time from the last claim and the local monotonic clock."""

    def __init__(self) -> None:
        self._offset_ms = 0.0  # store time minus local monotonic time

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000 + self._offset_ms)

    def observe(self, store_ms: int) -> None:
        self._offset_ms = store_ms - time.monotonic() * 1000

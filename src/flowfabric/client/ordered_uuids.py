"""UUIDs that sort in the order in which they were made (version 7).

The store takes executions of one millisecond in the order of their ids, so those of one client start first come, first
served, a whole bulk of them as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_SEQUENCES = 1 << 12  # within a millisecond


class OrderedUuids:
    """Never smaller than the one before, whatever the clock does."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._ms = 0
        self._sequence = 0

    def next(self) -> str:
        self._step()
        chance = int.from_bytes(os.urandom(8)) >> 2
        text = f"{self._ms << 80 | 7 << 76 | self._sequence << 64 | 2 << 62 | chance:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _step(self) -> None:
        now = self._now_ms()
        if now > self._ms:
            self._ms, self._sequence = now, 0
        elif self._sequence + 1 < _SEQUENCES:
            self._sequence += 1
        else:  # more than a millisecond can number: borrow from the next one
            self._ms, self._sequence = self._ms + 1, 0

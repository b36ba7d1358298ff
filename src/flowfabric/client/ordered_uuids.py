"""UUIDs that sort in the order in which they were made (version 7).

The store takes executions of one millisecond in the order of their ids, so those of one client start first come, first
served, a whole bulk of them as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable


class OrderedUuids:
    """Each is greater than the one before, whatever the clock does.

    What tells them from those of other makers is drawn once: 26 random bits, and a random number to count on from.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._ms = -1
        self._time = ""
        chance = int.from_bytes(os.urandom(10))
        self._maker = f"-7{chance >> 68:03x}-{0x8000 | chance >> 52 & 0x3FFF:04x}-"
        self._number = chance & (1 << 47) - 1  # of 48 bits, so the upper half is left to count

    def next(self) -> str:
        now = self._now_ms()
        if now > self._ms:
            self._ms = now
            self._time = f"{now >> 16:08x}-{now & 0xFFFF:04x}"
        self._number += 1
        return f"{self._time}{self._maker}{self._number:012x}"

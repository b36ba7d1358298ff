"""Unpredictable UUIDs (version 7) that sort in the order of their creation.

The store orders executions of one millisecond by their ids, so those of one client start first come, first served, in
a bulk as well. Knowing all earlier ids does not help to guess the next one: of its 128 bits 48 are the time in
milliseconds, 8 the fraction of the millisecond, 6 the version and variant, and 66 are random and used once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import time_ns
from typing import Final

_PARTS: Final = [f"{part:02x}" for part in range(256)]  # fractions of a millisecond
_DRAWN: Final = 256  # ids whose random digits come from one system call
_DIGITS: Final = 18  # per id; one more than needed, because a byte has two digits
_TAIL: Final = "r-vrrr-rrrrrrrrrrrr"  # r: a random digit, v: one of the four variant digits
_VARIANT: Final = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)

_tails: Final[list[str]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tails.clear)  # a child process must not reuse its parent's digits


def _draw_tails() -> None:
    """Draw the random tails of the next ids. Filled column by column, which needs no loop over ids."""
    drawn = os.urandom(_DRAWN * _DIGITS // 2).hex().encode()
    made, step = bytearray(_TAIL.encode() * _DRAWN), len(_TAIL)
    places = [at for at, letter in enumerate(_TAIL) if letter != "-"]
    for digit, at in enumerate(places):
        column = drawn[digit::_DIGITS]
        made[at::step] = column.translate(_VARIANT) if _TAIL[at] == "v" else column
    text = made.decode()
    _tails.extend(text[at : at + step] for at in range(0, len(text), step))


class OrderedUuids:
    """Each UUID is greater than the one before, whatever the clock does.

    When more are drawn than the clock's resolution allows, they run ahead of the clock.
    """

    def __init__(self, now_ns: Callable[[], int] = time_ns) -> None:
        self._now_ns = now_ns
        self._last = self._ms = -1
        self._time = ""

    def next(self) -> str:
        now = (self._now_ns() << 8) // 1_000_000  # in 256ths of a millisecond
        if now <= self._last:
            now = self._last + 1
        self._last, ms = now, now >> 8
        if ms != self._ms:
            self._ms, self._time = ms, f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7"
        try:
            tail = _tails.pop()
        except IndexError:
            _draw_tails()
            tail = _tails.pop()
        return f"{self._time}{_PARTS[now & 0xFF]}{tail}"

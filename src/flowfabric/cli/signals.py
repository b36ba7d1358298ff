"""Wait for SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ENDING = (signal.SIGTERM, signal.SIGINT)


class Ending:
    """Whether this process received SIGTERM or SIGINT, once or again."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.asked_again = asyncio.Event()

    def hear(self) -> None:
        (self.asked_again if self.asked.is_set() else self.asked).set()


@contextmanager
def ending() -> Iterator[Ending]:
    """Record SIGTERM and SIGINT instead of ending on them."""
    heard, loop = Ending(), asyncio.get_running_loop()
    with suppress(NotImplementedError):  # on Windows Ctrl-C raises KeyboardInterrupt
        for number in _ENDING:
            loop.add_signal_handler(number, heard.hear)
    try:
        yield heard
    finally:
        with suppress(NotImplementedError):
            for number in _ENDING:
                loop.remove_signal_handler(number)

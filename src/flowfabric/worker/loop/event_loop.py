"""The event loop of a process that is a worker: uvloop's where that is installed, which spares it some work."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on the quickest loop there is; what other loops the process makes is not changed."""
    gc.collect()
    gc.freeze()  # what is there by now stays; the collector would look at it again and again, while work waits
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

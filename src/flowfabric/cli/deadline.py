"""End a command when its --timeout is over, whatever it is doing then: connecting, calling, waiting or closing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from flowfabric.cli.exits import ExitCode
from flowfabric.cli.show.output import Output

_GRACE_S: Final = 1.0  # for closing the connection and leaving an embedded server


async def within(seconds: float | None, work: Awaitable[None], out: Output, situation: Callable[[], str]) -> None:
    """Do the work; raise TimeoutError with the situation after `seconds`.

    What cannot be cancelled, like the start of an embedded server, or a store that does not reply while the connection
    is closed, ends with the process a moment later.
    """
    if seconds is None:
        await work
        return
    loop = asyncio.get_running_loop()
    last_resort = loop.call_later(seconds + _GRACE_S, lambda: _end(out, TimeoutError(situation())))
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            await work
    except TimeoutError:
        if timer.expired():
            raise TimeoutError(situation()) from None  # and the last resort stays
        raise
    finally:
        if not timer.expired():
            last_resort.cancel()


def _end(out: Output, error: TimeoutError) -> None:
    out.error(error)
    sys.stderr.flush()
    os._exit(ExitCode.TIMED_OUT)

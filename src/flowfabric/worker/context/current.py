"""`current_context()`: the context of the running handler, for code that does not get it as an argument."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from flowfabric.errors import NoContext
from flowfabric.worker.context.context import Context

# Makes the context of the attempt that runs here, at its first use: most handlers need none.
running: Final[ContextVar[Callable[[], Context] | None]] = ContextVar("flowfabric_context", default=None)


def current_context() -> Context:
    """The context of the handler that calls this, directly or through other functions and steps.

    Raises NoContext outside of handlers, and in threads that the handler started itself: those get a copy of the
    handler's context variables only from `asyncio.to_thread` and `contextvars.copy_context`.
    """
    make = running.get()
    if make is None:
        raise NoContext("no handler is running here; call current_context() in a handler, or pass ctx as an argument")
    return make()

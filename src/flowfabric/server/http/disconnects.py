"""Callers that disconnect before their response: their waiting calls are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive

T = TypeVar("T")


async def disconnected(receive: Receive) -> None:
    """Return when the caller has disconnected; its body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_left(request: Request, call: Coroutine[Any, Any, T]) -> T | None:
    """The result of the call; None if the client left, and then the call is cancelled."""
    answering, leaving = asyncio.ensure_future(call), asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)

"""Server-sent events: what happens, as it happens. A quiet stream says now and then that it is alive.

Whoever comes back with the id of the last event it saw goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import StreamingResponse

from flowfabric.backends.http.shapes import to_wire
from flowfabric.errors import FlowFabricError, Limited
from flowfabric.server.service import Service

_ALIVE: Final = b": alive\n\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Item(NamedTuple):
    """One event: its kind, its data, and the place to go on from."""

    kind: str
    data: object
    id: str = ""

    def encode(self) -> bytes:
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.kind}\ndata: ".encode() + to_wire(self.data) + b"\n\n"


def last_seen(request: Request) -> str | None:
    """The id that the client saw last; a browser sends the header by itself when it reconnects."""
    return request.headers.get("last-event-id") or request.query_params.get("after") or None


def stream(request: Request, items: AsyncIterator[Item]) -> StreamingResponse:
    """Send what comes until it ends, the client leaves or the server stops."""
    service = Service.of(request)
    if service.streams >= service.settings.sse_clients:
        raise Limited(f"{service.streams} streams are open", code="tail_limit_exceeded")
    return StreamingResponse(_sent(service, items), headers=_HEADERS, media_type="text/event-stream")


async def _sent(service: Service, items: AsyncIterator[Item]) -> AsyncIterator[bytes]:
    service.streams += 1
    try:
        yield b"retry: 1000\n\n"
        async with aclosing(_with_pauses(service, items)) as found:  # type: ignore[type-var]
            async for item in found:
                yield _ALIVE if item is None else item.encode()
    except FlowFabricError as error:
        yield Item("error", {"code": error.code, "message": error.message}).encode()
    finally:
        service.streams -= 1


async def _with_pauses(service: Service, items: AsyncIterator[Item]) -> AsyncIterator[Item | None]:
    """The items, and None whenever none came for a while."""
    pause = service.settings.keep_alive_ms / 1000
    stopping = asyncio.ensure_future(service.stopping.wait())
    following: asyncio.Future[Item | None] | None = None
    try:
        while not stopping.done():
            following = following or asyncio.ensure_future(anext(items, None))
            waited: set[asyncio.Future[Any]] = {following, stopping}
            await asyncio.wait(waited, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                item, following = following.result(), None
                if item is None:
                    return
                yield item
            elif not stopping.done():
                yield None
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()

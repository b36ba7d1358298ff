"""Server-sent events, live. A quiet stream sends keep-alives.

A client that reconnects with the id of its last event continues after it. A client costs tasks that sleep until an
event arrives; one keeper serves all clients, once per keep-alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from flowfabric.errors import FlowFabricError, Limited
from flowfabric.server.access.tokens import Token
from flowfabric.server.feeds.items import Item
from flowfabric.server.http.disconnects import disconnected
from flowfabric.server.service import Service

_logger: Final = logging.getLogger("flowfabric.server")

_MOST_STUCK: Final = 2
_FINISH_S: Final = 1.0
_FIRST: Final = b"retry: 1000\n\n"
_ALIVE: Final = b": alive\n\n"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Type": "text/event-stream; charset=utf-8",
    "X-Accel-Buffering": "no",
}


# A stream consists of items, or of items that were encoded once for many clients.
Items = AsyncGenerator[Item | bytes, None]


def last_seen(request: Request) -> str | None:
    """The last id the client saw; a browser sends the header when it reconnects."""
    return request.headers.get("last-event-id") or request.query_params.get("after") or None


def stream(request: Request, token: Token, items: Items) -> EventStream:
    """Send items until the stream ends, the client leaves or stops reading, or the server stops."""
    service = Service.of(request)
    if len(service.streams) >= service.settings.sse_clients:
        raise Limited(f"{len(service.streams)} streams are open", code="tail_limit_exceeded")
    caller = service.name_of(request, token)
    service.stream_shares.check(caller)
    return EventStream(service, caller, items)


class EventStream(Response):
    """The answer to one client."""

    def __init__(self, service: Service, caller: str, items: Items) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._service = service
        self._caller = caller
        self._items = items
        self._is_quiet = True
        self._is_sending = False
        self._stuck = 0  # number of keep-alives during which the same write has waited
        self._send: Send
        self._sending: asyncio.Task[None]
        self._saying: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        with self._service.stream_shares.one(self._caller):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await self._items.aclose()
            else:
                await self._run(receive)
        await self._finish()

    async def _finish(self) -> None:
        """Do not wait for a client that stops reading: close its stream; it resumes after the last id it saw."""
        try:
            async with asyncio.timeout(_FINISH_S):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _logger.warning("closing a stream of %s: its client has stopped reading", self._caller)

    async def _run(self, receive: Receive) -> None:
        self._sending = asyncio.create_task(self._send_all())
        leaving = asyncio.create_task(disconnected(receive))
        self._service.streams.add(self)
        _keep(self._service)
        try:
            await asyncio.wait({self._sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._service.streams.discard(self)
            _keep(self._service)
            tasks = [task for task in (self._sending, leaving, self._saying) if task is not None]
            for task in tasks:
                task.cancel()
            failed, *_ = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(failed, Exception):
            raise failed

    async def _send_all(self) -> None:
        await self._write(_FIRST)
        try:
            async with aclosing(self._items):
                async for item in self._items:
                    await self._write(item if isinstance(item, bytes) else item.encode())
        except FlowFabricError as error:
            await self._write(Item("error", {"code": error.code, "message": error.message}).encode())

    async def _write(self, data: bytes) -> None:
        self._is_quiet, self._is_sending, self._stuck = False, True, 0
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._is_sending = False

    # Called by the keeper.

    def keep_alive(self) -> None:
        """Send a keep-alive if nothing was sent since the last one; never wait for a slow client.

        A client that has read nothing of the same write for two keep-alives is disconnected.
        """
        self._stuck += self._is_sending
        if self._stuck > _MOST_STUCK:
            self.end()
        if self._is_quiet and not self._is_sending:
            self._saying = asyncio.create_task(self._write(_ALIVE))
        self._is_quiet = True

    def end(self) -> None:
        self._sending.cancel()


def _keep(service: Service) -> None:
    """One keeper for all streams of a server, as long as there are some."""
    if service.streams and service.keeper is None:
        service.keeper = asyncio.create_task(_keeper(service))
    elif not service.streams and service.keeper is not None:
        service.keeper.cancel()
        service.keeper = None


async def _keeper(service: Service) -> None:
    pause = service.settings.keep_alive_ms / 1000
    while not service.stopping.is_set():
        try:
            async with asyncio.timeout(pause):
                await service.stopping.wait()
        except TimeoutError:
            for each in tuple(service.streams):
                each.keep_alive()
    for each in tuple(service.streams):
        each.end()

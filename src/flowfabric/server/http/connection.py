"""A connection of uvicorn with limits on its size, on its sending time and on how slowly the client reads.

The parser buffers incomplete input, so the limit counts the bytes since it last made progress: endless headers, chunk
extensions or trailers are cut off. Trailers are read and dropped: a client cannot send credentials after the body.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from functools import cache
from http import HTTPStatus
from math import inf
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flowfabric.backends.http.problems import Problem
from flowfabric.core.codec import to_json
from flowfabric.errors import FlowFabricError, Limited
from flowfabric.server.http.connections import Connections, Refusal
from flowfabric.server.settings import ServerSettings

PIPELINED: Final = 16  # requests that may wait behind one that is being answered
_LINGER_S: Final = 2.0  # time for a client to read the refusal, while its input is discarded
_GRACE_S: Final = 1.0  # time for the route that reads a body to report the timeout itself
_NO_HTTP: Final = FlowFabricError("the request is not HTTP/1.1", code="invalid_input")


class _Stage(Enum):
    """The part of a request that the connection waits for."""

    FIRST = auto()  # anything at all
    HEAD = auto()
    BODY = auto()
    NOTHING = auto()  # the client may send a request, or wait for its response
    END = auto()  # the request was refused


class _Bin(list[Any]):
    """Discards trailers."""

    def append(self, _: Any) -> None:
        return


_BIN: Final = _Bin()


class _Refused(Exception):
    """Ends the parsing."""


class Connection(HttpToolsProtocol):
    """The parser's callbacks report its progress; `look` ends stages that take too long."""

    peer: str  # the address it counts for; empty for a proxy

    def __init__(self, *args: Any, connections: Connections, **named: Any) -> None:
        super().__init__(*args, **named)
        self._all = connections
        self._settings = connections.settings
        self._seconds = _seconds(connections.settings)
        self._upgrades = False
        self._stage = _Stage.FIRST
        self._until = inf  # when the stage must have ended
        self._stuck_at: float | None = None  # since when the client has not read
        self._closing_at: float | None = None
        self._unread = 0  # bytes since the parser made progress
        self._at_most = 0  # upper bound for the length of a head that ends now
        self._refusal: Refusal | None = None

    @property
    def is_receiving(self) -> bool:
        """Whether a handler waits for the rest of a body."""
        return self._stage is _Stage.BODY

    # Called by the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        refusal = self._all.enter(self)
        if refusal is not None:
            self._stage = _Stage.END
            self._tell(*refusal)
            transport.close()
            return
        self._enter(_Stage.FIRST)
        self._all.wait(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._stage
        if before is _Stage.END:
            return
        self._unread += len(data)
        self._at_most = self._unread
        super().data_received(data)
        if self._unread > self._settings.header_bytes and self._stage is not _Stage.END:
            self._refuse(431, _too_large(self._settings.header_bytes))
        if self._stage is _Stage.NOTHING and (self.cycle is None or self.cycle.response_complete):
            self._stage = _Stage.HEAD  # line ends before a request
        if self._stage is not before:
            self._enter(self._stage)
            if self._stage is _Stage.HEAD and not self._is_answering:
                self._all.wait(self)

    def pause_writing(self) -> None:
        self._stuck_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stuck_at = None
        super().resume_writing()

    # Called by the parser.

    def on_message_begin(self) -> None:
        self._stage = _Stage.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._check_head()
        super().on_headers_complete()
        self.headers = _BIN
        self._stage = _Stage.BODY
        self._unread = 0
        self._all.waiting.pop(self, None)
        self._upgrades = self.parser.should_upgrade()
        if self._upgrades:
            self.cycle.keep_alive = False  # another protocol follows, if there is no body

    def on_chunk_header(self) -> None:
        self._unread = 0

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        self._stage = _Stage.END if self._upgrades else _Stage.NOTHING
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self._all.wait(self)

    def send_400_response(self, msg: str) -> None:
        """Stop reading: the input is not HTTP, or exceeds a limit."""
        self._refuse(*(self._refusal or Refusal(400, _NO_HTTP)))

    # Timeouts.

    def look(self, now: float) -> None:
        """Called periodically."""
        if self.transport.is_closing():
            self._closing_at = self._closing_at or now
            if now - self._closing_at > self._settings.write_timeout_ms / 1000:
                self.transport.abort()
        elif self._stuck_at is not None and now - self._stuck_at > self._settings.write_timeout_ms / 1000:
            self.transport.abort()
        elif now > self._until:
            self._end_late(now)

    def _enter(self, stage: _Stage) -> None:
        self._stage = stage
        self._until = inf if stage is _Stage.NOTHING else self.loop.time() + self._seconds[stage]

    def _end_late(self, now: float) -> None:
        if self._stage is _Stage.BODY and self.flow.read_paused:
            self._until = now + self._settings.body_timeout_ms / 1000  # this side stopped reading, not the client
        elif self._stage is _Stage.HEAD or (self._stage is _Stage.BODY and not self.cycle.response_complete):
            self._refuse(408, _too_late(self._settings, is_head=self._stage is _Stage.HEAD))
        elif self._stage is not _Stage.END or not self._is_answering:
            self.transport.close()

    # Refusals.

    def _check_head(self) -> None:
        settings = self._settings
        if self._at_most > settings.header_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > settings.header_bytes:
                self._refusal = Refusal(431, _too_large(settings.header_bytes))
        if len(self.headers) > settings.header_fields:
            self._refusal = Refusal(431, _too_many(settings.header_fields))
        if len(self.pipeline) >= PIPELINED:
            self._refusal = Refusal(429, Limited(f"{PIPELINED} requests wait already"))
        if self._refusal is not None:
            raise _Refused

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, error: FlowFabricError) -> None:
        """Respond and stop reading; if another response is in progress, the connection ends after it."""
        is_late = self._stage is _Stage.BODY and not self.cycle.response_started and not self.pipeline
        self._stage = _Stage.END
        if self._is_answering and not is_late:
            self.cycle.keep_alive = False
            return
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self._tell(status, error)
        self._enter(_Stage.END)
        self._all.wait(self)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _tell(self, status: int, error: FlowFabricError) -> None:
        if self.transport.is_closing():
            return
        body = to_json(Problem.of(error))
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "x-content-type-options: nosniff",
            *(["retry-after: 1"] if status in (429, 503) else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + body)


@cache
def _seconds(settings: ServerSettings) -> dict[_Stage, float]:
    """The time allowed for each stage."""
    head = settings.header_timeout_ms / 1000
    body = settings.body_timeout_ms / 1000 + _GRACE_S
    return {_Stage.FIRST: head, _Stage.HEAD: head, _Stage.BODY: body, _Stage.END: _LINGER_S}


def _too_large(most: int) -> FlowFabricError:
    said = f"the address and the headers, or the trailers, must be at most {most} bytes together"
    return FlowFabricError(said, code="headers_too_large", limit=most)


def _too_many(most: int) -> FlowFabricError:
    return FlowFabricError(f"there must be at most {most} headers", code="headers_too_large", limit=most)


def _too_late(settings: ServerSettings, *, is_head: bool) -> FlowFabricError:
    part, most = ("headers", settings.header_timeout_ms) if is_head else ("body", settings.body_timeout_ms)
    return FlowFabricError(f"the {part} must arrive within {most} ms", code="request_timeout", limit=most)

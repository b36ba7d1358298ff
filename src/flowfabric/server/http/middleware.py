"""Middleware of every request: an id for logs and responses, and security headers."""

from __future__ import annotations

import re
import secrets
from itertools import count
from time import perf_counter
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flowfabric import tracing
from flowfabric.errors import FlowFabricError
from flowfabric.server.http.bounds import check_members
from flowfabric.server.http.problems import on_bug, problem
from flowfabric.server.metrics.registry import Requests

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PIECE: Final = 65_536
_PROCESS: Final = secrets.token_hex(8) + "-"
_numbers: Final = count(1)

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}

_ALL: Final = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_API: Final = [*_ALL, (b"cache-control", b"no-store")]
_NAMES: Final = {b"x-request-id", *(name for name, _ in _API)}


class Guard:
    """Adds the id and the headers, also to error responses, and refuses overlong queries."""

    def __init__(self, app: ASGIApp, query_parameters: int) -> None:
        self._app = app
        self._most_members = query_parameters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        added = [(b"x-request-id", request_id.encode()), *(_API if scope["path"].startswith("/v1/") else _ALL)]
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = message["headers"]
                given = {name for name, _ in headers}
                missing = added if given.isdisjoint(_NAMES) else [each for each in added if each[0] not in given]
                message["headers"] = [*headers, *missing]
            elif len(message.get("body", b"")) > _PIECE:
                await _in_pieces(message, send)
                return
            await send(message)

        try:
            check_members(scope["query_string"], self._most_members)
            await self._app(scope, receive, send_with_headers)
        except FlowFabricError as refusal:
            await problem(refusal, Request(scope))(scope, receive, send_with_headers)
        except Exception as bug:
            if has_begun:
                raise
            await on_bug(Request(scope), bug)(scope, receive, send_with_headers)


async def _in_pieces(message: Message, send: Send) -> None:
    """Send long responses in pieces, so that a slow client keeps only one or two in memory."""
    body = memoryview(message["body"])
    for start in range(0, len(body), _PIECE):
        is_more = message.get("more_body", False) or start + _PIECE < len(body)
        await send({**message, "body": bytes(body[start : start + _PIECE]), "more_body": is_more})


class Measured:
    """Records every response: operation, status, and time to the first byte."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                operation = getattr(scope.get("endpoint"), "__name__", "unknown")
                self._requests.note(operation, message["status"], perf_counter() - began)
            await send(message)

        await self._app(scope, receive, noted)


class Traced:
    """A span for each request, if the program has configured OpenTelemetry."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not tracing.is_on():
            await self._app(scope, receive, send)
            return
        with tracing.request_span(scope["method"], scope["headers"]) as span:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.answer(scope["method"], getattr(scope.get("route"), "path", None), message["status"])
                await send(message)

            await self._app(scope, receive, noted)


def _request_id(scope: Scope) -> str:
    """The caller's request id if valid, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and (found := _ID.fullmatch(value.decode("latin-1"))):
            return found[0]
    return f"{_PROCESS}{next(_numbers):x}"

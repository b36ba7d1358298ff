"""Around every request: an id that goes through logs and answers, and headers that keep browsers careful."""

from __future__ import annotations

import re
import secrets
from time import perf_counter
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flowfabric.server.metrics import Requests

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

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


class Guard:
    """Adds the id and the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/v1/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class Measured:
    """Notes every answer: which operation, which status, how long it took until it began."""

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


def _request_id(scope: Scope) -> str:
    """The caller's, when it looks like one; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and (found := _ID.fullmatch(value.decode("latin-1"))):
            return found[0]
    return secrets.token_hex(8)

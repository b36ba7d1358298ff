"""A server with tokens, one for each thing that may be wrong with a caller, and all addresses that it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.routing import Route

from flowfabric.backends.http.operations import BY_PORT, Scope
from flowfabric.backends.ports import EngineBackend
from flowfabric.server.access.tokens import ALL, Token, new_token, write_tokens
from flowfabric.server.app import create_app
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings

OURS, THEIRS = "ours", "theirs"
WITHIN_S = 20

# What a probe or a page loads before anybody has shown a token, and tells nothing of the store; and the page of a
# waitpoint's link, which asks for the link's own token.
OPEN = frozenset(
    {("GET", path) for path in ("/healthz", "/readyz", "/openapi.json", "/", "/dashboard/{path:path}")}
    | {("GET", "/pages/approval.css"), ("GET", BY_PORT["deliver_signal"].path)}
)


class TokenFile:
    """The tokens of a test, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: dict[str, str] = {}
        self._entries: list[Token] = []

    def add(self, name: str, scopes: Iterable[Scope], namespaces: Iterable[str] = (ALL,)) -> str:
        self.texts[name], entry = new_token(name, scopes, namespaces)
        self._entries.append(entry)
        write_tokens(self.path, self._entries)
        return self.texts[name]

    def remove(self, name: str) -> None:
        self._entries = [each for each in self._entries if each.name != name]
        write_tokens(self.path, self._entries)

    def headers(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.texts[name]}"}


@asynccontextmanager
async def guarded(backend: EngineBackend, tokens: TokenFile, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings = {"failures_per_second": 0} | settings
    listens = listening(backend, ServerSettings(port=0, tokens=str(tokens.path), **settings))
    async with listens as url, httpx.AsyncClient(base_url=url, timeout=WITHIN_S) as http:
        yield http


def addresses(backend: EngineBackend) -> list[tuple[str, str]]:
    """Method and path of every route of the application."""
    found = []
    for route in create_app(backend).routes:
        assert isinstance(route, Route), f"{route} is no plain route: say here how it is guarded"
        found += [(method, route.path) for method in sorted(route.methods or ()) if method != "HEAD"]
    return list(dict.fromkeys(found))


def guarded_addresses(backend: EngineBackend) -> list[tuple[str, str]]:
    return [each for each in addresses(backend) if each not in OPEN]


def filled(path: str, **ids: str) -> str:
    """A path with these ids, and something harmless in its other places."""
    return path.format_map(_Places(ids))


class _Places(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "0"

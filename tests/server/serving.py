"""A server beside a test, on its loop and its store, and a client that reads its streams of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from flowfabric.backends.ports import EngineBackend
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings

WITHIN_S = 20


@dataclass
class Sent:
    """One event as a client gets it."""

    kind: str
    data: Any
    id: str


@dataclass
class Listener:
    """Reads one stream of events; `alive` counts what it says while nothing happens."""

    lines: AsyncIterator[str]
    alive: int = 0
    seen: list[Sent] = field(default_factory=list)

    async def next(self) -> Sent | None:
        """The next event; None when the stream has ended."""
        members: dict[str, str] = {}
        async with asyncio.timeout(WITHIN_S):
            async for line in self.lines:
                name, _, value = line.partition(":")
                self.alive += line == ": alive"
                if line:
                    members[name] = value.removeprefix(" ")
                elif "event" in members:
                    self.seen.append(Sent(members["event"], json.loads(members["data"]), members.get("id", "")))
                    return self.seen[-1]
                else:
                    members = {}
        return None

    async def until(self, kind: str) -> list[Sent]:
        """The events up to one of this kind."""
        found = []
        while (each := await self.next()) is not None:
            found.append(each)
            if each.kind == kind:
                return found
        raise AssertionError(f"it ended without {kind!r}: {found}")

    async def rest(self) -> list[Sent]:
        found = []
        while (each := await self.next()) is not None:
            found.append(each)
        return found


class Served:
    """A client of the server."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self.http = http
        self.url = url

    @asynccontextmanager
    async def listen(self, path: str, *, after: str | None = None, **query: Any) -> AsyncIterator[Listener]:
        headers = {"Last-Event-ID": after} if after else {}
        async with self.http.stream("GET", path, params=query, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield Listener(answer.aiter_lines())


@asynccontextmanager
async def serving(backend: EngineBackend, **settings: Any) -> AsyncIterator[Served]:
    async with listening(backend, ServerSettings(port=0, **settings)) as url:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=WITHIN_S) as http:
            yield Served(http, url)

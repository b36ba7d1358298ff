"""The embedded server behind a server of ours: every call of a port is a request over a socket of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from flowfabric.backends.http.backend import HttpBackend
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from tests.http_server import HttpServer
from tests.stores.embedded import EmbeddedStore
from tests.valkey.probe import ValkeyInside, ValkeyProbe


class HttpProbe(ValkeyInside):
    """The ports go through the server; the look inside goes past it."""

    def __init__(self, inner: ValkeyProbe, server: HttpServer, backend: HttpBackend) -> None:
        super().__init__(inner.url, inner.backend, inner.clock)
        self.server = server
        self.backend = backend

    @classmethod
    async def connect(cls, inner: ValkeyProbe, server: HttpServer) -> HttpProbe:
        await server.begin(inner.backend.partitions)
        return cls(inner, server, await _connected(server))

    async def another(self) -> HttpBackend:
        return await _connected(self.server)

    async def close(self) -> None:
        await self.backend.close()
        await super().close()

    async def cut(self) -> None:
        """Cut the server's connections, and return when it has new ones: a write that it loses is not repeated."""
        await super().cut()
        await self.backend.list_lanes(c.ListLanesArgs())


async def _connected(server: HttpServer) -> HttpBackend:
    return await HttpBackend.open(Settings(url=server.url))


class HttpStore:
    name: ClassVar[str] = "http"
    nth_life: ClassVar[int] = 3
    lacks: ClassVar[Mapping[str, str]] = {
        "chosen_namespaces": "the server knows the namespaces of a token; a client cannot choose them",
        "own_process": "the ports work in the server's process",
    }

    def __init__(self) -> None:
        self._behind = EmbeddedStore()

    def start(self, directory: Path) -> None:
        self._behind.start(directory / self.name)
        self._http = HttpServer(self._behind.url)

    def stop(self) -> None:
        self._http.stop()
        self._behind.stop()

    async def open(self, *, lane_shards: int = 1, holds_clock: bool = True) -> HttpProbe:
        inner = await self._behind.open(lane_shards=lane_shards, holds_clock=holds_clock)
        return await HttpProbe.connect(inner, self._http)


STORE = HttpStore

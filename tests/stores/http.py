"""The embedded server behind a server of ours: every call of a port is a request over a socket of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from flowfabric.backends.http.backend import HttpBackend
from flowfabric.config import Settings
from tests.http_server import HttpServer
from tests.stores.embedded import EmbeddedStore
from tests.valkey.probe import ValkeyProbe


class HttpProbe(ValkeyProbe):
    """The ports go through the server; the look inside goes past it."""

    server: HttpServer

    async def connect(self, server: HttpServer) -> None:
        self.server = server
        await server.begin(self._opened.partitions)
        self.backend = await self.another()

    async def another(self) -> HttpBackend:
        return await HttpBackend.open(Settings(url=self.server.url))

    async def close(self) -> None:
        await self.backend.close()
        await super().close()


class HttpStore(EmbeddedStore):
    name = "http"
    lacks: ClassVar[Mapping[str, str]] = {
        "chosen_namespaces": "the server knows the namespaces of a token; a client cannot choose them",
        "ends_waits": "a wait of a closed client ends with an error of the HTTP library",
        "own_process": "the ports work in the server's process",
    }

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._http = HttpServer(self.url)

    def stop(self) -> None:
        self._http.stop()
        super().stop()

    async def open(self, *, lane_shards: int = 1, holds_clock: bool = True) -> HttpProbe:
        inner = await super().open(lane_shards=lane_shards, holds_clock=holds_clock)
        probe = HttpProbe(self.url, inner.backend, inner.clock)
        await probe.connect(self._http)
        return probe


STORE = HttpStore

"""A server for tests, in a thread of its own: started once for a store, and used by many tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvicorn

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.config import Settings
from flowfabric.core.partition import PartitionConfig
from flowfabric.server.app import create_app
from flowfabric.server.http.listener import config_of
from flowfabric.server.settings import ServerSettings

T = TypeVar("T")


class HttpServer:
    """Listens on a free port of this machine until the process ends or `stop` is called."""

    def __init__(self, store_url: str, settings: ServerSettings | None = None, *, manual_clock: bool = True) -> None:
        self._store_url = store_url
        self._settings = settings or ServerSettings()
        self._library = bundle(manual_clock=manual_clock)
        self._ready = threading.Event()
        self.backend: ValkeyBackend
        self.url = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30), "the server did not start"

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.backend = await ValkeyBackend.open(Settings(url=self._store_url), self._library)
        app = create_app(self.backend, self._settings)
        config = config_of(app, self._settings)
        config.port = 0
        self._server = uvicorn.Server(config)
        serving = asyncio.create_task(self._server.serve())
        while not self._server.started:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.001)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        self._ready.set()
        await serving
        await self.backend.close()

    def call(self, call: Coroutine[Any, Any, T]) -> T:
        """Run it where the server's store lives."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(30)

    async def begin(self, partitions: PartitionConfig) -> None:
        """Be as new for a test: what the server read of a store that was emptied since is no place to go on from."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.begin_here(partitions), self._loop))

    async def begin_here(self, partitions: PartitionConfig) -> None:
        """The same where the server's store lives."""
        backend = self.backend
        await backend._announcements.close()
        await backend._frame_tails.close()
        await backend._tail.close()
        ValkeyBackend.__init__(backend, backend._client, backend._library, partitions, backend._address)

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)


_servers: dict[str, HttpServer] = {}


def server_of(store_url: str) -> HttpServer:
    """The one in front of this store."""
    if store_url not in _servers:
        _servers[store_url] = HttpServer(store_url)
    return _servers[store_url]


def stop_servers() -> None:
    while _servers:
        _servers.popitem()[1].stop()

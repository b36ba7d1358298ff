"""Listening for requests inside a process that has other things to do, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from flowfabric.backends.ports import EngineBackend
from flowfabric.engine import Engine
from flowfabric.errors import InvalidInput
from flowfabric.server.app import create_app
from flowfabric.server.service import Service
from flowfabric.server.settings import ServerSettings

# How long a connection may be idle. Clients and proxies let go sooner, so none sends into one that is being closed.
_IDLE_S: Final = 75


class _Server(uvicorn.Server):
    """One that leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(
    backend: EngineBackend, settings: ServerSettings, *, engine: Engine | None = None
) -> AsyncIterator[str]:
    """Serve for the length of the block; gives the address. In the end streams are ended, and calls may finish."""
    app = create_app(backend, settings, engine=engine)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        log_level="warning",  # who runs it tells that it runs
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=max(1, settings.stop_grace_ms // 1000),
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    await _started(server, serving, settings)
    try:
        yield _address(server, settings)
    finally:
        service: Service = app.state.service
        service.stopping.set()
        server.should_exit = True
        await serving


async def _started(server: uvicorn.Server, serving: asyncio.Task[None], settings: ServerSettings) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise InvalidInput("port", settings.port, f"cannot be listened on at {settings.host}; choose another one")
        await asyncio.sleep(0.01)


def _address(server: uvicorn.Server, settings: ServerSettings) -> str:
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"

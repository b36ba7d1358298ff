"""Serve HTTP inside a process that also does other work."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from flowfabric.backends.ports import EngineBackend
from flowfabric.engine import Engine
from flowfabric.errors import InvalidInput
from flowfabric.errors.packages import explained

try:
    import uvicorn
    from starlette.applications import Starlette

    from flowfabric.server.http.connection import Connection
except ModuleNotFoundError as error:
    raise explained(error) from None

from flowfabric.server.app import create_app
from flowfabric.server.http.connections import Connections
from flowfabric.server.service import Service
from flowfabric.server.settings import ServerSettings


class _Server(uvicorn.Server):
    """A server that leaves signal handling to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(
    backend: EngineBackend, settings: ServerSettings, *, engine: Engine | None = None
) -> AsyncIterator[str]:
    """Serve during the block; yields the address. At its end streams are closed, and calls may finish."""
    app = create_app(backend, settings, engine=engine)
    bound = _bound(settings)
    server = _Server(config_of(app, settings))
    serving = asyncio.create_task(server.serve([bound]))
    await _started(server, serving)
    try:
        yield _address(bound, settings)
    finally:
        service: Service = app.state.service
        service.stopping.set()
        server.should_exit = True
        await serving


def config_of(app: Starlette, settings: ServerSettings) -> uvicorn.Config:
    """The uvicorn settings: bounded connections, and no client input in the log."""
    connection: Any = partial(Connection, connections=Connections(settings))
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_config=None,
        log_level="error",  # the caller announces that the server runs
        access_log=False,
        server_header=False,
        proxy_headers=False,  # peers.py trusts the configured proxies
        timeout_keep_alive=settings.idle_timeout_ms // 1000,
        timeout_graceful_shutdown=max(1, settings.stop_grace_ms // 1000),
    )


def _bound(settings: ServerSettings) -> socket.socket:
    """Bind before anything runs: a port in use is an error message, not a crash."""
    place = (settings.host, settings.port)
    try:
        family, *_, address = min(socket.getaddrinfo(*place, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
        # asyncio sets TCP_NODELAY only on sockets that name the protocol; without it, a response's body waits 40 ms.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
        except OSError:
            found.close()
            raise
    except OSError as error:
        problem = f"cannot be listened on ({error.strerror}); choose another one, or 0 for a free one"
        raise InvalidInput("port", f"{settings.host}:{settings.port}", problem) from None
    return found


async def _started(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise RuntimeError("the server ended before it had started")
        await asyncio.sleep(0.01)


def _address(bound: socket.socket, settings: ServerSettings) -> str:
    port = bound.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"

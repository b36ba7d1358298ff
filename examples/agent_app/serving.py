"""Serve the web app inside a process that also does other work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the process handles them


@asynccontextmanager
async def serving(app: Starlette, port: int = 0) -> AsyncIterator[str]:
    """Yields the address; port 0 takes a free one."""
    server = _Server(uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:
            if running.done():
                raise SystemExit(f"port {port} is in use; choose another one with --port")
            await asyncio.sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await asyncio.gather(running, return_exceptions=True)

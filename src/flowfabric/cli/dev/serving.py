"""Serve the API and the dashboard of `dev`."""

from __future__ import annotations

import importlib.util
import socket
from contextlib import AsyncExitStack
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.cli.show.output import Output
from flowfabric.errors.packages import EXTRAS

_PACKAGES: Final = tuple(package for package, extra in EXTRAS.items() if extra == "server")
_HOST: Final = "127.0.0.1"
_PORT: Final = 9090


async def serve(stack: AsyncExitStack, backend: EngineBackend, port: int | None, out: Output) -> str | None:
    """Serve until the stack closes, and return the URL. Without the server's packages, say so and return None."""
    if not all(importlib.util.find_spec(each) for each in _PACKAGES):
        out.event("server", "the dashboard needs: pip install 'flowfabric[server]'")
        return None
    from flowfabric.server.http.listener import listening  # noqa: PLC0415 - its packages may be missing
    from flowfabric.server.settings import ServerSettings  # noqa: PLC0415

    settings = ServerSettings(port=_usual_port() if port is None else port, stop_grace_ms=0)
    url = await stack.enter_async_context(listening(backend, settings))
    out.event("server", f"dashboard at {url}, API at {url}/v1", url=url)
    return url


def _usual_port() -> int:
    """The default port, or 0 for any when it is in use, perhaps by another `dev`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, _PORT))
        except OSError:
            return 0
    return _PORT

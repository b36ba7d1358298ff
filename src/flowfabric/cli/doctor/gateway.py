"""Checks of a FlowFabric server: reachable, same version, ready."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from flowfabric import __version__
from flowfabric.cli.doctor.checks import Check, fail, ok, warn
from flowfabric.cli.parsing import span_text
from flowfabric.cli.running import place_of
from flowfabric.config import Settings
from flowfabric.core.ids import LaneId
from flowfabric.errors import FlowFabricError
from flowfabric.server.settings import is_loopback

if TYPE_CHECKING:
    from flowfabric.backends.http.backend import HttpBackend

_CALLS: Final = 10
_SLOW_MS: Final = 50.0


async def check_gateway(settings: Settings) -> list[Check]:
    """Check the server; raises FlowFabricError when it is unreachable or refuses access."""
    from flowfabric.backends.http.backend import HttpBackend  # noqa: PLC0415 - other stores need no HTTP client

    backend = await HttpBackend.open(settings)
    try:
        return [await _connection(backend, settings), _version(backend), _secrecy(settings), await _ready(backend)]
    finally:
        await backend.close()


async def _connection(backend: HttpBackend, settings: Settings) -> Check:
    times = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        await backend.describe_lane(LaneId("default"))
        times.append((time.perf_counter() - began) * 1000)
    middle = statistics.median(times)
    found = f"{place_of(settings)}, a call takes {span_text(middle)}"
    if middle > _SLOW_MS:
        return warn(
            "connection", found, "move workers and clients closer to the server, or the server closer to its store"
        )
    return ok("connection", found)


def _version(backend: HttpBackend) -> Check:
    if backend.version != __version__:
        return warn(
            "server", f"FlowFabric {backend.version}, this program is {__version__}", "use the same on both sides"
        )
    return ok("server", f"FlowFabric {backend.version}")


def _secrecy(settings: Settings) -> Check:
    """Tokens and payloads must be encrypted on the network."""
    url = urlsplit(settings.url)
    if url.scheme == "https" or is_loopback(url.hostname or ""):
        return ok("secrecy", "the connection is encrypted, or local")
    return warn("secrecy", "http:// is not encrypted", "put TLS in front of the server and use https://")


async def _ready(backend: HttpBackend) -> Check:
    try:
        await backend.ready()
    except FlowFabricError as error:
        return fail("ready", str(error), "check the server's log and its store")
    return ok("ready", "it can claim and write")

"""Choose the client for an address; nothing else knows which client serves which URL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flowfabric.backends.valkey.wire.client import Client, StandaloneClient
from flowfabric.backends.valkey.wire.cluster import ClusterClient
from flowfabric.backends.valkey.wire.url import ServerAddress, parse_url
from flowfabric.config import Settings


async def open_client(settings: Settings) -> Client:
    """A client for settings.url. Connects lazily, but starts an embedded server before it returns."""
    address = parse_url(settings.url)
    if address.kind == "embedded":
        return await _open_embedded(address, settings)
    if address.kind == "cluster":
        return ClusterClient(address, settings)
    return StandaloneClient(address, settings)


async def _open_embedded(address: ServerAddress, settings: Settings) -> Client:
    # Needs Unix file locks; the other clients must work without them.
    from flowfabric.backends.valkey.embedded.server import EmbeddedServer  # noqa: PLC0415

    server = await EmbeddedServer.join(address.directory)
    place = replace(address, kind="standalone", unix_path=str(server.socket_path), directory=Path(server.directory))
    return StandaloneClient(place, settings, before_connect=server.ensure_running, after_close=server.leave)

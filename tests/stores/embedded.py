"""The server that comes with the package, in a directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from tests.valkey.probe import ValkeyStore


class EmbeddedStore(ValkeyStore):
    name = "embedded"

    def start(self, directory: Path) -> None:
        place = directory / self.name
        place.mkdir(parents=True)
        self._server = asyncio.run(EmbeddedServer.join(place))
        self.url = f"embedded://{place}"

    def stop(self) -> None:
        asyncio.run(self._server.leave())


STORE = EmbeddedStore

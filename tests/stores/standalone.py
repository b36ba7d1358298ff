"""One server that speaks TCP."""

from __future__ import annotations

from tests.servers import start_standalone
from tests.valkey.started import StartedStore


class StandaloneStore(StartedStore):
    name = "standalone"
    starter = staticmethod(start_standalone)


STORE = StandaloneStore

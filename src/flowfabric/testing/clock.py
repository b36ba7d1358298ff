"""A manual clock: the store's time stands still until the test moves it.

The function library is loaded with another clock module; the public wire has no such function.
"""

from __future__ import annotations

from dataclasses import replace

from flowfabric.backends.valkey.backend import ValkeyBackend, agree_on_partitions
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.config import Settings
from flowfabric.errors import InvalidInput

_AHEAD_MS = 86_400_000


class ManualClock:
    """The clock of every primary of one test store. It starts one day ahead of the server's time and only goes forward.

    Keys with a TTL expire by the server's clock; one day ahead, none of them expires too early by the manual clock.
    """

    def __init__(self, client: Client, now_ms: int) -> None:
        self._client = client
        self.now_ms = now_ms

    @classmethod
    async def start(cls, client: Client) -> ManualClock:
        seconds, micros = await client.execute("TIME", repeatable=True)  # type: ignore[misc]
        clock = cls(client, 0)
        await clock.set(int(seconds) * 1000 + int(micros) // 1000 + _AHEAD_MS)  # type: ignore[arg-type]
        return clock

    async def set(self, now_ms: int) -> None:
        if now_ms < self.now_ms:
            raise InvalidInput("now_ms", now_ms, f"the clock shows {self.now_ms} and only goes forward")
        for node in await self._client.primaries():
            await node.execute("FCALL", "ff_test_clock", 0, now_ms)
        self.now_ms = now_ms

    async def advance(self, ms: int) -> None:
        await self.set(self.now_ms + ms)


async def open_test_backend(
    url: str = "embedded://", settings: Settings | None = None, *, empty: bool = False
) -> tuple[ValkeyBackend, ManualClock]:
    """A test store and its manual clock. With `empty` everything in the store is deleted first."""
    wanted = replace(settings or Settings(), url=url, force_library_load=True)
    backend = await ValkeyBackend.open(wanted, bundle(manual_clock=True))
    try:
        if empty:
            await backend.client.execute_on_primaries("FLUSHALL")
            backend.partitions = await agree_on_partitions(backend.client, wanted)
        clock = await ManualClock.start(backend.client)
    except BaseException:
        await backend.close()
        raise
    return backend, clock

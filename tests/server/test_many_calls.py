"""One client that asks a lot at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from flowfabric import Fabric
from flowfabric.backends.http.backend import HttpBackend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.config import Settings
from flowfabric.core.states import PublicState
from flowfabric.server.http.connection import Connection
from tests.server.serving import serving


@pytest.fixture
def topology() -> str:
    return "embedded"


async def test_those_who_wait_hold_up_no_call(backend: ValkeyBackend) -> None:
    async with serving(backend, stop_grace_ms=0) as served:
        remote = cast("Any", await HttpBackend.open(Settings(url=served.url)))
        handle = await Fabric(remote).submit("greet")
        async with asyncio.timeout(60):
            waiting = [asyncio.create_task(remote.wait_for_execution(handle.id, timeout_ms=60_000)) for _ in range(100)]
            await asyncio.gather(*(handle.describe() for _ in range(100)))
            await handle.cancel()
            assert set(await asyncio.gather(*waiting)) == {PublicState.CANCELLED}
        await remote.close()


async def test_a_response_is_sent_without_waiting_for_an_acknowledgement(
    backend: ValkeyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[asyncio.Transport] = []
    connection_made = Connection.connection_made

    def remembered(self: Connection, transport: asyncio.Transport) -> None:
        made.append(transport)
        connection_made(self, transport)

    monkeypatch.setattr(Connection, "connection_made", remembered)
    async with serving(backend) as served:
        remote = cast("Any", await HttpBackend.open(Settings(url=served.url)))
        await Fabric(remote).submit("greet")
        sockets = [transport.get_extra_info("socket") for transport in made]
        assert sockets
        assert all(each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets)
        await remote.close()

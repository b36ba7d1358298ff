"""The same ports through a server: every call is a request over a socket of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from flowfabric.backends.http.backend import HttpBackend
from flowfabric.backends.http.operations import BY_PORT
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.listen.frame_tail import FrameTails
from flowfabric.config import Settings
from tests.http_server import server_of

# Tests that look into the process that has the connections to the store, which is the server's here.
LOCAL_ONLY = {
    "test_parked_": "claims are not parked over HTTP",
    "test_flow_crash.py": "it starts processes of its own, on a store",
    "test_lost_slots.py": "it breaks calls in the middle",
    "test_a_lost_answer_to_an_offer_costs_no_slot": "it breaks a call in the middle",
    "test_a_replay_and_a_deletion_agree_on_who_was_first": "both go out in one write",
    "test_one_that_has_ended_is_answered_without_a_connection": "it counts connections to the store",
    "test_many_who_wait_share_one_read": "it counts connections to the store",
    "test_a_wait_survives_the_loss_of_its_connection": "it cuts connections to the store",
}


def is_local_only(node_id: str) -> bool:
    return any(name in node_id for name in LOCAL_ONLY)


class OverHttp(ValkeyBackend):
    """A store of our own, for tests that look into it, whose ports go through a server in front of it."""

    _remote: asyncio.Task[HttpBackend] | None = None

    async def remote(self) -> HttpBackend:
        """Opened once, when it is first asked for: by then the test has said how the store is partitioned."""
        if self._remote is None:
            self._remote = asyncio.create_task(self._open_remote())
        return await asyncio.shield(self._remote)

    async def _open_remote(self) -> HttpBackend:
        server = server_of(str(self._address))
        await server.begin(self.partitions)
        return await HttpBackend.open(Settings(url=server.url))

    async def close(self) -> None:
        if self._remote is not None:
            await (await self._remote).close()
        await super().close()


def frame_tails(backend: ValkeyBackend) -> FrameTails:
    """What follows streams for this backend: the server's, when there is one in between."""
    return (
        server_of(str(backend._address)).backend._frame_tails if isinstance(backend, OverHttp) else backend._frame_tails
    )


def _through(name: str) -> Callable[..., Awaitable[Any]]:
    async def port(self: OverHttp, *args: Any, **kwargs: Any) -> Any:
        return await getattr(await self.remote(), name)(*args, **kwargs)

    return port


def _streamed(name: str) -> Callable[..., Any]:
    async def port(self: OverHttp, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for each in getattr(await self.remote(), name)(*args, **kwargs):
            yield each

    return port


def _entered(name: str) -> Callable[..., Any]:
    @asynccontextmanager
    async def port(self: OverHttp, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with getattr(await self.remote(), name)(*args, **kwargs) as entered:
            yield entered

    return port


for _name in BY_PORT:
    setattr(OverHttp, _name, _through(_name))
for _name in ("tail_events", "tail_flow_events"):
    setattr(OverHttp, _name, _streamed(_name))
for _name in ("follow_attempt_stream", "listen_for_work", "listen_for_budgets"):
    setattr(OverHttp, _name, _entered(_name))

"""How listeners for work share a subscription, and what they survive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.wire.cluster import key_slot
from flowfabric.config import Settings
from flowfabric.core.ids import LaneId
from flowfabric.errors import BackendUnavailable
from tests.conformance.driver import LANE
from tests.conformance.lanes.test_wakeups import OTHER, at, heard, until
from tests.servers import kill9, start_standalone, start_three_node_cluster
from tests.valkey.driver import Driver
from tests.valkey.probe import probe_of

LANES = [LaneId(name) for name in ("a", "b", "c", "d", "e", "f", "g", "h")]


ACL_PAGE = Path(__file__).parents[3] / "docs/howto/secure.md"


@asynccontextmanager
async def listening(backend: ValkeyBackend, *lanes: LaneId, capabilities: tuple[str, ...] = ()) -> AsyncIterator[Any]:
    """A listener that has looked everywhere once, as everybody must."""
    async with backend.listen_for_work(lanes or (LANE,), capabilities) as listener:
        assert await heard(listener) == frozenset()
        yield listener


async def subscriptions(backend: ValkeyBackend) -> list[tuple[int, int]]:
    """Node and number of channels of each subscribed connection."""
    found = []
    for node_at, node in enumerate(await backend.client.primaries()):
        listed = await node.execute("CLIENT", "LIST", "TYPE", "pubsub")
        assert isinstance(listed, bytes)
        clients = [dict(pair.split("=", 1) for pair in line.split()) for line in listed.decode().splitlines()]
        found += [(node_at, int(each["sub"])) for each in clients]
    return found


async def until_subscribed(backend: ValkeyBackend, channels: list[int]) -> None:
    async with asyncio.timeout(20):
        while [count for _, count in await subscriptions(backend)] != channels:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


async def test_all_listeners_share_one_connection_and_unsubscribe_when_they_leave(driver: Driver) -> None:
    backend = driver.backend
    async with listening(backend, LANE):
        async with listening(backend, LANE, OTHER), listening(backend, OTHER):
            await until_subscribed(backend, [2])
        await until_subscribed(backend, [1])
        async with listening(backend, OTHER) as listener:
            await driver.create(lane_id=OTHER)
            assert await heard(listener) == {at(driver, OTHER)}
    await until_subscribed(backend, [])
    async with listening(backend):
        await until_subscribed(backend, [1])


async def test_what_others_write_on_the_channel_is_ignored(driver: Driver) -> None:
    async with listening(driver.backend) as listener:
        for text in ("", "hello", "{fp:x}", "{fp:1} \xff", b"\xff\xfe"):
            await driver.backend.client.execute("PUBLISH", "ff:wake:default", text)
        await driver.create()
        assert at(driver) in await until(listener, at(driver))


async def test_listeners_survive_a_killed_server(tmp_path: Path) -> None:
    backend = await ValkeyBackend.open(Settings(url=f"embedded://{tmp_path}"), bundle(manual_clock=True))
    driver = Driver(await probe_of(backend))
    async with listening(backend) as listener:
        pid = int((await backend.client.execute("INFO", "server")).split(b"process_id:")[1].split()[0])  # type: ignore[union-attr]
        await asyncio.to_thread(kill9, pid)
        assert await heard(listener) == frozenset()
        await driver.create()
        assert await heard(listener) == {at(driver)}
    await backend.close()


async def test_listeners_survive_the_node_they_listen_to() -> None:
    """Any node will do for listening; the work of the others goes on."""
    with start_three_node_cluster("--cluster-require-full-coverage", "no") as cluster:
        backend = await ValkeyBackend.open(Settings(url=cluster.url, lane_shards=1), bundle(manual_clock=True))
        driver = Driver(await probe_of(backend))
        async with listening(backend, *LANES) as listener:
            (node,) = [node for node in cluster.nodes if node.call("PUBSUB", "CHANNELS", "ff:wake:*")]
            lane = next(lane for lane in LANES if cluster.owner(key_slot(at(driver, lane)[1].tag)) is not node)
            node.kill()
            assert await heard(listener) == frozenset()
            await driver.create(lane_id=lane)
            assert await until(listener, at(driver, lane)) >= {at(driver, lane)}
        await backend.close()


async def test_the_documented_rights_are_enough_and_fewer_are_told_at_once() -> None:
    rules = next(line for line in ACL_PAGE.read_text().splitlines() if line.startswith("ACL SETUSER operator"))
    with start_standalone() as server:
        for user, more in (("operator", ()), ("deaf", ("resetchannels",))):
            server.call("ACL", "SETUSER", user, *rules.split()[3:], *more)
        url = f"{server.host}:{server.port}"
        backend = await ValkeyBackend.open(Settings(url=f"valkey://operator:secret@{url}"))
        async with listening(backend):
            pass
        await backend.close()
        deaf = await ValkeyBackend.open(Settings(url=f"valkey://deaf:secret@{url}"))
        with pytest.raises(BackendUnavailable, match="channel"):
            async with deaf.listen_for_work([LANE]):
                pass
        await deaf.close()

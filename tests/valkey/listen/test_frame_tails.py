"""How followers of streams share connections to the store, and what they survive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.listen.frame_tail import FrameTails
from flowfabric.backends.valkey.wire.cluster import key_slot
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import LaneId
from flowfabric.errors import Limited
from tests.conformance.driver import Subject
from tests.conformance.streaming import append_many, many, running
from tests.conformance.streams.test_stream_tails import everything, follow_args, following, tailing
from tests.servers import eventually_async, kill9, start_replica, start_three_node_cluster
from tests.valkey.driver import Driver
from tests.valkey.probe import blocked_reads, probe_of

LANES = [LaneId(name) for name in ("a", "b", "c", "d", "e")]


async def until_reading(driver: Driver) -> None:
    """Until the server waits with a read of streams."""
    await eventually_async(lambda: driver.backend._frame_tails.connections > 0, "it reads")
    async with asyncio.timeout(20):
        while not await blocked_reads(driver.backend.client):  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)


async def test_followers_survive_a_killed_server(tmp_path: Path) -> None:
    backend = await ValkeyBackend.open(Settings(url=f"embedded://{tmp_path}"), bundle(manual_clock=True))
    driver = Driver(await probe_of(backend))
    x = await running(driver)
    await driver.append(x, b"before")
    async with following(driver, x) as follower:
        reading = asyncio.create_task(everything(follower))
        await until_reading(driver)
        pid = int((await backend.client.execute("INFO", "server")).split(b"process_id:")[1].split()[0])  # type: ignore[union-attr]
        await asyncio.to_thread(kill9, pid)
        await append_many(driver, many(x, 0, b"after"))
        await driver.complete(x)
        assert await reading == [b"before", b"after"]
    await backend.close()


async def test_followers_survive_a_failover() -> None:
    with start_three_node_cluster() as cluster:
        backend = await ValkeyBackend.open(Settings(url=cluster.url), bundle(manual_clock=True))
        driver = Driver(await probe_of(backend))
        x = await running(driver)
        await driver.append(x, b"before")
        primary = cluster.owner(key_slot(keys.stream(x.execution_id, 0)))
        with start_replica(cluster, primary) as replica:
            async with following(driver, x) as follower:
                reading = asyncio.create_task(everything(follower))
                await until_reading(driver)
                replica.call("CLUSTER", "FAILOVER")
                await eventually_async(lambda: replica.call("ROLE")[0] == b"master", "the replica has taken over")
                await append_many(driver, many(x, 0, b"after"))
                await driver.complete(x)
                assert await reading == [b"before", b"after"]
        await backend.close()


class TestTail:
    async def test_who_gives_up_leaves_nothing_behind(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x)
        task = tailing(driver, x, after=StreamCursor(f"{driver.clock.now_ms}-9"))
        await until_reading(driver)
        task.cancel()
        await asyncio.wait([task])
        await eventually_async(lambda: not driver.backend._frame_tails._followed, "nobody follows")


class TestManyAtOnce:
    async def test_many_attempts_are_read_together(self, driver: Driver) -> None:
        subjects = [await running(driver, lane_id=lane) for lane in LANES for _ in range(10)]

        async def watch(x: Subject) -> list[bytes]:
            async with following(driver, x) as follower:
                return await everything(follower)

        tasks = [asyncio.create_task(watch(x)) for x in subjects for _ in range(2)]
        await until_reading(driver)
        for round_ in range(5):
            batch = [many(x, 2 * round_, b"%d" % round_, b"+") for x in subjects]
            assert all(isinstance(each, c.FramesAppended) for each in await driver.backend.append_frames(batch))
        most = 1 if driver.backend.client.topology == "standalone" else len(LANES)
        assert driver.backend._frame_tails.connections <= most
        for x in subjects:
            await driver.complete(x)
        expected = [b"0", b"+", b"1", b"+", b"2", b"+", b"3", b"+", b"4", b"+"]
        assert all(seen == expected for seen in await asyncio.gather(*tasks))

    async def test_few_connections_serve_more_partitions_by_turns(self, driver: Driver) -> None:
        backend = driver.backend
        tails = FrameTails(backend.client, backend._tail, connections=2)
        subjects = [await running(driver, lane_id=lane) for lane in LANES]

        async def watch(x: Subject) -> list[bytes]:
            async with tails.follow(follow_args(x), backend._read_after) as follower:
                return await everything(follower)

        tasks = [asyncio.create_task(watch(x)) for x in subjects]
        await eventually_async(lambda: tails.connections > 0, "they read")
        for x in reversed(subjects):
            await driver.append(x, b"a")
            assert tails.connections <= 2
            await driver.complete(x)
        assert await asyncio.gather(*tasks) == [[b"a"]] * len(LANES)
        await tails.close()

    async def test_beyond_the_limit_another_stream_is_refused(self, driver: Driver) -> None:
        backend = driver.backend
        tails = FrameTails(backend.client, backend._tail, most=1)
        x, other = await running(driver), await running(driver)
        async with tails.follow(follow_args(x), backend._read_after), tails.follow(follow_args(x), backend._read_after):
            with pytest.raises(Limited) as caught:
                async with tails.follow(follow_args(other), backend._read_after):
                    pass
            assert (caught.value.code, caught.value.retryable) == ("tail_limit_exceeded", True)
        async with tails.follow(follow_args(other), backend._read_after):
            pass
        await tails.close()


class TestTrouble:
    async def test_the_reading_stops_when_nobody_follows(self, driver: Driver) -> None:
        backend = driver.backend
        tails = FrameTails(backend.client, backend._tail, block_ms=20)
        x = await running(driver)
        await driver.append(x)
        async with tails.follow(follow_args(x), backend._read_after) as follower:
            reading = asyncio.create_task(everything(follower))
            await eventually_async(lambda: tails.connections == 1, "it reads")
            reading.cancel()
        await eventually_async(lambda: tails.connections == 0, "it has stopped")

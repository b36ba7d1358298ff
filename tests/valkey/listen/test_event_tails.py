"""How waits share connections to the store, and what they survive."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.listen.event_tail import EventTail
from flowfabric.backends.valkey.wire.cluster import key_slot
from flowfabric.config import Settings
from flowfabric.core.ids import LaneId
from flowfabric.core.states import PublicState
from tests.conformance.driver import Subject
from tests.servers import eventually_async, kill9, start_replica, start_three_node_cluster
from tests.valkey.driver import Driver
from tests.valkey.probe import blocked_reads, probe_of

LONG = 60_000  # never waited out: a test that gets there has failed


# Sooner than a blocking read ends by itself: whoever is woken within it was not woken by its end.
PROMPT = 900


# Lanes of different partitions.
LANES = [LaneId(name) for name in ("a", "b", "c", "d", "e")]


def waiting(driver: Driver, x: Subject, timeout_ms: int = LONG) -> asyncio.Task[PublicState | None]:
    return asyncio.create_task(driver.backend.wait_for_execution(x.execution_id, timeout_ms=timeout_ms))


async def until_blocked(backend: ValkeyBackend, count: int = 1) -> None:
    async with asyncio.timeout(20):
        while len(await blocked_reads(backend.client)) != count:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)


async def test_one_that_has_ended_is_answered_without_a_connection(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x)
    others = set(await blocked_reads(driver.backend.client))  # those of the test before may not have ended yet
    assert await driver.backend.wait_for_execution(x.execution_id, timeout_ms=0) is PublicState.COMPLETED
    assert await driver.backend.wait_for_execution(x.execution_id, timeout_ms=LONG) is PublicState.COMPLETED
    assert set(await blocked_reads(driver.backend.client)) <= others


async def test_many_who_wait_share_one_read(driver: Driver) -> None:
    subjects = [await driver.run(await driver.create()) for _ in range(50)]
    tasks = [waiting(driver, x) for x in subjects for _ in range(20)]
    await until_blocked(driver.backend)
    for x in subjects:
        await driver.complete(x)
    assert set(await asyncio.gather(*tasks)) == {PublicState.COMPLETED}


async def test_waits_in_several_partitions_end_promptly_whenever_they_began(driver: Driver) -> None:
    subjects = [await driver.create(lane_id=lane) for lane in LANES]
    first = waiting(driver, subjects[0])
    await until_blocked(driver.backend)
    rest = [waiting(driver, x, PROMPT) for x in subjects[1:]]
    await until_blocked(driver.backend, 1 if driver.backend.client.topology == "standalone" else len(LANES))
    for x in reversed(subjects):
        await driver.cancel(x)
    assert set(await asyncio.gather(first, *rest)) == {PublicState.CANCELLED}


async def test_a_wait_survives_the_loss_of_the_function_library(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    task = waiting(driver, x)
    await until_blocked(driver.backend)
    await driver.backend.client.execute_on_primaries("FUNCTION", "FLUSH")
    await driver.complete(x)
    assert await task is PublicState.COMPLETED


async def test_the_reading_stops_when_nobody_waits(driver: Driver) -> None:
    tail = EventTail(driver.backend.client, block_ms=20)
    x = await driver.create()
    async with tail.listen(x.execution_id):
        await eventually_async(lambda: tail.connections == 1, "it reads")
    await eventually_async(lambda: tail.connections == 0, "it has stopped")
    async with tail.listen(x.execution_id):
        await eventually_async(lambda: tail.connections == 1, "it reads again")
    await tail.close()


async def test_more_logs_than_connections_take_turns(driver: Driver) -> None:
    tail = EventTail(driver.backend.client, connections=2)
    subjects = [await driver.create(lane_id=lane) for lane in LANES]
    listening = asyncio.Barrier(len(LANES) + 1)

    async def ending(x: Subject) -> PublicState | None:
        async with tail.listen(x.execution_id, endings_only=True) as listener:
            listener.clear()
            await listening.wait()
            await listener.wait()
            assert tail.connections <= 2
            return listener.ended

    tasks = [asyncio.create_task(ending(x)) for x in subjects]
    await listening.wait()
    for x in subjects:
        await driver.cancel(x)
    assert await asyncio.gather(*tasks) == [PublicState.CANCELLED] * len(LANES)
    await tail.close()


async def test_a_wait_survives_a_killed_server(tmp_path: Path) -> None:
    backend = await ValkeyBackend.open(Settings(url=f"embedded://{tmp_path}"), bundle(manual_clock=True))
    driver = Driver(await probe_of(backend))
    x = await driver.create()
    task = waiting(driver, x)
    await until_blocked(backend)
    pid = int((await backend.client.execute("INFO", "server")).split(b"process_id:")[1].split()[0])  # type: ignore[union-attr]
    await asyncio.to_thread(kill9, pid)
    await driver.cancel(x)
    assert await task is PublicState.CANCELLED
    await backend.close()


async def test_a_wait_survives_a_failover() -> None:
    with start_three_node_cluster() as cluster:
        backend = await ValkeyBackend.open(Settings(url=cluster.url), bundle(manual_clock=True))
        driver = Driver(await probe_of(backend))
        x = await driver.create()
        primary = cluster.owner(key_slot(keys.events(x.execution_id.tag)))
        with start_replica(cluster, primary) as replica:
            task = waiting(driver, x)
            await until_blocked(backend)
            replica.call("CLUSTER", "FAILOVER")
            await eventually_async(lambda: replica.call("ROLE")[0] == b"master", "the replica has taken over")
            await driver.cancel(x)
            assert await task is PublicState.CANCELLED
        await backend.close()

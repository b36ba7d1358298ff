"""wait_for_execution and tail_events: woken by the log, on few connections, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.listen.event_tail import EventTail
from flowfabric.backends.valkey.wire.cluster import key_slot
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.states import PublicState
from flowfabric.errors import BackendUnavailable, ExecutionNotFound
from flowfabric.testing import ManualClock
from tests.conformance.driver import DEADLINE_IN, Driver, Subject
from tests.servers import eventually_async, kill9, start_replica, start_three_node_cluster

LONG = 60_000  # never waited out: a test that gets there has failed
# Sooner than a blocking read ends by itself: whoever is woken within it was not woken by its end.
PROMPT = 900
# Lanes of different partitions.
LANES = [LaneId(name) for name in ("a", "b", "c", "d", "e")]


def waiting(driver: Driver, x: Subject, timeout_ms: int = LONG) -> asyncio.Task[PublicState | None]:
    return asyncio.create_task(driver.backend.wait_for_execution(x.execution_id, timeout_ms=timeout_ms))


async def blocked_reads(backend: ValkeyBackend) -> list[tuple[int, int]]:
    """Node and client id of every blocking read."""
    found = []
    for at, node in enumerate(await backend.client.primaries()):
        listed = await node.execute("CLIENT", "LIST", "TYPE", "normal")
        assert isinstance(listed, bytes)
        clients = [dict(pair.split("=", 1) for pair in line.split()) for line in listed.decode().splitlines()]
        found += [(at, int(each["id"])) for each in clients if "b" in each["flags"] and each["cmd"] == "xread"]
    return found


async def until_blocked(backend: ValkeyBackend, count: int = 1) -> None:
    async with asyncio.timeout(20):
        while len(await blocked_reads(backend)) != count:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)


async def expire(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)


ENDINGS: dict[PublicState, Callable[[Driver, Subject], Awaitable[object]]] = {
    PublicState.COMPLETED: Driver.complete,
    PublicState.FAILED: Driver.fail,
    PublicState.CANCELLED: Driver.cancel,
    PublicState.EXPIRED: expire,
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_whoever_waits_learns_how_it_ended(driver: Driver, ending: PublicState) -> None:
    x = await driver.run(await driver.create())
    task = waiting(driver, x)
    await until_blocked(driver.backend)
    await ENDINGS[ending](driver, x)
    assert await task is ending


async def test_one_that_has_ended_is_answered_without_a_connection(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x)
    others = set(await blocked_reads(driver.backend))  # those of the test before may not have ended yet
    assert await driver.backend.wait_for_execution(x.execution_id, timeout_ms=0) is PublicState.COMPLETED
    assert await driver.backend.wait_for_execution(x.execution_id, timeout_ms=LONG) is PublicState.COMPLETED
    assert set(await blocked_reads(driver.backend)) <= others


@pytest.mark.parametrize("timeout_ms", [0, 20])
async def test_a_wait_ends_with_nothing_when_its_time_is_up(driver: Driver, timeout_ms: int) -> None:
    x = await driver.create()
    assert await driver.backend.wait_for_execution(x.execution_id, timeout_ms=timeout_ms) is None


async def test_nobody_waits_for_an_execution_that_does_not_exist(driver: Driver) -> None:
    with pytest.raises(ExecutionNotFound):
        await driver.backend.wait_for_execution(driver.mint(), timeout_ms=LONG)


async def test_a_retry_is_not_an_end(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    task = waiting(driver, x)
    await until_blocked(driver.backend)
    await driver.fail(x, retry=True, retry_delay_ms=0)
    await driver.promote(x)
    await driver.run(x)
    assert not task.done()
    await driver.complete(x)
    assert await task is PublicState.COMPLETED


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


async def test_a_wait_survives_the_loss_of_its_connection(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    task = waiting(driver, x)
    await until_blocked(driver.backend)
    ((node, client_id),) = await blocked_reads(driver.backend)
    await (await driver.backend.client.primaries())[node].execute("CLIENT", "KILL", "ID", client_id)
    await driver.complete(x)  # maybe before the next read, maybe after it: it must not matter
    assert await task is PublicState.COMPLETED


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


async def test_closing_the_store_ends_every_wait(store_url: str) -> None:
    backend = await ValkeyBackend.open(Settings(url=store_url), bundle(manual_clock=True))
    driver = Driver(backend, await ManualClock.start(backend.client))
    task = waiting(driver, await driver.create())
    await until_blocked(backend)
    await backend.close()
    with pytest.raises(BackendUnavailable):
        await task


async def collect(stream: AsyncIterator[c.Event]) -> list[str]:
    return [event.event for event in [each async for each in stream]]


async def test_a_tail_follows_an_execution_to_its_end(driver: Driver) -> None:
    x = await driver.create()
    seen: asyncio.Queue[c.Event] = asyncio.Queue()

    async def follow() -> None:
        async for event in driver.backend.tail_events(x.execution_id):
            await seen.put(event)

    task = asyncio.create_task(follow())
    assert (await seen.get()).event == "created"
    await driver.run(x)
    assert (await seen.get()).event == "claimed"
    await driver.progress(x, progress_pct=40)
    progress = await seen.get()
    assert (progress.event, progress.outcome) == ("progress", "40")
    await driver.complete(x)
    assert (await seen.get()).event == "completed"
    await task


async def test_a_tail_continues_after_the_last_event_seen(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    last = (await driver.backend.history(x.execution_id)).events[-1]
    task = asyncio.create_task(collect(driver.backend.tail_events(x.execution_id, cursor=last.cursor)))
    await until_blocked(driver.backend)
    await driver.progress(x)
    await driver.complete(x)
    assert await task == ["progress", "completed"]


async def test_a_tail_ends_with_an_execution_that_ends_while_its_log_is_read(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = await driver.run(await driver.create())
    read_events = driver.backend.read_events

    async def end_before_reading(args: c.ReadEventsArgs) -> c.EventPage:
        if await driver.backend.get_execution_state(x.execution_id) is PublicState.ACTIVE:
            await driver.complete(x)
        return await read_events(args)

    monkeypatch.setattr(driver.backend, "read_events", end_before_reading)
    async with asyncio.timeout(10):
        assert await collect(driver.backend.tail_events(x.execution_id)) == ["created", "claimed", "completed"]


async def test_the_tail_of_a_finished_execution_is_its_history(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x)
    assert await collect(driver.backend.tail_events(x.execution_id)) == ["created", "claimed", "completed"]


async def test_a_wait_survives_a_killed_server(tmp_path: Path) -> None:
    backend = await ValkeyBackend.open(Settings(url=f"embedded://{tmp_path}"), bundle(manual_clock=True))
    driver = Driver(backend, await ManualClock.start(backend.client))
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
        driver = Driver(backend, await ManualClock.start(backend.client))
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

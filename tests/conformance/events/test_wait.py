"""wait_for_execution and tail_events: woken by the log, on few connections, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.states import PublicState
from flowfabric.errors import BackendUnavailable, ExecutionNotFound
from tests.conformance.driver import DEADLINE_IN, Driver, Subject

pytestmark = pytest.mark.every_store

LONG = 60_000  # never waited out: a test that gets there has failed


def waiting(driver: Driver, x: Subject, timeout_ms: int = LONG) -> asyncio.Task[PublicState | None]:
    return asyncio.create_task(driver.backend.wait_for_execution(x.execution_id, timeout_ms=timeout_ms))


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
    await driver.probe.until_waiting()
    await ENDINGS[ending](driver, x)
    assert await task is ending


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
    await driver.probe.until_waiting()
    await driver.fail(x, retry=True, retry_delay_ms=0)
    await driver.promote(x)
    await driver.run(x)
    assert not task.done()
    await driver.complete(x)
    assert await task is PublicState.COMPLETED


async def test_a_wait_survives_the_loss_of_its_connection(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    task = waiting(driver, x)
    await driver.probe.until_waiting()
    await driver.probe.cut()
    await driver.complete(x)  # maybe before the next read, maybe after it: it must not matter
    assert await task is PublicState.COMPLETED


async def test_closing_the_store_ends_every_wait(driver: Driver) -> None:
    other = Driver(driver.probe, await driver.probe.another())
    task = waiting(other, await driver.create())
    await driver.probe.until_waiting()
    await other.backend.close()
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
    await driver.probe.until_waiting()
    await driver.progress(x)
    await driver.complete(x)
    assert await task == ["progress", "completed"]


@pytest.mark.needs("own_process")
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

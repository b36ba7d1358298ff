"""Short timers are announced to whoever keeps the time; long ones are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from flowfabric.backends.ports.upkeep import DueListener, DueSoon
from flowfabric.core import contracts as c
from flowfabric.core.ids import Namespace
from flowfabric.core.policy import FixedBackoff, RetryPolicy, retry_policy_to_json
from tests.conformance.driver import LANE, Driver, Subject, home
from tests.conformance.suspending import Suspender

pytestmark = pytest.mark.every_store

SHORT, LONG = 50, 60_000
Timer: TypeAlias = Callable[[Driver, int], Awaitable[object]]


async def _running(driver: Driver) -> Subject:
    x = await driver.create()
    await driver.grant_and_claim(x)
    return x


async def _submit(driver: Driver, ms: int) -> object:
    return await driver.submit(delay_ms=ms)


async def _deadline(driver: Driver, ms: int) -> object:
    return await driver.submit(execution_deadline_at=driver.clock.now_ms + ms)


async def _retry(driver: Driver, ms: int) -> object:
    policy = RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=ms))
    return await driver.fail(await _running(driver), retry_policy_json=retry_policy_to_json(policy))


async def _snooze(driver: Driver, ms: int) -> object:
    return await driver.delay(await _running(driver), driver.clock.now_ms + ms)


async def _sleep(driver: Driver, ms: int) -> object:
    waits = Suspender(driver)
    await waits.seed()
    return await waits.suspend(await waits.running(), timeout_ms=ms)


TIMERS = [_submit, _deadline, _retry, _snooze, _sleep]


@pytest.fixture
async def listener(driver: Driver) -> AsyncIterator[DueListener]:
    async with driver.backend.listen_for_due() as listening:
        assert await listening.wait() == frozenset()
        yield listening


async def _heard(listener: DueListener, count: int) -> list[DueSoon]:
    heard: list[DueSoon] = []
    async with asyncio.timeout(20):
        while len(heard) < count:
            heard += sorted(await listener.wait(), key=lambda each: each.in_ms, reverse=True)
    return heard


@pytest.mark.parametrize("timer", TIMERS)
async def test_a_short_timer_is_announced_with_its_time(driver: Driver, listener: DueListener, timer: Timer) -> None:
    await timer(driver, SHORT)
    assert await _heard(listener, 1) == [DueSoon(home(driver), SHORT)]


@pytest.mark.parametrize("timer", TIMERS)
async def test_a_long_timer_is_not_announced(driver: Driver, listener: DueListener, timer: Timer) -> None:
    await timer(driver, LONG)
    await _snooze(driver, SHORT)
    assert await _heard(listener, 1) == [DueSoon(home(driver), SHORT)]


async def test_only_the_first_timer_of_an_index_is_announced(driver: Driver, listener: DueListener) -> None:
    """An engine that handles it looks for the next one."""
    for ms in (SHORT, SHORT + 20, SHORT - 20):
        await driver.submit(delay_ms=ms)
    assert [each.in_ms for each in await _heard(listener, 2)] == [SHORT, SHORT - 20]


async def test_a_batch_announces_its_first_timer(driver: Driver, listener: DueListener) -> None:
    def args(ms: int) -> c.CreateExecutionArgs:
        return c.CreateExecutionArgs(
            execution_id=driver.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind", delay_ms=ms
        )

    await driver.backend.submit_executions([args(SHORT + each) for each in (30, 10, 20)])
    assert [each.in_ms for each in await _heard(listener, 1)] == [SHORT + 10]

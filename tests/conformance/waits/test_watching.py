"""An execution watches another one: when that one has ended, the engine finds whom to tell."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.execution.transitions import TERMINAL, Situation
from flowfabric.core.states import PublicState
from tests.conformance.driver import LANE, Driver, Subject, home

pytestmark = pytest.mark.every_store


async def _ends(driver: Driver, *done: c.WatchedEnd) -> list[c.WatchedEnd]:
    return await driver.backend.read_watched_ends(home(driver), done=done)


def _end(x: Subject, watcher: ExecutionId) -> c.WatchedEnd:
    return c.WatchedEnd(execution_id=x.execution_id, watcher_id=watcher)


@pytest.mark.parametrize("end", [Driver.complete, Driver.fail, Driver.cancel])
async def test_every_end_is_listed_until_its_watchers_were_told(driver: Driver, end: object) -> None:
    x, one, two = await driver.reach(Situation.ACTIVE), driver.mint(), driver.mint()
    for watcher in (one, two, one):
        assert await driver.watch(x, watcher) == c.ExecutionWatched(public_state=PublicState.ACTIVE)
    assert await _ends(driver) == []
    assert (await driver.backend.next_due(home(driver))).ends_at_ms is None
    await end(driver, x)  # type: ignore[operator]
    assert (await driver.backend.next_due(home(driver))).ends_at_ms == driver.clock.now_ms
    listed = await _ends(driver)
    assert sorted(listed, key=str) == sorted([_end(x, one), _end(x, two)], key=str)
    assert await _ends(driver, _end(x, one)) == [_end(x, two)]
    assert await _ends(driver, _end(x, two)) == []
    assert (await driver.backend.next_due(home(driver))).ends_at_ms is None
    await driver.probe.check()


@pytest.mark.parametrize("situation", TERMINAL)
async def test_who_comes_after_the_end_is_told_at_once(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    before = await driver.probe.dump()
    watched = await driver.watch(x)
    assert isinstance(watched, c.WatchedHasEnded)
    assert watched.public_state is (await driver.info(x)).public_state
    assert await driver.probe.dump() == before


async def test_who_asks_again_after_the_end_is_no_longer_listed(driver: Driver) -> None:
    x, watcher = await driver.reach(Situation.ACTIVE), driver.mint()
    await driver.watch(x, watcher)
    await driver.complete(x)
    assert isinstance(await driver.watch(x, watcher), c.WatchedHasEnded)
    assert await _ends(driver) == []
    await driver.probe.check()


async def test_an_execution_that_runs_again_keeps_its_watchers_until_its_next_end(driver: Driver) -> None:
    x, watcher = await driver.reach(Situation.ACTIVE), driver.mint()
    await driver.watch(x, watcher)
    await driver.cancel(x)
    await driver.replay(x)
    assert await _ends(driver) == []
    await driver.cancel(x)
    assert await _ends(driver) == [_end(x, watcher)]


async def test_an_execution_is_kept_until_its_watchers_were_told(driver: Driver) -> None:
    x, watcher = await driver.reach(Situation.ACTIVE), driver.mint()
    await driver.watch(x, watcher)
    await driver.cancel(x)
    await driver.clock.advance(10)
    trim = c.TrimExecutionsArgs(lane_id=LANE, older_than_ms=0)
    await driver.backend.trim_executions(trim)
    assert await _ends(driver) == [_end(x, watcher)]
    assert await _ends(driver, _end(x, watcher)) == []
    await driver.backend.trim_executions(trim)
    assert await driver.backend.get_execution_state(x.execution_id) is None
    await driver.probe.check()


async def test_the_end_of_a_watched_execution_is_announced(driver: Driver) -> None:
    x = await driver.reach(Situation.ACTIVE)
    await driver.watch(x)
    async with driver.backend.listen_for_due() as listener:
        assert await listener.wait() == frozenset()
        await driver.complete(x)
        assert {(each.partition, each.in_ms) for each in await listener.wait()} == {(home(driver), 0)}

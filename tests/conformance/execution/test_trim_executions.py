"""trim_executions: by age, by number and by what executions asked for, in bounded steps that nothing holds up."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.policy import ExecutionPolicy, StreamPolicy
from flowfabric.core.rules.execution.transitions import TERMINAL, Situation
from flowfabric.core.states import LifecyclePhase
from flowfabric.errors import ExecutionNotFound, InvalidInput
from tests.conformance.driver import LANE, Driver, Subject

pytestmark = pytest.mark.every_store

DAY = 86_400_000


def kept_for(ms: int) -> ExecutionPolicy:
    return ExecutionPolicy(stream_policy=StreamPolicy(retention_ttl_ms=ms))


async def trim(driver: Driver, **args: Any) -> int:
    """Call until there is no more; how many were deleted."""
    deleted = 0
    cursor = None
    while True:
        result = await driver.backend.trim_executions(c.TrimExecutionsArgs(cursor=cursor, **args))
        deleted += result.deleted
        cursor = result.cursor
        if not result.more:
            await driver.probe.check()
            return deleted


async def ended(driver: Driver, **create: Any) -> Subject:
    x = await driver.create(**create)
    await driver.cancel(x)
    return x


async def remaining(driver: Driver) -> set[ExecutionId]:
    page = await driver.backend.list_executions(c.ListExecutionsArgs(limit=1_000))
    return {each.execution_id for each in page.executions}


async def test_what_ended_long_enough_ago_is_deleted(driver: Driver) -> None:
    old = await ended(driver)
    await driver.clock.advance(100)
    young = await ended(driver)
    await driver.clock.advance(50)
    assert await trim(driver, older_than_ms=150) == 1
    assert await remaining(driver) == {young.execution_id}
    assert await driver.backend.describe_execution(old.execution_id) is None
    assert await trim(driver, older_than_ms=50) == 1


@pytest.mark.parametrize("situation", Situation)
async def test_only_what_has_ended_is_deleted(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation, tags={"team.a": "1"})
    assert (await trim(driver, older_than_ms=0) > 0) == (situation in TERMINAL)
    assert (await driver.backend.get_execution(x.execution_id) is None) == (situation in TERMINAL)


async def test_the_newest_of_each_lane_are_kept(driver: Driver) -> None:
    lanes = [LANE, LaneId("other")]
    made: dict[LaneId, list[Subject]] = {lane: [] for lane in lanes}
    for lane in lanes * 4:
        made[lane].append(await ended(driver, lane_id=lane))
        await driver.clock.advance(1)
    live = await driver.create()
    assert await trim(driver, keep_last=3) == 2
    kept = {x.execution_id for lane in lanes for x in made[lane][1:]}
    assert await remaining(driver) == kept | {live.execution_id}
    assert await trim(driver, keep_last=0, lane_id=LANE) == 3
    assert await trim(driver, keep_last=0) == 3


async def test_what_an_execution_asked_for_wins_over_the_default(driver: Driver) -> None:
    longer = await ended(driver, policy=kept_for(2 * DAY))
    shorter = await ended(driver, policy=kept_for(10))
    default = await ended(driver)
    await driver.clock.advance(20)
    assert await trim(driver, older_than_ms=DAY) == 1
    assert await remaining(driver) == {longer.execution_id, default.execution_id}
    await driver.clock.advance(DAY)
    assert await trim(driver, older_than_ms=DAY) == 1
    assert await remaining(driver) == {longer.execution_id}
    assert await trim(driver, keep_last=0) == 0
    await driver.clock.advance(DAY)
    assert await trim(driver, older_than_ms=300 * DAY) == 1
    assert await driver.backend.get_execution(shorter.execution_id) is None


async def test_without_a_rule_only_those_that_asked_are_deleted(driver: Driver) -> None:
    await ended(driver, policy=kept_for(10))
    silent = await ended(driver)
    await driver.clock.advance(300 * DAY)
    assert await trim(driver) == 1
    assert await remaining(driver) == {silent.execution_id}


async def test_a_call_deletes_no_more_than_its_limit(driver: Driver) -> None:
    for at in range(7):
        await ended(driver, lane_id=LaneId(f"lane {at % 3}"))
    result = await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0, limit=3))
    assert (result.deleted, result.more) == (3, True)
    assert len(await remaining(driver)) == 4
    rest = await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0, cursor=result.cursor))
    assert (rest.deleted, rest.more) == (4, False)


async def test_a_replayed_execution_is_kept_and_its_new_end_counts(driver: Driver) -> None:
    x = await ended(driver)
    await driver.clock.advance(1_000)
    await driver.replay(x)
    assert await trim(driver, older_than_ms=500) == 0
    await driver.cancel(x)
    await driver.clock.advance(499)
    assert await trim(driver, older_than_ms=500) == 0
    await driver.clock.advance(1)
    assert await trim(driver, older_than_ms=500) == 1


async def test_a_deleted_execution_is_as_one_that_never_was(driver: Driver) -> None:
    x = await driver.run(await driver.create(tags={"team.a": "1"}))
    await driver.complete(x)
    await trim(driver, older_than_ms=0)
    assert await driver.backend.get_execution_state(x.execution_id) is None
    with pytest.raises(ExecutionNotFound):
        await driver.replay(x)
    again = await driver.create(execution_id=x.execution_id)
    assert (await driver.state(again)).lifecycle_phase is LifecyclePhase.RUNNABLE


async def test_a_lane_with_nothing_left_is_forgotten(driver: Driver) -> None:
    await ended(driver, lane_id=LaneId("gone"))
    await driver.create(lane_id=LaneId("busy"))
    await trim(driver, older_than_ms=0)
    assert [each.lane_id for each in await driver.backend.count_executions()] == ["busy"]


async def test_age_and_number_are_not_mixed(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="keep_last"):
        c.TrimExecutionsArgs(older_than_ms=0, keep_last=1)

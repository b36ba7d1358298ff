"""count_executions: how many executions of each lane are in each state, and how long the oldest waits."""

from __future__ import annotations

from collections import Counter

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput
from tests.conformance.driver import LANE, Driver

pytestmark = pytest.mark.every_store

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))


async def only(driver: Driver, lane: LaneId | None = None) -> c.LaneCounts:
    (counts,) = await driver.backend.count_executions(lane)
    return counts


async def test_every_situation_is_counted_once_under_its_public_state(driver: Driver) -> None:
    expected: Counter[PublicState] = Counter()
    for situation in Situation:
        expected[(await driver.info(await driver.reach(situation))).public_state] += 1
    counts = await only(driver, LANE)
    assert counts.counts == expected
    assert counts.total == len(Situation)


async def test_lanes_are_counted_apart_and_over_all_partitions(driver: Driver) -> None:
    for lane, count in (("a", 2), ("b", 1)):
        for at in range(count):
            x = await driver.create(lane_id=LaneId(lane), execution_id=driver.mint(LaneId(f"elsewhere {at}")))
            if at:
                await driver.cancel(x)
    first, second = await driver.backend.count_executions()
    assert (first.lane_id, first.counts) == ("a", {PublicState.WAITING: 1, PublicState.CANCELLED: 1})
    assert (second.lane_id, second.counts) == ("b", {PublicState.WAITING: 1})
    assert await driver.backend.count_executions(LaneId("b")) == [second]


async def test_an_empty_store_has_no_lanes_and_an_unknown_lane_has_nothing(driver: Driver) -> None:
    assert await driver.backend.count_executions() == []
    assert await only(driver, LaneId("nowhere")) == c.LaneCounts(lane_id=LaneId("nowhere"))


async def test_the_oldest_is_found_behind_higher_priorities(driver: Driver) -> None:
    await driver.create(priority=0)
    await driver.clock.advance(100)
    for priority in (9_000, 500, 1):
        await driver.create(priority=priority)
    await driver.clock.advance(11)
    assert (await only(driver)).oldest_waiting_ms == 111


async def test_the_oldest_may_need_capabilities(driver: Driver) -> None:
    await driver.create(policy=GPU)
    await driver.clock.advance(50)
    await driver.create(priority=3)
    counts = await only(driver)
    assert (counts.oldest_waiting_ms, counts.counts) == (50, {PublicState.WAITING: 2})


async def test_what_cannot_start_is_not_the_oldest_that_waits(driver: Driver) -> None:
    await driver.reach(Situation.BLOCKED_BY_OPERATOR)
    await driver.reach(Situation.DELAYED)
    await driver.clock.advance(100)
    assert (await only(driver)).oldest_waiting_ms is None
    await driver.create()
    assert (await only(driver)).oldest_waiting_ms == 0


async def test_counts_follow_what_happens(driver: Driver) -> None:
    x = await driver.create()
    seen = []
    for step in (driver.run(x), driver.complete(x), driver.replay(x), driver.cancel(x)):
        seen.append((await only(driver, LANE)).counts)
        await step
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert seen == [
        {PublicState.WAITING: 1}, {PublicState.ACTIVE: 1}, {PublicState.COMPLETED: 1}, {PublicState.WAITING: 1},
    ]  # fmt: skip
    assert await driver.backend.count_executions() == []


async def test_a_lane_that_is_none_is_refused(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="lane_id"):
        await driver.backend.count_executions("")  # type: ignore[arg-type]

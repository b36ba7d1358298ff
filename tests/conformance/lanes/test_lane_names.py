"""No name of a lane or a capability leads to the work of another."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import LaneState, PublicState
from tests.conformance.driver import INSTANCE, TTL, WORKER, Driver, Subject

PLAIN, LONGER = LaneId("L"), LaneId("L:eligible")


def needing(*capabilities: str) -> ExecutionPolicy:
    return ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=capabilities))


async def beside(driver: Driver, lane: LaneId, **given: Any) -> Subject:
    """An execution of a lane in the partition of the lane L, as a member of a flow there would be."""
    return await driver.create(execution_id=driver.mint(PLAIN), lane_id=lane, **given)


async def claimed(driver: Driver, near: Subject, lane: LaneId, *capabilities: str) -> list[Any]:
    """What a worker of the lane gets in the partition of an execution."""
    works = await driver.backend.claim_executions(
        b.ClaimExecutionsArgs(
            partition=Partition(PartitionFamily.FLOW, near.execution_id.partition_index),
            lane_id=lane, worker_id=WORKER, worker_instance_id=INSTANCE, worker_capabilities=capabilities,
            lease_ttl_ms=TTL, count=10,
        )
    )  # fmt: skip
    return [driver.held(work).execution_id for work in works]


async def test_a_worker_without_capabilities_gets_no_work_that_needs_one(driver: Driver) -> None:
    x = await beside(driver, PLAIN, policy=needing("eligible"))
    assert await claimed(driver, x, LONGER) == []
    assert await claimed(driver, x, PLAIN) == []
    assert await claimed(driver, x, PLAIN, "eligible") == [x.execution_id]


async def test_a_worker_with_a_capability_gets_no_work_of_a_lane_that_looks_like_it(driver: Driver) -> None:
    x = await beside(driver, LONGER)
    assert await claimed(driver, x, PLAIN, "eligible") == []
    assert await claimed(driver, x, LONGER) == [x.execution_id]


@pytest.mark.parametrize("lane", ["a:b", "a%3Ab", "a%b", "a=b", "a,b", "{a}", "a b", "a:blocked:quota", "%", ":"])
async def test_a_lane_of_any_name_is_worked_listed_configured_and_trimmed(driver: Driver, lane: str) -> None:
    named = LaneId(lane)
    waiting, run = [await driver.create(lane_id=named) for _ in range(2)]
    await driver.configure(lane_id=named, max_concurrency=1, ageing_ms_per_priority=1_000)
    works = [driver.held(each) for each in await _take(driver, named)]
    assert [each.execution_id for each in works] == [min(waiting.execution_id, run.execution_id)]
    await driver.complete(works[0])
    (counts,) = await driver.backend.count_executions(named)
    assert counts.counts == {PublicState.COMPLETED: 1, PublicState.WAITING: 1}
    found = await driver.backend.list_executions(c.ListExecutionsArgs(lane_id=named, limit=10))
    assert {each.execution_id for each in found.executions} == {waiting.execution_id, run.execution_id}
    trimmed = await driver.backend.trim_executions(c.TrimExecutionsArgs(lane_id=named, older_than_ms=0))
    assert trimmed.deleted == 1


async def _take(driver: Driver, lane: LaneId) -> list[Any]:
    args = b.ClaimExecutionsArgs(lane_id=lane, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=5)
    return list(await driver.backend.claim_executions(args))


async def test_pausing_a_lane_leaves_one_alone_whose_name_is_written_the_same(driver: Driver) -> None:
    paused, other = LaneId("a:b"), LaneId("a%3Ab")
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=paused, state=LaneState.PAUSED))
    await driver.create(lane_id=paused)
    free = await driver.create(lane_id=other)
    assert await _take(driver, paused) == []
    assert [driver.held(each).execution_id for each in await _take(driver, other)] == [free.execution_id]

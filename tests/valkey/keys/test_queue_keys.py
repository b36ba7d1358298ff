"""The queues and due lists of a lane as they are stored: sorted sets whose scores say who comes first."""

from __future__ import annotations

from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, Namespace
from flowfabric.core.partition import Partition, lane_partitions
from tests.conformance.driver import LANE, Subject
from tests.valkey.driver import Driver


async def test_a_new_priority_moves_the_execution_and_keeps_its_age(driver: Driver) -> None:
    first = await driver.create(priority=1)
    await driver.clock.advance(1)
    second = await driver.create(priority=2)
    changed = await driver.change_priority(first, 2)
    assert (changed.old_priority, changed.new_priority) == (1, 2)
    key = f"ff:idx:{first.execution_id.tag}:lane:{LANE}:eligible"
    queue = await driver.backend.client.execute("ZRANGE", key, 0, -1, key=key)
    assert queue == [first.execution_id.encode(), second.execution_id.encode()]
    await driver.change_priority(first, 0)
    assert (await driver.info(first)).priority == 0


async def test_claims_come_by_priority_then_age(driver: Driver) -> None:
    low = await driver.create(priority=0)
    await driver.clock.advance(1)
    high = await driver.create(priority=5)
    await driver.clock.advance(1)
    later = await driver.create(priority=5)
    key = f"ff:idx:{low.execution_id.tag}:lane:{LANE}:eligible"
    queue = await driver.backend.client.execute("ZRANGE", key, 0, -1, key=key)
    assert queue == [x.execution_id.encode() for x in _ordered(high, later, low)]


def _ordered(*subjects: Subject) -> tuple[Subject, ...]:
    return subjects


async def test_a_revoked_lease_is_found_where_lost_leases_are_looked_for(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.revoke(x)
    key = f"ff:idx:{x.execution_id.tag}:lease_expiry"
    due = await driver.backend.client.execute("ZRANGE", key, 0, driver.clock.now_ms, "BYSCORE", key=key)
    assert due == [x.execution_id.encode()]


async def test_a_long_queue_is_sorted_anew_in_bounded_steps(driver: Driver) -> None:
    await driver.create()
    batch = [
        c.CreateExecutionArgs(
            execution_id=driver.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind",
            priority=1 + number % 3,
        )
        for number in range(700)
    ]  # fmt: skip
    await driver.clock.advance(10_000)
    await driver.backend.submit_executions(batch)
    await driver.configure(ageing_ms_per_priority=1_000)
    key = f"ff:idx:{batch[0].execution_id.tag}:lane:{LANE}:eligible"
    wanted = {each.execution_id: driver.clock.now_ms - 1_000 * each.priority for each in batch}
    flat: Any = await driver.backend.client.execute("ZRANGE", key, 0, -1, "WITHSCORES", key=key)
    scores = dict(zip(flat[::2], flat[1::2], strict=True))
    assert {each: int(scores[each.encode()]) for each in wanted} == wanted


def partition_of(driver: Driver, lane: LaneId = LANE) -> Partition:
    return lane_partitions(lane, driver.backend.partitions)[0]


async def due_in(driver: Driver, lane: LaneId = LANE) -> int | None:
    due = await driver.backend.next_due(partition_of(driver, lane))
    assert due.now_ms == driver.clock.now_ms
    return None if due.at_ms is None else due.at_ms - due.now_ms


async def test_a_suspension_that_has_a_time_out_counts(driver: Driver) -> None:
    """What a suspension will write; there is no port for it yet."""
    key = f"ff:idx:{partition_of(driver).tag}:suspension_timeout"
    await driver.backend.client.execute("ZADD", key, driver.clock.now_ms + 5, "id", key=key)
    assert await due_in(driver) == 5

"""What an engine asks of a store: shares, partitions in use, what is due next, and blocks whose reason is gone."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, PartitionFamily, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import BlockingReason, EligibilityState, PublicState
from flowfabric.errors import InvalidInput
from tests.conformance.driver import ATTEMPT_TIMEOUT, BACKOFF, DEADLINE_IN, LANE, TTL, Driver, Subject
from tests.stores.probe import Clock, Probe

pytestmark = pytest.mark.every_store

OTHER = LaneId("other")
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu", "large")))


def partition_of(driver: Driver, lane: LaneId = LANE) -> Partition:
    return lane_partitions(lane, driver.backend.partitions)[0]


async def share(backend: EngineBackend, replica: str, ttl_ms: int = 1_000, *, leave: bool = False) -> tuple[str, ...]:
    held = await backend.hold_share(c.HoldShareArgs(replica_id=replica, ttl_ms=ttl_ms, leave=leave))
    return held.replicas


async def test_all_who_live_see_the_same_shares(backend: EngineBackend, clock: Clock) -> None:
    assert await share(backend, "b") == ("b",)
    assert await share(backend, "a", 2_000) == ("a", "b")
    assert await share(backend, "b") == ("a", "b")


async def test_the_share_of_one_that_is_silent_is_the_others(backend: EngineBackend, clock: Clock) -> None:
    await share(backend, "a")
    await share(backend, "b", 2_000)
    await clock.advance(999)
    assert await share(backend, "b", 2_000) == ("a", "b")
    await clock.advance(1)
    assert await share(backend, "b", 2_000) == ("b",)
    assert await share(backend, "a") == ("a", "b")


async def test_one_that_leaves_is_gone_at_once(probe: Probe, backend: EngineBackend, clock: Clock) -> None:
    before = await probe.dump()
    await share(backend, "a")
    await share(backend, "b")
    assert await share(backend, "a", leave=True) == ("b",)
    assert await share(backend, "b", leave=True) == ()
    assert await probe.dump() == before


async def test_partitions_in_use_are_those_with_executions(driver: Driver) -> None:
    assert await driver.backend.partitions_in_use() == []
    await driver.create()
    x = await driver.create(lane_id=OTHER)
    used = sorted({partition_of(driver), partition_of(driver, OTHER)}, key=lambda each: each.index)
    assert await driver.backend.partitions_in_use() == used
    await driver.cancel(x)
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert await driver.backend.partitions_in_use() == [partition_of(driver)]


async def due_in(driver: Driver, lane: LaneId = LANE) -> int | None:
    due = await driver.backend.next_due(partition_of(driver, lane))
    assert due.now_ms == driver.clock.now_ms
    return None if due.at_ms is None else due.at_ms - due.now_ms


async def test_nothing_is_due_where_nothing_waits_for_a_time(driver: Driver) -> None:
    assert await due_in(driver) is None
    await driver.create(execution_deadline_at=None)
    assert await due_in(driver) is None


async def test_the_earliest_of_all_that_waits_for_a_time_is_due_next(driver: Driver) -> None:
    x = await driver.create()
    assert await due_in(driver) == DEADLINE_IN
    await driver.run(x, lease_ttl_ms=TTL)
    assert await due_in(driver) == ATTEMPT_TIMEOUT
    await driver.renew(x, lease_ttl_ms=ATTEMPT_TIMEOUT - 1)
    assert await due_in(driver) == ATTEMPT_TIMEOUT - 1
    await driver.create(delay_until=driver.clock.now_ms + BACKOFF)
    assert await due_in(driver) == BACKOFF
    await driver.clock.advance(BACKOFF + 3)
    assert await due_in(driver) == -3


async def test_a_delay_of_any_lane_of_the_partition_counts(driver: Driver) -> None:
    """Lanes share a partition when there are more of them than partitions, and in flows."""
    execution_id = driver.mint()
    await driver.create(execution_deadline_at=None)
    await driver.create(
        execution_id=execution_id,
        lane_id=OTHER,
        delay_until=driver.clock.now_ms + 7,
        execution_deadline_at=None,
    )
    assert await due_in(driver) == 7


BAD_PARTITIONS = [Partition(PartitionFamily.BUDGET, 0), Partition(PartitionFamily.FLOW, 256)]


@pytest.mark.parametrize("partition", BAD_PARTITIONS, ids=lambda each: each.tag)
async def test_only_partitions_of_executions_are_maintained(backend: EngineBackend, partition: Partition) -> None:
    with pytest.raises(InvalidInput, match="partition"):
        await backend.next_due(partition)
    with pytest.raises(InvalidInput, match="partition"):
        await backend.repair_indexes(c.RepairIndexesArgs(partition=partition))
    with pytest.raises(InvalidInput, match="partition"):
        await backend.reevaluate_blocked(c.ReevaluateBlockedArgs(partition=partition))


async def reevaluate(driver: Driver, *offers: c.WorkerOffer, **args: Any) -> c.BlockedReevaluated:
    return await driver.backend.reevaluate_blocked(
        c.ReevaluateBlockedArgs(partition=partition_of(driver), offers=offers, **args)
    )


async def set_lane(driver: Driver, state: str, lane: LaneId = LANE) -> None:
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=lane, state=state))  # type: ignore[arg-type]


async def eligibility(driver: Driver, x: Subject) -> EligibilityState:
    return (await driver.state(x)).eligibility_state


async def test_what_the_lane_held_back_goes_on_when_it_is_open_again(driver: Driver) -> None:
    await set_lane(driver, "paused")
    x = await driver.reach(Situation.BLOCKED_BY_LANE_STATE)
    for state in ("paused", "draining", "disabled"):
        await set_lane(driver, state)
        assert (await reevaluate(driver)).unblocked == 0
    await set_lane(driver, "active")
    assert await reevaluate(driver) == c.BlockedReevaluated(checked=1, unblocked=1)
    assert await eligibility(driver, x) is EligibilityState.ELIGIBLE_NOW
    events = await driver.backend.history(x.execution_id)
    assert [each.event for each in events.events][-1] == "unblocked"
    await driver.run(x)
    await driver.probe.check()


async def test_what_no_worker_could_run_goes_on_when_one_can(driver: Driver) -> None:
    x = await driver.create(policy=GPU)
    await driver.block(x, BlockingReason.WAITING_FOR_CAPABLE_WORKER)
    useless = [
        c.WorkerOffer(lanes=(LANE,), capabilities=("gpu",)),
        c.WorkerOffer(lanes=(LANE,), capabilities=("large",)),  # together they would do
        c.WorkerOffer(lanes=(OTHER,), capabilities=("gpu", "large")),
    ]
    assert (await reevaluate(driver)).unblocked == 0
    assert (await reevaluate(driver, *useless)).unblocked == 0
    capable = c.WorkerOffer(lanes=(LaneId("another"), LANE), capabilities=("cpu", "gpu", "large"))
    assert (await reevaluate(driver, *useless, capable)).unblocked == 1
    assert await eligibility(driver, x) is EligibilityState.ELIGIBLE_NOW
    await driver.probe.check()


async def test_any_worker_of_the_lane_will_do_for_work_that_needs_nothing(driver: Driver) -> None:
    await driver.reach(Situation.BLOCKED_BY_ROUTE)
    assert (await reevaluate(driver, c.WorkerOffer(lanes=(OTHER,)))).unblocked == 0
    assert (await reevaluate(driver, c.WorkerOffer(lanes=(LANE,)))).unblocked == 1


async def test_operators_budgets_and_quotas_hold_back_until_they_say_otherwise(driver: Driver) -> None:
    held = [
        await driver.reach(situation)
        for situation in (Situation.BLOCKED_BY_OPERATOR, Situation.BLOCKED_BY_BUDGET, Situation.BLOCKED_BY_QUOTA)
    ]
    before = await driver.probe.dump()
    assert await reevaluate(driver, c.WorkerOffer(lanes=(LANE,))) == c.BlockedReevaluated()
    assert await driver.probe.dump() == before
    assert len(held) == 3


async def test_a_delay_that_was_there_before_is_still_there_after(driver: Driver) -> None:
    x = await driver.reach(Situation.DELAYED)
    await driver.block(x, BlockingReason.PAUSED_BY_POLICY)
    assert (await reevaluate(driver)).unblocked == 1
    assert (await driver.info(x)).public_state is PublicState.DELAYED


async def test_one_whose_key_is_taken_waits_for_its_turn_after(driver: Driver) -> None:
    runs, x = await driver.create(concurrency_key="k"), await driver.create(concurrency_key="k")
    await driver.run(runs)
    await driver.block(x, BlockingReason.PAUSED_BY_POLICY)
    assert (await reevaluate(driver)).unblocked == 1
    assert await eligibility(driver, x) is EligibilityState.BLOCKED_BY_QUOTA
    await driver.complete(runs)
    assert await eligibility(driver, x) is EligibilityState.ELIGIBLE_NOW
    await driver.probe.check()


async def test_one_that_waits_for_nothing_any_more_goes_on(driver: Driver) -> None:
    waits, is_free = await driver.reach(Situation.WAITING_CHILDREN), await driver.reach(Situation.WAITING_CHILDREN)
    await driver.close_dependency(is_free)
    assert await reevaluate(driver) == c.BlockedReevaluated(checked=2, unblocked=1)
    assert await eligibility(driver, is_free) is EligibilityState.ELIGIBLE_NOW
    assert await eligibility(driver, waits) is EligibilityState.BLOCKED_BY_DEPENDENCIES
    await driver.probe.check()


async def test_a_long_queue_is_looked_through_in_bounded_calls(driver: Driver) -> None:
    """Most of them stay: they must not stand in the way of those behind them."""
    for _ in range(7):
        await driver.block(await driver.create(policy=GPU), BlockingReason.WAITING_FOR_CAPABLE_WORKER)
        await driver.clock.advance(1)
    last = await driver.create()
    await driver.block(last, BlockingReason.WAITING_FOR_CAPABLE_WORKER)
    cursor, checked, unblocked = None, 0, 0
    for _ in range(10):
        page = await reevaluate(driver, c.WorkerOffer(lanes=(LANE,)), cursor=cursor, limit=3)
        assert page.checked <= 3
        cursor, checked, unblocked = page.cursor, checked + page.checked, unblocked + page.unblocked
        if cursor is None:
            break
    assert (cursor, checked, unblocked) == (None, 8, 1)
    assert await eligibility(driver, last) is EligibilityState.ELIGIBLE_NOW


async def test_many_lanes_are_looked_through_in_bounded_calls(driver: Driver) -> None:
    lanes = [LaneId(f"lane {at}") for at in range(30)]
    for lane in lanes:
        x = await driver.create(execution_id=driver.mint(), lane_id=lane)
        await driver.block(x, BlockingReason.PAUSED_BY_POLICY)
    calls, unblocked, cursor = 0, 0, None
    while calls == 0 or cursor is not None:
        page = await reevaluate(driver, cursor=cursor, limit=10)
        calls, unblocked, cursor = calls + 1, unblocked + page.unblocked, page.cursor
    assert (unblocked, calls > 3) == (30, True)


async def test_a_cursor_belongs_to_its_partition_and_its_kind(driver: Driver) -> None:
    for _ in range(2):
        await driver.reach(Situation.BLOCKED_BY_LANE_STATE)
    page = await reevaluate(driver, limit=1)
    with pytest.raises(InvalidInput, match="partition"):
        await driver.backend.reevaluate_blocked(
            c.ReevaluateBlockedArgs(partition=partition_of(driver, OTHER), cursor=page.cursor)
        )
    with pytest.raises(InvalidInput, match="cursor"):
        await driver.backend.repair_indexes(c.RepairIndexesArgs(partition=partition_of(driver), cursor=page.cursor))


def test_offers_are_checked() -> None:
    with pytest.raises(InvalidInput, match="offers"):
        c.ReevaluateBlockedArgs(partition=Partition(PartitionFamily.FLOW, 0), offers=("gpu",))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="lanes"):
        c.WorkerOffer(lanes=())

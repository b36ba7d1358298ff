"""configure_lane: how many executions of a lane run at once, in every way of claiming; and how age counts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from flowfabric.backends.ports import WorkListener
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, FlowId, LaneId
from flowfabric.core.partition import Partition, PartitionFamily, flow_partition, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import LaneState, PublicState
from flowfabric.errors import InvalidInput, Limited
from tests.conformance.driver import BACKOFF, DEADLINE_IN, INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.suspending import Suspender
from tests.soaking import examples

pytestmark = pytest.mark.every_store

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
LATER = LaneId("later")
SEEDS = range(examples(3, soak=50))
Step = Callable[[Driver, Subject], Awaitable[object]]


async def running(driver: Driver, lane: LaneId = LANE) -> int:
    (found,) = await driver.backend.count_executions(lane)
    return found.counts.get(PublicState.ACTIVE, 0)


async def test_a_claim_gets_no_more_than_the_lane_may_run(driver: Driver) -> None:
    for _ in range(6):
        await driver.create()
    await driver.configure(max_concurrency=4)
    first = await driver.take(3)
    assert [len(await driver.take(10)) for _ in range(2)] == [1, 0]
    await driver.complete(first[0])
    assert len(await driver.take(10)) == 1
    assert await running(driver) == 4
    await driver.probe.check()


async def test_what_stands_behind_a_full_lane_is_neither_moved_nor_parked(driver: Driver) -> None:
    await driver.configure(max_concurrency=1)
    for _ in range(3):
        await driver.create()
    await driver.take(3)
    states = await driver.probe.check()
    assert sorted(state.public_state for state in states.values()) == ["active", "waiting", "waiting"]


async def one_step(driver: Driver, x: Subject) -> object:
    return await driver.grant_and_claim(x)


async def with_a_grant(driver: Driver, x: Subject) -> object:
    await driver.place_grant(x)
    return await driver.claim(x)


async def resumed(driver: Driver, x: Subject) -> object:
    await driver.place_grant(x)
    return await driver.claim_resumed(x)


async def by_name(driver: Driver, x: Subject) -> object:
    args = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, execution_ids=(x.execution_id,)
    )
    (outcome,) = await driver.backend.claim_executions(args)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@pytest.mark.parametrize("claim", [one_step, with_a_grant, resumed, by_name, Driver.grant])
async def test_a_claim_of_one_meets_the_limit(driver: Driver, claim: Step) -> None:
    busy, x = await driver.create(), await driver.create()
    if claim is resumed:
        await driver.run(x)
        await driver.delay(x, driver.clock.now_ms)
    await driver.run(busy)
    await driver.configure(max_concurrency=1)
    with pytest.raises(Limited) as caught:
        await claim(driver, x)
    assert caught.value.code == "concurrency_limit_exceeded"
    assert "lane default" in str(caught.value)
    assert caught.value.retryable
    await driver.withdraw_grant(x)
    await driver.complete(busy)
    await claim(driver, x)
    await driver.probe.check()


async def test_named_claims_of_one_batch_count_each_other(driver: Driver) -> None:
    subjects = [await driver.create() for _ in range(5)]
    await driver.configure(max_concurrency=3)
    args = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL,
        execution_ids=tuple(x.execution_id for x in subjects),
    )  # fmt: skip
    outcomes = await driver.backend.claim_executions(args)
    assert [isinstance(outcome, b.ClaimedWork) for outcome in outcomes] == [True] * 3 + [False] * 2


async def test_a_finish_gives_its_place_to_the_claim_in_the_same_step(driver: Driver) -> None:
    for _ in range(3):
        await driver.create()
    await driver.configure(max_concurrency=1)
    (x,) = await driver.take()
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    ask = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=5
    )  # fmt: skip
    done = await driver.backend.finish_executions(
        b.FinishExecutionsArgs(
            partition=partition,
            finish=(c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence),),
            claim=ask,
        )
    )
    assert len(done.claimed) == 1
    assert await driver.take(5) == []


async def due_lease(driver: Driver, _: Subject) -> None:
    await driver.clock.advance(TTL)
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    assert (await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))).requeued == 1


async def deadline(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)


async def waiting_children(driver: Driver, x: Subject) -> None:
    await driver.open_dependency(x)
    await driver.move_to_waiting_children(x)


WAYS_TO_STOP: dict[str, Step] = {
    "complete": lambda d, x: d.complete(x),
    "fail": lambda d, x: d.fail(x),
    "retry": lambda d, x: d.fail(x, retry=True),
    "cancel": lambda d, x: d.cancel(x),
    "delay": lambda d, x: d.delay(x, d.clock.now_ms + BACKOFF),
    "delay that is over": lambda d, x: d.delay(x, d.clock.now_ms),
    "waiting for children": waiting_children,
    "deadline": deadline,
    "lost lease": due_lease,
}


@pytest.mark.parametrize("way", WAYS_TO_STOP)
async def test_every_way_to_stop_running_frees_the_place(driver: Driver, way: str) -> None:
    await driver.configure(max_concurrency=1)
    for _ in range(2):
        await driver.create()
    (held,) = await driver.take(2)
    await WAYS_TO_STOP[way](driver, held)
    assert len(await driver.take(2)) == 1
    await driver.probe.check()


async def test_a_limit_can_be_changed_while_work_runs(driver: Driver) -> None:
    for _ in range(10):
        await driver.create()
    assert len(await driver.take(6)) == 6
    await driver.configure(max_concurrency=2)
    assert await driver.take(10) == []
    await driver.configure(max_concurrency=8)
    assert len(await driver.take(10)) == 2
    await driver.configure()
    assert len(await driver.take(10)) == 2


async def test_the_settings_of_a_lane_can_be_read(driver: Driver) -> None:
    assert await driver.backend.describe_lane(LANE) == c.LaneSettings(lane_id=LANE, state=LaneState.ACTIVE)
    await driver.configure(max_concurrency=7, key_concurrency=2, ageing_ms_per_priority=1_000)
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.PAUSED))
    assert await driver.backend.describe_lane(LANE) == c.LaneSettings(
        lane_id=LANE, state=LaneState.PAUSED, max_concurrency=7, key_concurrency=2, ageing_ms_per_priority=1_000
    )
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.ACTIVE))
    await driver.configure()
    assert await driver.backend.describe_lane(LANE) == c.LaneSettings(lane_id=LANE, state=LaneState.ACTIVE)


async def test_other_lanes_are_not_limited(driver: Driver) -> None:
    other = LaneId("other")
    await driver.configure(max_concurrency=1)
    for _ in range(3):
        await driver.create()
        await driver.create(lane_id=other)
    assert (len(await driver.take(3)), len(await driver.take(3, lane_id=other))) == (1, 3)


async def test_the_members_of_a_flow_are_counted_in_the_flows_partition(driver: Driver) -> None:
    await driver.configure(max_concurrency=2)
    flow, homes = FlowId.new(), lane_partitions(LANE, driver.backend.partitions)
    while flow_partition(flow, driver.backend.partitions) in homes:
        flow = FlowId.new()
    members = [ExecutionId.for_flow(flow, driver.backend.partitions) for _ in range(3)]
    for member in members:
        await driver.create(execution_id=member)
        await driver.create()
    partition = Partition(PartitionFamily.FLOW, members[0].partition_index)
    assert (len(await driver.take(9)), len(await driver.take(9, partition=partition))) == (2, 2)


@pytest.mark.parametrize("seed", SEEDS)
async def test_claims_at_the_same_time_never_exceed_the_limit(driver: Driver, seed: int) -> None:
    """Workers that claim and finish as they like, in an order drawn from a seed."""
    order, limit, most = random.Random(seed), 5, 0
    await driver.configure(max_concurrency=limit)
    for _ in range(40):
        await driver.create(policy=GPU if order.random() < 0.3 else None)
    left = 40

    async def work() -> None:
        nonlocal most, left
        while left > 0:
            held = await driver.take(order.randint(1, 4), worker_capabilities=("gpu",))
            most = max(most, await running(driver))
            for x in held:
                await (driver.complete(x) if order.random() < 0.8 else driver.cancel(x))
                left -= 1

    await asyncio.gather(*(work() for _ in range(6)))
    assert 1 < most <= limit
    await driver.probe.check()


async def heard_until_now(driver: Driver, listener: WorkListener) -> set[tuple[LaneId, Partition]]:
    """What a worker hears of the lane before it hears of work in another one, which comes now."""
    found: set[tuple[LaneId, Partition]] = set()
    tag = lane_partitions(LANE, driver.backend.partitions)[0].tag
    later = await driver.create(lane_id=LATER, execution_id=ExecutionId(f"{tag}:{driver.mint().uuid}"))
    while LATER not in {lane for lane, _ in found}:
        found |= await listener.wait()
    await driver.cancel(later)
    return {place for place in found if place[0] == LANE}


async def heard(driver: Driver, step: Awaitable[object]) -> set[tuple[LaneId, Partition]]:
    """What a worker hears of the lane because of a step; in a cluster, news of before may still be on its way."""
    async with driver.backend.listen_for_work([LANE, LATER], ["gpu"]) as listener:
        await listener.wait()
        await heard_until_now(driver, listener)
        await step
        return await heard_until_now(driver, listener)


async def test_a_place_that_becomes_free_in_a_full_lane_is_announced(driver: Driver) -> None:
    place = {(LANE, lane_partitions(LANE, driver.backend.partitions)[0])}
    for _ in range(3):
        await driver.create(policy=GPU)
    await driver.configure(max_concurrency=2)
    first, second = await driver.take(3, worker_capabilities=("gpu",))
    assert await heard(driver, driver.complete(first)) == place
    assert await heard(driver, driver.complete(second)) == set(), "the lane was not full any more"
    assert await heard(driver, driver.configure(max_concurrency=3)) == place


async def test_a_place_that_a_suspension_leaves_in_a_full_lane_is_announced(driver: Driver) -> None:
    waits = Suspender(driver)
    await waits.seed()
    for _ in range(2):
        await driver.create()
    await driver.configure(max_concurrency=1)
    (x,) = await driver.take(2)
    place = {(LANE, lane_partitions(LANE, driver.backend.partitions)[0])}
    assert await heard(driver, waits.suspend(x, issue_tokens=False)) == place


async def test_a_place_that_the_finishing_worker_takes_again_is_not_announced(driver: Driver) -> None:
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    for _ in range(3):
        await driver.create()
    await driver.configure(max_concurrency=1)
    (x,) = await driver.take()

    async def finish_and_claim() -> None:
        ask = b.ClaimExecutionsArgs(lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL)
        ended = c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence)
        args = b.FinishExecutionsArgs(partition=partition, finish=(ended,), claim=ask)
        assert len((await driver.backend.finish_executions(args)).claimed) == 1

    assert await heard(driver, finish_and_claim()) == set()


async def started(driver: Driver, count: int) -> list[ExecutionId]:
    return [x.execution_id for x in await driver.take(count)]


async def test_priority_is_strict_without_ageing(driver: Driver) -> None:
    old = await driver.create()
    await driver.clock.advance(1_000_000_000)
    urgent = await driver.create(priority=1)
    assert await started(driver, 2) == [urgent.execution_id, old.execution_id]


async def test_with_ageing_a_step_of_priority_is_worth_so_much_waiting(driver: Driver) -> None:
    await driver.configure(ageing_ms_per_priority=1_000)
    oldest = await driver.create()
    await driver.clock.advance(1_500)
    middle = await driver.create(priority=1)
    newest = await driver.create(priority=2)
    assert await started(driver, 3) == [each.execution_id for each in (newest, oldest, middle)]


async def test_ageing_applies_to_what_waits_already_and_can_be_taken_back(driver: Driver) -> None:
    oldest = await driver.create()
    await driver.clock.advance(5_000)
    urgent = [await driver.create(priority=1, policy=policy) for policy in (None, GPU)]
    await driver.configure(ageing_ms_per_priority=1_000)
    scan = c.ScanEligibleArgs(lane_id=LANE, partition=lane_partitions(LANE, driver.backend.partitions)[0], limit=10)
    assert (await driver.backend.scan_eligible_executions(scan))[0] == oldest.execution_id
    await driver.configure()
    assert (await driver.backend.scan_eligible_executions(scan))[2] == oldest.execution_id
    assert {x.execution_id for x in urgent} == set((await driver.backend.scan_eligible_executions(scan))[:2])


async def test_the_age_of_the_oldest_is_told_with_ageing_too(driver: Driver) -> None:
    await driver.configure(ageing_ms_per_priority=1_000)
    await driver.create(priority=3)
    await driver.clock.advance(700)
    await driver.create(priority=9)
    (found,) = await driver.backend.count_executions(LANE)
    assert found.oldest_waiting_ms == 700


class TestSeveralShards:
    """A lane whose limit is shared out among its shards."""

    SHARDS = 4

    @pytest.fixture
    def lane_shards(self) -> int:
        return self.SHARDS

    async def test_the_shares_add_up_to_the_limit_and_differ_by_one(self, driver: Driver) -> None:
        shards = lane_partitions(LANE, driver.backend.partitions)
        for shard in shards:
            for _ in range(5):
                await driver.create(execution_id=ExecutionId(f"{shard.tag}:{driver.mint().uuid}"))
        await driver.configure(max_concurrency=6)
        taken = [len(await driver.take(5, partition=shard)) for shard in shards]
        assert sorted(taken) == [1, 1, 2, 2]
        assert await driver.take(20) == []
        assert (await driver.backend.describe_lane(LANE)).max_concurrency == 6

    async def test_every_execution_gets_its_turn_at_the_smallest_limit(self, driver: Driver) -> None:
        ids = {(await driver.create()).execution_id for _ in range(20)}
        await driver.configure(max_concurrency=self.SHARDS)
        done = set()
        while held := await driver.take(20):
            assert len(held) <= self.SHARDS
            for x in held:
                await driver.complete(x)
                done.add(x.execution_id)
        assert done == ids

    async def test_a_limit_that_leaves_a_shard_without_a_share_is_refused(self, driver: Driver) -> None:
        before = await driver.probe.dump()
        with pytest.raises(InvalidInput, match="concurrency_key") as caught:
            await driver.configure(max_concurrency=self.SHARDS - 1)
        assert caught.value.field == "max_concurrency"
        assert await driver.probe.dump() == before

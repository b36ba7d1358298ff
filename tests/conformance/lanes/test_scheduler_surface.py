"""claim_for_worker, scan_eligible_executions, block_route, list_lanes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import Partition, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import BlockingReason, LaneState, PublicState
from flowfabric.errors import Conflict, InvalidInput
from tests.conformance.driver import INSTANCE, LANE, WORKER, Driver, Subject

pytestmark = pytest.mark.every_store

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))


async def ask(driver: Driver, **overrides: Any) -> c.ClaimForWorkerOutcome:
    args: dict[str, Any] = {
        "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "grant_ttl_ms": 5_000, **overrides,
    }  # fmt: skip
    return await driver.backend.claim_for_worker(c.ClaimForWorkerArgs(**args))


async def granted(driver: Driver, **overrides: Any) -> Subject:
    outcome = await ask(driver, **overrides)
    assert isinstance(outcome, c.WorkGranted), outcome
    return Subject(outcome.grant.execution_id)


async def scan(driver: Driver, **overrides: Any) -> list[ExecutionId]:
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    args: dict[str, Any] = {"lane_id": LANE, "partition": partition, "limit": 100, **overrides}
    return await driver.backend.scan_eligible_executions(c.ScanEligibleArgs(**args))


async def test_an_empty_lane_has_no_work(driver: Driver) -> None:
    assert await ask(driver) == c.NoWork()


async def test_the_grant_names_its_execution_and_where_it_lives(driver: Driver) -> None:
    x = await driver.create()
    outcome = await ask(driver)
    assert isinstance(outcome, c.WorkGranted)
    assert outcome.grant.execution_id == x.execution_id
    assert outcome.grant.partition.tag == x.execution_id.tag
    assert outcome.grant.expires_at_ms == driver.clock.now_ms + 5_000
    assert (await driver.info(x)).public_state is PublicState.WAITING
    await driver.claim(x)


async def test_the_best_that_the_worker_can_run_is_granted(driver: Driver) -> None:
    low, high, gpu = await driver.create(), await driver.create(priority=5), await driver.create(policy=GPU, priority=0)
    await driver.change_priority(gpu, 9)
    order = [await granted(driver) for _ in range(2)]
    assert [x.execution_id for x in order] == [high.execution_id, low.execution_id]
    assert await ask(driver) == c.NoWork()
    assert (await granted(driver, worker_capabilities=("gpu",))).execution_id == gpu.execution_id


async def test_grants_that_are_out_hide_nothing_behind_them(driver: Driver) -> None:
    for _ in range(130):
        await driver.create(priority=1)
    last = await driver.create()
    found = [(await granted(driver)).execution_id for _ in range(131)]
    assert len(set(found)) == 131
    assert found[-1] == last.execution_id
    assert await ask(driver) == c.NoWork()


async def test_a_grant_that_ran_out_is_given_again(driver: Driver) -> None:
    x = await driver.create()
    await granted(driver, grant_ttl_ms=10)
    await driver.clock.advance(11)
    assert (await granted(driver)).execution_id == x.execution_id


async def test_only_the_worker_with_the_grant_claims(driver: Driver) -> None:
    await driver.create()
    x = await granted(driver, worker_id=WorkerId("other"), worker_instance_id=WorkerInstanceId("other-1"))
    with pytest.raises(Conflict) as caught:
        await driver.claim(x)
    assert caught.value.code == "invalid_claim_grant"
    await driver.claim(x, worker_id=WorkerId("other"), worker_instance_id=WorkerInstanceId("other-1"))


async def test_an_interrupted_attempt_is_granted_too(driver: Driver) -> None:
    x = await driver.reach(Situation.INTERRUPTED_WAITING)
    await granted(driver)
    with pytest.raises(Conflict) as caught:
        await driver.claim(x)
    assert caught.value.code == "use_claim_resumed_execution"
    await driver.claim_resumed(x)


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.DISABLED, LaneState.DRAINING])
async def test_a_closed_lane_grants_nothing_new(driver: Driver, state: LaneState) -> None:
    await driver.create()
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))
    assert await ask(driver) == c.NoWork()


async def test_limits_hold_for_grants(driver: Driver) -> None:
    for _ in range(2):
        await driver.create(priority=1)
    await driver.take()
    await driver.configure(max_concurrency=1)
    assert await ask(driver) == c.NoWork()
    await driver.configure(max_concurrency=2)
    await granted(driver)


async def test_one_whose_key_is_full_is_passed_over(driver: Driver) -> None:
    plain = await driver.create(concurrency_key="k")
    await driver.create(concurrency_key="k", policy=GPU)
    await driver.run(plain)
    other = await driver.create(policy=GPU)
    assert (await granted(driver, worker_capabilities=("gpu",))).execution_id == other.execution_id
    assert await ask(driver, worker_capabilities=("gpu",)) == c.NoWork()


async def test_many_workers_that_ask_at_once_get_an_execution_each(driver: Driver) -> None:
    for _ in range(20):
        await driver.create()
    outcomes = await asyncio.gather(*(ask(driver) for _ in range(30)))
    found = [outcome.grant.execution_id for outcome in outcomes if isinstance(outcome, c.WorkGranted)]
    assert len(found) == len(set(found)) == 20


async def test_a_scan_lists_what_may_start_the_next_one_first(driver: Driver) -> None:
    wanted = []
    for priority, policy in ((9, None), (5, GPU), (5, None), (0, GPU)):
        await driver.clock.advance(1)
        x = await driver.create(policy=policy)
        if priority:
            await driver.change_priority(x, priority)
        wanted.append(x.execution_id)
    for situation in (Situation.DELAYED, Situation.ACTIVE, Situation.BLOCKED_BY_ROUTE, Situation.COMPLETED):
        await driver.reach(situation)
    before = await driver.probe.dump()
    assert await scan(driver) == wanted
    assert await scan(driver, limit=2) == wanted[:2]
    assert await scan(driver, lane_id=LaneId("other")) == []
    assert await driver.probe.dump() == before


async def block_route(driver: Driver, x: Subject, **overrides: Any) -> c.BlockRouteOutcome:
    args: dict[str, Any] = {
        "execution_id": x.execution_id,
        "lane_id": LANE,
        "reason_detail": "no gpu here",
        **overrides,
    }
    return await driver.backend.block_route(c.BlockRouteArgs(**args))


async def test_a_route_is_blocked_by_hand_and_unblocked_again(driver: Driver) -> None:
    x = await driver.create(policy=GPU)
    assert await block_route(driver, x) == c.RouteBlocked(execution_id=x.execution_id)
    info = await driver.info(x)
    assert info.state_vector.blocking_reason is BlockingReason.WAITING_FOR_CAPABLE_WORKER
    assert info.blocking_detail == "no gpu here"
    assert await driver.take(1, worker_capabilities=("gpu",)) == []
    await driver.unblock(x)
    assert len(await driver.take(1, worker_capabilities=("gpu",))) == 1
    await driver.probe.check()


@pytest.mark.parametrize(
    ("situation", "code"), [(Situation.ACTIVE, "execution_not_eligible"), (Situation.COMPLETED, "execution_not_active")]
)
async def test_one_that_has_moved_on_is_not_blocked(driver: Driver, situation: Situation, code: str) -> None:
    x = await driver.reach(situation)
    before = await driver.probe.dump()
    assert await block_route(driver, x) == c.RouteBlockRejected(message=code)
    assert await driver.probe.dump() == before
    assert await block_route(driver, Subject(driver.mint())) == c.RouteBlockRejected(message="execution_not_found")


async def test_a_reason_that_holds_nothing_back_is_refused(driver: Driver) -> None:
    x = await driver.create()
    with pytest.raises(InvalidInput) as caught:
        await block_route(driver, x, reason_code=BlockingReason.WAITING_FOR_SIGNAL)
    assert caught.value.code == "invalid_blocking_reason"


async def lanes(driver: Driver, **args: Any) -> c.ListLanesPage:
    return await driver.backend.list_lanes(c.ListLanesArgs(**args))


async def test_lanes_are_listed_by_name_over_all_partitions(driver: Driver) -> None:
    assert await lanes(driver) == c.ListLanesPage()
    names = sorted(LaneId(f"lane {n}") for n in range(25))
    for name in reversed(names):
        await driver.create(lane_id=name)
    assert await lanes(driver) == c.ListLanesPage(lanes=tuple(names))
    found: list[LaneId] = []
    page = await lanes(driver, limit=4)
    while True:
        found += page.lanes
        if page.next_cursor is None:
            break
        assert len(page.lanes) == 4
        page = await lanes(driver, limit=4, cursor=page.next_cursor)
    assert found == names


async def test_the_last_page_of_lanes_has_no_cursor(driver: Driver) -> None:
    for name in ("a", "b"):
        await driver.create(lane_id=LaneId(name))
    assert await lanes(driver, limit=2) == c.ListLanesPage(lanes=(LaneId("a"), LaneId("b")))
    assert await lanes(driver, limit=1) == c.ListLanesPage(lanes=(LaneId("a"),), next_cursor=LaneId("a"))
    assert await lanes(driver, cursor=LaneId("aa")) == c.ListLanesPage(lanes=(LaneId("b"),))
    assert await lanes(driver, cursor=LaneId("b")) == c.ListLanesPage()


class TestSeveralShards:
    """A lane in several partitions."""

    @pytest.fixture
    def lane_shards(self) -> int:
        return 4

    async def test_grants_come_from_all_shards_in_turn(self, driver: Driver) -> None:
        shards = lane_partitions(LANE, driver.backend.partitions)
        for shard in shards:
            for _ in range(3):
                await driver.create(execution_id=ExecutionId(f"{shard.tag}:{driver.mint().uuid}"))
        first = [(await granted(driver)).execution_id.tag for _ in shards]
        assert sorted(first) == sorted(shard.tag for shard in shards)
        rest = [(await granted(driver)).execution_id for _ in range(8)]
        assert len(set(rest)) == 8
        assert await ask(driver) == c.NoWork()

    async def test_a_lane_in_several_shards_is_listed_once(self, driver: Driver) -> None:
        for _ in range(20):
            await driver.create()
        assert await lanes(driver) == c.ListLanesPage(lanes=(LANE,))

    async def test_a_scan_is_of_one_partition(self, driver: Driver) -> None:
        ids = [(await driver.create()).execution_id for _ in range(20)]
        found: list[ExecutionId] = []
        for shard in lane_partitions(LANE, driver.backend.partitions):
            found += await driver.backend.scan_eligible_executions(_scan_args(shard))
        assert sorted(found) == sorted(ids)


def _scan_args(partition: Partition) -> c.ScanEligibleArgs:
    return c.ScanEligibleArgs(lane_id=LANE, partition=partition, limit=100)

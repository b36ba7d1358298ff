"""concurrency_key: how many executions of one key run at once, who of them is next, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.partition import PartitionConfig, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import BlockingReason, PublicState
from flowfabric.errors import FlowFabricError, InvalidInput, Limited
from tests.conformance.driver import BACKOFF, DEADLINE_IN, INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.execution.test_keyspace_invariant import trim
from tests.conformance.lanes.test_lane_limits import WAYS_TO_STOP
from tests.soaking import examples

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
SEEDS = range(examples(4, soak=100))
S = PublicState


async def keyed(driver: Driver, key: str = "k", **overrides: Any) -> Subject:
    return await driver.create(concurrency_key=key, **overrides)


async def states(driver: Driver, *subjects: Subject) -> list[PublicState]:
    return [(await driver.info(x)).public_state for x in subjects]


async def ids_of(taken: list[Subject]) -> list[ExecutionId]:
    return [x.execution_id for x in taken]


async def test_one_of_a_key_runs_at_a_time_without_settings(driver: Driver) -> None:
    first, second, third = [await keyed(driver, priority=priority) for priority in (3, 2, 1)]
    assert await states(driver, first, second, third) == [S.WAITING, S.RATE_LIMITED, S.RATE_LIMITED]
    assert await ids_of(await driver.take(5)) == [first.execution_id]
    assert await driver.take(5) == []
    await driver.probe.check()


async def test_who_waits_for_its_key_says_so(driver: Driver) -> None:
    await keyed(driver, "customer-42", priority=1)
    x = await keyed(driver, "customer-42")
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert snapshot.blocking_reason is BlockingReason.WAITING_FOR_QUOTA
    assert "customer-42" in (snapshot.blocking_detail or "")
    assert snapshot.concurrency_key == (await driver.info(x)).concurrency_key == "customer-42"
    (found,) = await driver.backend.count_executions(LANE)
    assert found.counts == {S.WAITING: 1, S.RATE_LIMITED: 1}


async def test_the_lane_may_let_several_of_a_key_run(driver: Driver) -> None:
    await driver.configure(key_concurrency=3)
    for _ in range(5):
        await keyed(driver)
    assert [len(await driver.take(2)) for _ in range(3)] == [2, 1, 0]
    await driver.probe.check()


async def test_keys_do_not_wait_for_each_other(driver: Driver) -> None:
    for key in ("a", "b"):
        for _ in range(3):
            await keyed(driver, key)
    plain = [await driver.create() for _ in range(3)]
    taken = await driver.take(20)
    assert len(taken) == 5
    assert {x.execution_id for x in plain} < {x.execution_id for x in taken}


@pytest.mark.parametrize("way", WAYS_TO_STOP)
async def test_every_way_to_stop_lets_the_next_of_the_key_go_in_the_same_step(driver: Driver, way: str) -> None:
    await keyed(driver)
    (held,) = await driver.take()
    waiting = await keyed(driver, priority=1)
    assert await states(driver, waiting) == [S.RATE_LIMITED]
    await WAYS_TO_STOP[way](driver, held)
    assert await states(driver, waiting) == [S.WAITING]
    await driver.probe.check()
    assert waiting.execution_id in await ids_of(await driver.take(5))
    assert "unblocked" in [e.event for e in (await driver.backend.history(waiting.execution_id)).events]


async def test_a_lost_execution_that_was_requeued_does_not_run_beside_the_next(driver: Driver) -> None:
    await keyed(driver)
    await driver.take()
    await keyed(driver, priority=1)
    await driver.clock.advance(TTL)
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    assert (await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))).requeued == 1
    assert len(await driver.take(5)) == 1
    await driver.probe.check()


async def test_a_lease_that_only_ran_out_still_holds_its_place(driver: Driver) -> None:
    """Until somebody takes it over its worker may be at work, without knowing."""
    x, _ = await driver.run(await keyed(driver)), await keyed(driver)
    await driver.clock.advance(TTL)
    await driver.mark_expired(x)
    assert await driver.take(5) == []
    await driver.reclaim_grant(x)
    await driver.reclaim(x)
    assert await driver.take(5) == []
    await driver.complete(x)
    assert len(await driver.take(5)) == 1


async def test_the_best_of_a_key_goes_first(driver: Driver) -> None:
    subjects = {}
    for priority in (5, 1, 3, 9):
        await driver.clock.advance(1)
        subjects[priority] = await keyed(driver, priority=priority)
    for priority in (9, 5, 3, 1):
        (held,) = await driver.take(5)
        assert held.execution_id == subjects[priority].execution_id
        await driver.complete(held)
    await driver.probe.check()


async def test_age_decides_inside_one_priority(driver: Driver) -> None:
    subjects = []
    for _ in range(4):
        subjects.append(await keyed(driver))
        await driver.clock.advance(1)
    for x in subjects:
        (held,) = await driver.take(5)
        assert held.execution_id == x.execution_id
        await driver.fail(held)


async def test_a_better_one_takes_the_place_of_one_that_has_not_started(driver: Driver) -> None:
    low, high = await keyed(driver), await keyed(driver, priority=1)
    assert await states(driver, low, high) == [S.RATE_LIMITED, S.WAITING]
    (held,) = await driver.take(5)
    assert held.execution_id == high.execution_id
    highest = await keyed(driver, priority=2)
    assert await states(driver, held, highest) == [S.ACTIVE, S.RATE_LIMITED]
    await driver.probe.check()


async def test_one_that_no_worker_can_run_does_not_hold_up_its_key(driver: Driver) -> None:
    """Executions that need the same form a group; a group waits for running ones only."""
    needs_gpu, plain = await keyed(driver, policy=GPU, priority=5), await keyed(driver)
    assert await states(driver, needs_gpu, plain) == [S.WAITING, S.WAITING]
    assert await ids_of(await driver.take(5)) == [plain.execution_id]
    assert await driver.take(5, worker_capabilities=("gpu",)) == []
    assert await states(driver, needs_gpu) == [S.RATE_LIMITED]
    await driver.probe.check()
    await driver.cancel(plain)
    assert await ids_of(await driver.take(5, worker_capabilities=("gpu",))) == [needs_gpu.execution_id]
    await driver.probe.check()


async def test_one_claim_takes_one_of_a_key_over_all_its_groups(driver: Driver) -> None:
    for policy in (GPU, None, GPU, None):
        await keyed(driver, policy=policy)
    assert len(await driver.take(10, worker_capabilities=("gpu",))) == 1
    await driver.probe.check()


async def named(driver: Driver, x: Subject) -> object:
    (outcome,) = await driver.backend.claim_executions(
        b.ClaimExecutionsArgs(
            lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL,
            worker_capabilities=("gpu",), execution_ids=(x.execution_id,),
        )
    )  # fmt: skip
    if isinstance(outcome, FlowFabricError):
        raise outcome
    return outcome


@pytest.mark.parametrize("way", ["grant", "one step", "named"])
async def test_a_claim_of_one_whose_key_is_full_is_refused(driver: Driver, way: str) -> None:
    needs_gpu, plain = await keyed(driver, policy=GPU), await keyed(driver)
    await driver.run(plain)
    claims = {
        "grant": lambda: driver.grant(needs_gpu, worker_capabilities=("gpu",)),
        "one step": lambda: driver.grant_and_claim(needs_gpu, worker_capabilities=("gpu",)),
        "named": lambda: named(driver, needs_gpu),
    }
    with pytest.raises(Limited, match="concurrency_key k") as caught:
        await claims[way]()
    assert caught.value.code == "concurrency_limit_exceeded"
    await driver.complete(plain)
    await claims[way]()


async def test_raising_the_limit_lets_the_waiting_go_at_once(driver: Driver) -> None:
    subjects = [await keyed(driver, key) for key in ("a", "b") for _ in range(5)]
    assert len(await driver.take(20)) == 2
    await driver.configure(key_concurrency=3)
    assert Counter(await states(driver, *subjects)) == {S.ACTIVE: 2, S.WAITING: 4, S.RATE_LIMITED: 4}
    assert len(await driver.take(20)) == 4
    await driver.probe.check()


async def test_raising_the_limit_by_much_lets_all_of_them_go(driver: Driver) -> None:
    """More than one step lets go."""
    await submit(driver, [{"concurrency_key": "k"} for _ in range(350)])
    await driver.configure(key_concurrency=300)
    (found,) = await driver.backend.count_executions(LANE)
    assert found.counts == {S.WAITING: 300, S.RATE_LIMITED: 50}
    await driver.probe.check()


async def test_lowering_the_limit_holds_back_what_has_not_started(driver: Driver) -> None:
    await driver.configure(key_concurrency=4)
    subjects = [await keyed(driver) for _ in range(6)]
    running = await driver.take(2)
    await driver.configure(key_concurrency=1)
    assert await driver.take(5) == []
    await driver.complete(running[0])
    assert await driver.take(5) == []
    await driver.complete(running[1])
    assert len(await driver.take(5)) == 1
    assert Counter(await states(driver, *subjects)) == {S.COMPLETED: 2, S.ACTIVE: 1, S.RATE_LIMITED: 3}
    await driver.probe.check()


async def test_those_that_a_claim_sets_aside_hide_nothing_behind_them(driver: Driver) -> None:
    await driver.configure(key_concurrency=4)
    for _ in range(4):
        await keyed(driver, priority=1)
    for _ in range(3):
        await driver.create()
    await driver.configure(key_concurrency=1)
    assert len(await driver.take(4)) == 4
    await driver.probe.check()


async def test_who_waits_for_its_key_can_be_cancelled_and_expires(driver: Driver) -> None:
    first, cancelled, expired, last = [await keyed(driver, priority=priority) for priority in (9, 5, 4, 1)]
    (held,) = await driver.take(5)
    await driver.cancel(cancelled)
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(expired, c.ExpireReason.EXECUTION_DEADLINE)
    assert await states(driver, first, last) == [S.ACTIVE, S.RATE_LIMITED]
    await driver.cancel(held)
    assert await states(driver, last) == [S.WAITING]
    await driver.probe.check()


async def test_a_block_gives_the_place_away_and_the_way_back_leads_past_the_key(driver: Driver) -> None:
    first, second = await keyed(driver, priority=1), await keyed(driver)
    await driver.block(first, BlockingReason.PAUSED_BY_OPERATOR)
    assert await states(driver, second) == [S.WAITING]
    (held,) = await driver.take(5)
    await driver.unblock(first)
    assert await states(driver, first) == [S.RATE_LIMITED]
    await driver.probe.check()
    await driver.complete(held)
    assert await states(driver, first) == [S.WAITING]


async def test_who_waits_for_its_key_can_be_blocked_for_another_reason(driver: Driver) -> None:
    (held,) = await driver.take(1) if await keyed(driver) else []
    x = await keyed(driver)
    await driver.block(x, BlockingReason.WAITING_FOR_QUOTA)
    await driver.probe.check()
    await driver.complete(held)
    assert await states(driver, x) == [S.RATE_LIMITED], "the key does not lift another one's block"
    await driver.unblock(x)
    assert await states(driver, x) == [S.WAITING]


async def test_an_unblock_does_not_lead_past_a_full_key(driver: Driver) -> None:
    await keyed(driver)
    await driver.take()
    x = await keyed(driver)
    await driver.unblock(x)
    assert await states(driver, x) == [S.RATE_LIMITED]
    assert await driver.take(5) == []
    await driver.probe.check()


async def test_delays_and_replays_lead_to_the_key_too(driver: Driver) -> None:
    delayed, ended = await keyed(driver, delay_ms=BACKOFF), await keyed(driver, "other")
    (x,) = await driver.take()
    await driver.complete(x)
    await keyed(driver, priority=1)
    await keyed(driver, "other", priority=1)
    assert len(await driver.take(5)) == 2
    await driver.clock.advance(BACKOFF)
    assert await driver.promote(delayed) == c.DelayedPromoted()
    assert await driver.replay(ended) == c.ExecutionReplayed(public_state=S.RATE_LIMITED)
    assert await states(driver, delayed, ended) == [S.RATE_LIMITED, S.RATE_LIMITED]
    await driver.probe.check()


async def test_a_replacement_moves_from_key_to_key(driver: Driver) -> None:
    mode = c.DuplicateMode.REPLACE_WHILE_WAITING
    x = await keyed(driver, "a", idempotency_key="once", priority=1)
    behind, other = await keyed(driver, "a"), await keyed(driver, "b", priority=5)
    replaced = await driver.submit(concurrency_key="b", idempotency_key="once", on_duplicate=mode)
    assert replaced == c.ExecutionReplaced(execution_id=x.execution_id, public_state=S.RATE_LIMITED)
    assert await states(driver, behind, other, x) == [S.WAITING, S.WAITING, S.RATE_LIMITED]
    await driver.probe.check()


async def test_a_key_belongs_to_its_lane_and_namespace(driver: Driver) -> None:
    other = LaneId("other")
    await keyed(driver)
    await keyed(driver, namespace=Namespace("theirs"))
    await keyed(driver, lane_id=other, execution_id=driver.mint(LANE))
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    assert len(await driver.take(5)) == 2
    assert len(await driver.take(5, lane_id=other, partition=partition)) == 1


@pytest.mark.parametrize("pair", [("a:b", "a%3Ab"), ("x", "x:"), ("ü {1}", "ü {2}"), ("eligible", "active")])
async def test_no_two_keys_are_taken_for_one(driver: Driver, pair: tuple[str, str]) -> None:
    for key in pair:
        await keyed(driver, key)
        await keyed(driver, key)
    assert len(await driver.take(5)) == 2
    await driver.probe.check()


async def test_the_parts_of_a_name_cannot_be_mixed_up(driver: Driver) -> None:
    tag = driver.mint().tag
    for lane, namespace, key in (("a", "b", "c:d"), ("a", "b:c", "d"), ("a:b", "c", "d")):
        execution_id = ExecutionId(f"{tag}:{driver.mint().uuid}")
        await keyed(driver, key, lane_id=LaneId(lane), namespace=Namespace(namespace), execution_id=execution_id)
    found = await driver.probe.check()
    assert {state.public_state for state in found.values()} == {S.WAITING}


async def submit(driver: Driver, items: list[dict[str, Any]]) -> list[ExecutionId]:
    outcomes = await driver.backend.submit_executions(
        [
            c.CreateExecutionArgs(
                execution_id=driver.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind", **item
            )
            for item in items
        ]
    )
    return [outcome.execution_id for outcome in outcomes if isinstance(outcome, c.ExecutionCreated)]


async def test_items_of_one_batch_are_counted(driver: Driver) -> None:
    await driver.configure(key_concurrency=2)
    items: list[dict[str, Any]] = [{"concurrency_key": "k", "priority": n % 4} for n in range(20)]
    assert len(await submit(driver, [*items, *({} for _ in range(5))])) == 25
    assert Counter(s.public_state for s in (await driver.probe.check()).values()) == {
        S.WAITING: 7, S.RATE_LIMITED: 18,
    }  # fmt: skip
    taken = await driver.take(25)
    assert len(taken) == 7
    (partition,) = lane_partitions(LANE, driver.backend.partitions)
    endings = tuple(c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence) for x in taken)
    ask = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=10
    )  # fmt: skip
    done = await driver.backend.finish_executions(
        b.FinishExecutionsArgs(partition=partition, finish=endings, claim=ask)
    )
    assert len(done.claimed) == 2
    await driver.probe.check()


async def test_ten_thousand_of_one_key_do_not_delay_others(driver: Driver) -> None:
    for _ in range(10):  # a server takes so many at once
        await submit(driver, [{"concurrency_key": "k"} for _ in range(1_000)])
    await driver.clock.advance(1)
    others = await submit(driver, [{} for _ in range(3)])
    taken = await ids_of(await driver.take(4))
    assert set(others) < set(taken)
    (found,) = await driver.backend.count_executions(LANE)
    assert found.counts == {S.ACTIVE: 4, S.RATE_LIMITED: 9_999}


@pytest.mark.parametrize("seed", SEEDS)
async def test_claims_at_the_same_time_never_exceed_the_limit(driver: Driver, seed: int) -> None:
    chance = random.Random(seed)
    await driver.configure(key_concurrency=2, max_concurrency=7)
    items: list[dict[str, Any]] = [
        {"concurrency_key": f"k{n % 4}", "priority": chance.randint(0, 2), "policy": chance.choice([None, GPU])}
        for n in range(60)
    ]
    for item in items:
        if item["policy"] is not None:
            item["priority"] = 0
    keys = dict(zip(await submit(driver, items), (item["concurrency_key"] for item in items), strict=True))
    running: Counter[str] = Counter()

    async def work() -> None:
        while any(keys.values()):
            for x in await driver.take(chance.randint(1, 5), worker_capabilities=("gpu",)):
                key = keys[x.execution_id]
                running[key] += 1
                assert running[key] <= 2
                assert running.total() <= 7
                await asyncio.sleep(0)
                running[key] -= 1
                if chance.random() < 0.2:
                    await driver.delay(x, driver.clock.now_ms)
                else:
                    await (driver.complete(x) if chance.random() < 0.8 else driver.cancel(x))
                    keys[x.execution_id] = ""

    await asyncio.gather(*(work() for _ in range(5)))
    await driver.probe.check()


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_lives_leave_no_place_taken_and_nobody_forgotten(
    driver: Driver, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any operation in any state; the invariants hold after each of them."""
    chance = random.Random(seed)
    fewer = PartitionConfig(num_flow_partitions=4)  # fewer keys to look at
    monkeypatch.setattr(driver.backend, "partitions", fewer)
    subjects: list[Subject] = []
    for _ in range(80):
        if len(subjects) < 8 and chance.random() < 0.4:
            policy = chance.choice([None, GPU])
            subjects.append(await keyed(driver, chance.choice("ab"), policy=policy, priority=chance.randint(0, 2)
                            if policy is None else 0, delay_ms=chance.choice([None, BACKOFF])))  # fmt: skip
        elif subjects:
            await _act(driver, chance, subjects)
        for name, running in (await _running_keys(driver, subjects)).items():
            assert running <= 2, name
        await driver.probe.check()


async def _act(driver: Driver, chance: random.Random, subjects: list[Subject]) -> None:
    at = chance.randrange(len(subjects))
    x = subjects[at]
    moves: list[Any] = [
        lambda: driver.grant_and_claim(x, worker_capabilities=("gpu",)), lambda: driver.complete(x),
        lambda: driver.fail(x, retry=True), lambda: driver.cancel(x), lambda: driver.delay(x, driver.clock.now_ms),
        lambda: driver.promote(x), lambda: driver.replay(x), lambda: driver.block(x, BlockingReason.WAITING_FOR_BUDGET),
        lambda: driver.unblock(x), lambda: driver.change_priority(x, chance.randint(0, 3)), lambda: driver.revoke(x),
        lambda: driver.clock.advance(TTL // 3), lambda: driver.configure(key_concurrency=chance.randint(1, 2)),
        lambda: driver.backend.run_due_work(
            b.RunDueWorkArgs(partition=lane_partitions(LANE, driver.backend.partitions)[0])
        ),
    ]  # fmt: skip
    if chance.random() < 0.4:
        for taken in await driver.take(chance.randint(1, 3), worker_capabilities=("gpu",)):
            subjects[[s.execution_id for s in subjects].index(taken.execution_id)] = taken
        return
    with suppress(FlowFabricError):  # not every operation is possible in every state
        await chance.choice(moves)()


async def _running_keys(driver: Driver, subjects: list[Subject]) -> Counter[str]:
    found: Counter[str] = Counter()
    for x in subjects:
        facts = await driver.backend.explain_execution(x.execution_id)
        found[facts.concurrency_key or ""] += facts.public_state is S.ACTIVE
    return found


async def test_whole_lives_leave_nothing_behind(driver: Driver) -> None:
    subjects = [await keyed(driver, priority=0, policy=policy) for policy in (None, GPU, None, GPU)]
    for _ in range(3):
        (held,) = await driver.take(5, worker_capabilities=("gpu",))
        await driver.complete(held)
    for x in subjects:
        with suppress(FlowFabricError):
            await driver.cancel(x)
    assert await trim(driver) == 4
    assert await driver.probe.left_behind() == []


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", 5])
async def test_a_key_that_is_no_label_is_refused(driver: Driver, key: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        await driver.submit(concurrency_key=key)
    assert caught.value.field == "concurrency_key"


class TestSeveralShards:
    """A lane in several partitions: a key lives in one of them."""

    @pytest.fixture
    def lane_shards(self) -> int:
        return 4

    async def test_the_key_chooses_the_shard_before_the_idempotency_key(self, driver: Driver) -> None:
        config = driver.backend.partitions
        tags = {
            ExecutionId.for_lane(LANE, config, concurrency_key="k", idempotency_key=once).tag
            for once in (None, "a", "b", "c", "d", "e")
        }
        assert len(tags) == 1
        assert len({ExecutionId.for_lane(LANE, config, concurrency_key=str(n)).tag for n in range(40)}) == 4

    async def test_the_limit_holds_over_all_shards(self, driver: Driver) -> None:
        keys = {}
        for n in range(40):
            key = f"k{n % 10}"
            execution_id = ExecutionId.for_lane(LANE, driver.backend.partitions, concurrency_key=key)
            await keyed(driver, key, execution_id=execution_id)
            keys[execution_id] = key
        taken = await driver.take(40)
        assert Counter(keys[x.execution_id] for x in taken) == {f"k{n}": 1 for n in range(10)}

"""Executions with limits: claimed only when all of them have room, waiting in order until they have (D20, D21)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flowfabric.backends.valkey import keys
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, LaneId, Namespace, QuotaPolicyId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import BlockingReason, LaneState, PublicState
from flowfabric.errors import Conflict, FlowFabricError, Limited
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.flowing import Graph
from tests.conformance.invariants import check_store
from tests.conformance.limiting import Limits
from tests.conformance.suspending import Suspender


@pytest.fixture
def limits(driver: Driver) -> Limits:
    return Limits(driver)


def ids(subjects: list[Subject]) -> list[str]:
    return [x.execution_id for x in subjects]


async def public(limits: Limits, x: Subject) -> PublicState | None:
    return await limits.backend.get_execution_state(x.execution_id)


def partition_of(x: Subject) -> Partition:
    return Partition(PartitionFamily.FLOW, x.execution_id.partition_index)


async def finish(limits: Limits, x: Subject, **claim: Any) -> b.FinishExecutionsResult:
    """Complete through the batch surface, which passes the slot on by itself."""
    asked = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, **claim
    )
    done = c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence, result_payload=b"")
    args = b.FinishExecutionsArgs(partition=partition_of(x), finish=(done,), claim=asked if claim else None)
    return await limits.backend.finish_executions(args)


class TestConcurrency:
    async def test_no_more_run_than_there_are_slots(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=2)
        made = [await limits.submit(quotas=(quota,)) for _ in range(5)]
        taken = await limits.driver.take(5)
        assert ids(taken) == ids(made[:2])
        assert [await public(limits, x) for x in made[2:]] == [PublicState.RATE_LIMITED] * 3
        assert (await limits.driver.state(made[2])).blocking_reason is BlockingReason.WAITING_FOR_QUOTA
        status = await limits.quota_status(quota)
        assert (status.running, status.room) == (2, 0)
        assert await limits.driver.take(5) == []
        await check_store(limits.backend.client)

    async def test_a_freed_slot_goes_to_the_next_in_order(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        first, low, high = [await limits.submit(quotas=(quota,), priority=p) for p in (9, 0, 5)]
        (held,) = await limits.driver.take(3)
        assert held.execution_id == first.execution_id
        await finish(limits, held)
        assert await public(limits, high) is PublicState.WAITING
        assert await public(limits, low) is PublicState.RATE_LIMITED, "one slot lets one go"
        (held,) = await limits.driver.take(3)
        assert held.execution_id == high.execution_id
        await check_store(limits.backend.client)

    async def test_who_comes_later_waits_behind_who_waits(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        waiting = await limits.submit(quotas=(quota,))
        await limits.driver.take(1)
        await limits.driver.clock.advance(1)
        late = await limits.submit(quotas=(quota,))
        await finish(limits, held)
        assert ids(await limits.driver.take(2)) == [waiting.execution_id]
        assert await public(limits, late) is PublicState.RATE_LIMITED

    async def test_a_finish_claims_the_next_with_the_slot_it_leaves(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        _, second, third = [await limits.submit(quotas=(quota,)) for _ in range(3)]
        (held,) = await limits.driver.take(3)
        (work,) = (await finish(limits, held, count=2)).claimed
        assert work.execution_id == second.execution_id
        assert (await limits.drain(held)).paid == 0, "the slot went on without asking anybody"
        assert (await limits.quota_status(quota)).running == 1
        (work,) = (await finish(limits, limits.driver.held(work), count=2)).claimed
        assert work.execution_id == third.execution_id
        await limits.driver.complete(limits.driver.held(work))
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 0
        await check_store(limits.backend.client)

    async def test_a_slot_that_went_on_for_long_goes_back_so_that_others_get_it(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        _, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        (held,) = await limits.driver.take(2)
        elsewhere = await limits.submit(quotas=(quota,), lane_id=LaneId("elsewhere"))
        assert await limits.driver.take(1, lane_id="elsewhere") == []
        await limits.driver.clock.advance(1_000)
        assert (await finish(limits, held, count=2)).claimed == []
        let_go = [x for x in (second, elsewhere) if await public(limits, x) is PublicState.WAITING]
        assert len(let_go) == 1

    @pytest.mark.parametrize("reason", ["capability", "budget", "key", "pause"])
    async def test_a_slot_goes_on_only_to_who_may_start_now(self, limits: Limits, reason: str) -> None:
        quota, budget = await limits.quota(max_concurrent=1), await limits.budget({"tokens": 1})
        await limits.submit(quotas=(quota,))
        match reason:
            case "capability":
                policy = ExecutionPolicy(
                    quota_policy_ids=(quota,), routing_requirements=RoutingRequirements(required_capabilities=("gpu",))
                )
                await limits.driver.clock.advance(1)
                other = await limits.driver.create(policy=policy)
            case "budget":
                other = await limits.submit(quotas=(quota,), budgets=(budget,))
            case "key":
                other = await limits.submit(quotas=(quota,), concurrency_key="k")
            case _:
                other = await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(2, worker_capabilities=("gpu",))
        assert await public(limits, other) is PublicState.RATE_LIMITED
        if reason == "pause":
            args = c.SetLaneStateArgs(lane_id=LANE, state=LaneState.PAUSED)
            await limits.backend.set_lane_state(args)
        await limits.spend(budget, tokens=1)
        assert (await finish(limits, held, count=2)).claimed == []

    @pytest.mark.parametrize("ending", ["complete", "fail", "retry", "delay", "cancel", "lose", "deadline", "suspend"])
    async def test_slots_come_back_however_the_running_ends(self, limits: Limits, ending: str) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await stop(limits.driver, held, ending)
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 0

    async def test_the_slot_stays_with_who_replaces_a_lost_attempt(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await limits.driver.revoke(held)
        await limits.driver.reclaim_grant(held)
        await limits.driver.reclaim(held)
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 1
        await limits.driver.complete(held)
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 0

    async def test_a_retry_is_admitted_anew(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await limits.driver.fail(held, retry=True)
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(held)
        await limits.drain(held)
        (again,) = await limits.driver.take(1)
        paid_again = c.ReleaseAdmissionArgs(quota_policy_id=quota, execution_id=again.execution_id, ticket=1)
        await limits.backend.release_admission(paid_again)
        assert (await limits.quota_status(quota)).running == 1, "the old debt does not free the new slot"
        await limits.driver.complete(again)
        await limits.drain(again)
        assert (await limits.quota_status(quota)).running == 0

    async def test_keys_are_counted_apart(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1, key_by=c.QuotaKey.EXECUTION_KIND)
        for kind in ("a", "a", "b"):
            await limits.submit(quotas=(quota,), execution_kind=kind)
        taken = await limits.driver.take(3)
        assert len(taken) == 2
        assert [(await limits.quota_status(quota, kind)).running for kind in ("a", "b")] == [1, 1]
        await finish(limits, taken[0])
        assert len(await limits.driver.take(3)) == 1

    async def test_a_lost_answer_to_an_offer_costs_no_slot(self, limits: Limits) -> None:
        """The worker dies after the quota admitted it and before it claimed."""
        quota = await limits.quota(max_concurrent=1)
        x = await limits.submit(quotas=(quota,))
        asking = limits.backend.ask_limits
        limits.backend.ask_limits = dying(asking)  # type: ignore[method-assign]
        with pytest.raises(Killed):
            await limits.driver.take(1)
        limits.backend.ask_limits = asking  # type: ignore[method-assign]
        assert (await limits.quota_status(quota)).running == 1
        assert await limits.driver.take(1) == [], "it is on offer to somebody"
        await limits.driver.clock.advance(5_001)
        drained = await limits.drain(x)
        assert (await limits.quota_status(quota)).running == 0
        assert drained.next_at_ms is None
        assert ids(await limits.driver.take(1)) == [x.execution_id]


class Killed(BaseException):
    pass


def dying(ask: Any) -> Any:
    async def killed(*args: Any) -> Any:
        await ask(*args)
        raise Killed

    return killed


async def stop(driver: Driver, x: Subject, how: str) -> Any:
    match how:
        case "complete":
            return await driver.complete(x)
        case "fail":
            return await driver.fail(x)
        case "retry":
            return await driver.fail(x, retry=True)
        case "delay":
            return await driver.delay(x, driver.clock.now_ms + BACKOFF)
        case "cancel":
            return await driver.cancel(x)
        case "lose":
            await driver.clock.advance(TTL)
            return await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition_of(x)))
        case "suspend":
            waiting = Suspender(driver)
            await waiting.seed()
            return await waiting.suspend(x)
    await driver.clock.advance(3_600_000)
    return await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)


class TestDebts:
    async def test_what_cannot_be_paid_now_stands_in_nobodys_way_and_is_paid_later(self, limits: Limits) -> None:
        broken, quota = [await limits.quota(max_concurrent=1) for _ in range(2)]
        for each in (broken, quota):
            await limits.submit(quotas=(each,))
        taken = await limits.driver.take(2)
        key = keys.quota(broken, limits.backend.partitions)
        await limits.backend.client.execute("HSET", key, "active_concurrency_cap", "some", key=key)
        for x in taken:
            await limits.driver.complete(x)
        drained = await limits.drain(taken[0])
        assert drained.next_at_ms == limits.driver.clock.now_ms + 5_000
        assert (await limits.quota_status(quota)).running == 0
        await limits.backend.client.execute("HSET", key, "active_concurrency_cap", "1", key=key)
        await limits.driver.clock.advance(5_000)
        await limits.drain(taken[0])
        assert (await limits.quota_status(broken)).running == 0

    async def test_nothing_is_owed_to_a_limit_that_is_gone(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        key = keys.quota(quota, limits.backend.partitions)
        await limits.backend.client.execute("DEL", key, key=key)
        await limits.driver.complete(held)
        assert (await limits.drain(held)).next_at_ms is None

    @pytest.mark.parametrize("seed", range(3))
    async def test_whatever_happens_no_more_run_than_there_are_slots_and_all_get_their_turn(
        self, limits: Limits, seed: int
    ) -> None:
        quota = await limits.quota(max_concurrent=3)
        crew = Crew(limits, [await limits.submit(quotas=(quota,)) for _ in range(12)], random.Random(seed))
        for _ in range(100):
            await crew.do_something()
            assert await crew.running() <= 3
            assert (await limits.quota_status(quota)).running <= 3
        await crew.finish_all()
        assert (await limits.quota_status(quota)).running == 0
        await check_store(limits.backend.client)


class Crew:
    """Workers that claim, finish, fail, wait and die, and an engine that looks after them now and then."""

    def __init__(self, limits: Limits, made: list[Subject], chance: random.Random) -> None:
        self.limits, self.driver, self.made, self.chance = limits, limits.driver, made, chance
        self.held: list[Subject] = []
        self.deeds = [self.take, self.take, self.finish, self.stop, self.die, self.engine, self.wait]

    async def do_something(self) -> None:
        await self.chance.choice(self.deeds)()

    async def take(self) -> None:
        self.held += await self.driver.take(self.chance.randint(1, 6))

    async def finish(self) -> None:
        if self.held:
            result = await finish(self.limits, self.held.pop(0), count=self.chance.randint(1, 4))
            self.held += [self.driver.held(work) for work in result.claimed]

    async def stop(self) -> None:
        if self.held:
            await stop(self.driver, self.held.pop(), self.chance.choice(["complete", "retry", "delay"]))

    async def die(self) -> None:
        if self.held:
            await self.driver.revoke(self.held.pop())

    async def wait(self) -> None:
        await self.driver.clock.advance(self.chance.randint(1, 6_000))
        for x in self.held:
            await self.driver.renew(x)

    async def engine(self) -> None:
        await self.driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition_of(self.made[0])))
        await self.limits.drain(self.made[0])

    async def running(self) -> int:
        key = f"ff:idx:{self.made[0].execution_id.tag}:lane:{LANE}:active"
        return int(await self.driver.backend.client.execute("ZCARD", key, key=key))  # type: ignore[arg-type]

    async def finish_all(self) -> None:
        for _ in range(100):
            for x in self.held:
                await self.driver.complete(x)
            await self.driver.clock.advance(5_000)
            await self.engine()
            if {await public(self.limits, x) for x in self.made} == {PublicState.COMPLETED}:
                return
            self.held = await self.driver.take(5)
        raise AssertionError("somebody never got a turn")


class TestRate:
    async def test_starts_are_spread_over_the_window(self, limits: Limits) -> None:
        quota = await limits.quota(window_seconds=10, max_requests_per_window=2)
        made = [await limits.submit(quotas=(quota,)) for _ in range(5)]
        for x in await limits.driver.take(5):
            await limits.driver.complete(x)
        assert await limits.driver.take(5) == []
        drained = await limits.drain()
        assert drained.next_at_ms == limits.driver.clock.now_ms + 10_000, "known to the millisecond"
        await limits.driver.clock.advance(9_999)
        await limits.drain()
        assert await limits.driver.take(5) == []
        await limits.driver.clock.advance(1)
        await limits.drain()
        assert ids(await limits.driver.take(5)) == ids(made[2:4])
        assert await public(limits, made[4]) is PublicState.RATE_LIMITED

    async def test_going_on_is_no_new_start(self, limits: Limits) -> None:
        quota = await limits.quota(window_seconds=10, max_requests_per_window=1)
        x = await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await limits.driver.delay(held, limits.driver.clock.now_ms)
        assert ids(await limits.driver.take(1)) == [x.execution_id]


class TestBudgets:
    async def test_nothing_starts_on_a_breached_budget(self, limits: Limits) -> None:
        budget = await limits.budget({"tokens": 10})
        x = await limits.submit(budgets=(budget,))
        await limits.report(budget, tokens=11)
        assert await limits.driver.take(1) == []
        assert (await limits.driver.state(x)).blocking_reason is BlockingReason.WAITING_FOR_BUDGET

    async def test_nothing_starts_where_not_one_more_unit_fits(self, limits: Limits) -> None:
        budget = await limits.budget({"tokens": 10})
        await limits.submit(budgets=(budget,))
        await limits.report(budget, tokens=10)
        assert await limits.driver.take(1) == []

    @pytest.mark.parametrize("cure", ["reset", "raise", "release", "due"])
    async def test_what_opens_a_budget_lets_go_what_waits(self, limits: Limits, cure: str) -> None:
        budget = await limits.budget({"tokens": 10}, reset_interval_ms=60_000)
        spender, x = await limits.driver.create(lane_id=LaneId("other")), await limits.submit(budgets=(budget,))
        await limits.spend(budget, spender, tokens=10)
        assert await limits.driver.take(1) == []
        match cure:
            case "reset":
                await limits.reset(budget)
            case "raise":
                await limits.limit(budget, tokens=11)
            case "release":
                await limits.release(budget, spender)
            case "due":
                await limits.driver.clock.advance(60_000)
                await limits.backend.reset_due_budgets(limits.partition(budget))
        assert ids(await limits.driver.take(1)) == [x.execution_id]

    async def test_the_strictest_of_several_decides(self, limits: Limits) -> None:
        wide, narrow = await limits.budget({"tokens": 1_000}), await limits.budget({"calls": 1})
        quota = await limits.quota(max_concurrent=5)
        await limits.spend(narrow, calls=1)
        x = await limits.submit(budgets=(wide, narrow), quotas=(quota,))
        assert await limits.driver.take(1) == []
        assert (await limits.quota_status(quota)).running == 0
        await limits.reset(narrow)
        assert ids(await limits.driver.take(1)) == [x.execution_id]

    async def test_time_and_attempts_are_counted_by_themselves(self, limits: Limits) -> None:
        budget = await limits.budget({"wall_time_ms": 10_000, "attempts": 3})
        await limits.submit(budgets=(budget,))
        (held,) = await limits.driver.take(1)
        await limits.driver.clock.advance(700)
        await limits.driver.fail(held, retry=True)
        for _ in range(2):
            await limits.drain(held)
        assert (await limits.status(budget)).usage == {"attempts": 1, "wall_time_ms": 700}
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(held)
        (held,) = await limits.driver.take(1)
        await limits.driver.clock.advance(40)
        await limits.driver.delay(held, limits.driver.clock.now_ms)
        await limits.drain(held)
        (held,) = await limits.driver.take(1)
        await limits.driver.clock.advance(2)
        await limits.driver.complete(held)
        await limits.drain(held)
        assert (await limits.status(budget)).usage == {"attempts": 2, "wall_time_ms": 742}
        assert await limits.backend.get_budget_ledger(budget, held.execution_id) == {
            "attempts": 2, "wall_time_ms": 742
        }  # fmt: skip


class TestScopes:
    @pytest.mark.parametrize("scope", ["lane", "namespace", "execution"])
    async def test_a_scope_limits_its_executions(self, limits: Limits, scope: str) -> None:
        x = await limits.submit()
        other = await limits.driver.create(namespace=Namespace("theirs"), lane_id=LaneId("theirs"))
        scope_id = {"lane": "default", "namespace": "tests", "execution": x.execution_id}[scope]
        budget = await limits.budget({"tokens": 1}, scope_type=scope, scope_id=scope_id)
        await limits.spend(budget, tokens=1)
        assert await limits.driver.take(1) == []
        assert ids(await limits.driver.take(1, lane_id="theirs")) == [other.execution_id]
        attached = c.AttachLimitArgs(
            scope_type=c.LimitScope(scope), scope_id=scope_id, limit_kind=c.LimitKind.BUDGET, limit_id=budget
        )
        assert await limits.backend.detach_limit(attached) == (1 if scope == "execution" else 256)
        await limits.driver.unblock(x)
        assert ids(await limits.driver.take(1)) == [x.execution_id]

    async def test_a_flow_limits_its_members(self, limits: Limits) -> None:
        graph, quota = Graph(limits.driver), await limits.quota(max_concurrent=1)
        args = c.AttachLimitArgs(
            scope_type=c.LimitScope.FLOW, scope_id=graph.flow_id, limit_kind=c.LimitKind.QUOTA, limit_id=quota
        )
        assert await limits.backend.attach_limit(args) == 1
        await graph.submit("a b a>z b>z")
        partition = partition_of(Subject(graph.ids["a"]))
        (held,) = await limits.driver.take(2, partition=partition)
        assert sorted((await graph.states()).values()) == ["active", "rate_limited", "waiting_children"]
        for _ in range(2):
            await finish(limits, held)
            await limits.drain(held)
            await graph.check()
            (held,) = await limits.driver.take(2, partition=partition)
        await finish(limits, held)
        assert await graph.flow_state() == "completed"

    async def test_a_flow_whose_members_all_wait_for_a_budget_is_blocked_until_it_opens(self, limits: Limits) -> None:
        graph, budget = Graph(limits.driver), await limits.budget({"tokens": 10})
        args = c.AttachLimitArgs(
            scope_type=c.LimitScope.FLOW, scope_id=graph.flow_id, limit_kind=c.LimitKind.BUDGET, limit_id=budget
        )
        await limits.backend.attach_limit(args)
        await graph.submit("a>b b>z")
        partition = partition_of(Subject(graph.ids["a"]))
        (held,) = await limits.driver.take(1, partition=partition)
        await limits.report(budget, tokens=10)
        await finish(limits, held)
        assert await limits.driver.take(1, partition=partition) == []
        assert await graph.states() == {"a": "completed", "b": "rate_limited", "z": "waiting_children"}
        assert await graph.flow_state() == "blocked"
        await limits.limit(budget, tokens=11)
        assert await graph.flow_state() == "running"
        (held,) = await limits.driver.take(1, partition=partition)
        await finish(limits, held)
        assert await graph.states() == {"a": "completed", "b": "completed", "z": "waiting"}

    async def test_what_is_not_there_admits_nobody(self, limits: Limits) -> None:
        budget, quota = BudgetId.new(), QuotaPolicyId.new()
        first, second = await limits.submit(budgets=(budget,)), await limits.submit(quotas=(quota,))
        assert await limits.driver.take(2) == []
        info = [await limits.driver.info(x) for x in (first, second)]
        assert [each.public_state for each in info] == [PublicState.RATE_LIMITED] * 2
        assert [str(each.blocking_detail) for each in info] == [
            f"check_budget {budget}: no such budget ({budget})",
            f"admit_batch q:{quota}: no such quota policy ({quota})",
        ]

    async def test_unreadable_limits_admit_nobody(self, limits: Limits) -> None:
        budget = await limits.budget({"tokens": 10})
        x = await limits.submit(budgets=(budget,))
        key = keys.budget(budget, limits.backend.partitions)
        await limits.backend.client.execute("HSET", f"{key}:limits", "hard:tokens", "many", key=key)
        assert await limits.driver.take(1) == []
        await limits.backend.client.execute("HSET", f"{key}:limits", "hard:tokens", "10", key=key)
        await limits.driver.clock.advance(60_000)
        await limits.drain(x)
        assert ids(await limits.driver.take(1)) == [x.execution_id]


class TestOtherClaims:
    async def test_one_that_is_named_is_refused_by_the_limit(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        first, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        await limits.driver.grant_and_claim(first)
        with pytest.raises(Limited) as caught:
            await limits.driver.grant_and_claim(second)
        assert caught.value.code == "concurrency_limit_exceeded"
        assert await public(limits, second) is PublicState.RATE_LIMITED
        await limits.driver.complete(first)
        await limits.drain(first)
        await limits.driver.grant_and_claim(second)
        assert (await limits.quota_status(quota)).running == 1

    async def test_a_grant_takes_a_slot_and_gives_it_back_unused(self, limits: Limits) -> None:
        quota = await limits.quota(window_seconds=60, max_requests_per_window=1, max_concurrent=1)
        first, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        await limits.driver.grant(first)
        with pytest.raises(Limited) as caught:
            await limits.driver.grant(second)
        assert caught.value.code == "rate_limit_exceeded"
        await limits.driver.clock.advance(5_001)
        await limits.drain(first)
        assert (await limits.quota_status(quota)).room == 1
        await limits.driver.run(first)
        await limits.driver.complete(first)
        await limits.drain(first)
        status = await limits.quota_status(quota)
        assert (status.running, status.started) == (0, 1)

    async def test_a_grant_for_whoever_asks_passes_over_what_is_refused(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        first, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        free = await limits.driver.create()
        args = c.ClaimForWorkerArgs(lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, grant_ttl_ms=5_000)
        granted = [await limits.backend.claim_for_worker(args) for _ in range(3)]
        given = [each.grant.execution_id for each in granted if isinstance(each, c.WorkGranted)]
        assert given == [first.execution_id, free.execution_id]
        assert await public(limits, second) is PublicState.RATE_LIMITED

    async def test_cancelling_what_is_on_offer_gives_back_what_was_taken(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        x = await limits.submit(quotas=(quota,))
        await limits.driver.grant(x)
        await limits.driver.cancel(x)
        drained = await limits.drain(x)
        assert drained.next_at_ms is None
        assert (await limits.quota_status(quota)).running == 0

    async def test_cancelling_what_waits_leaves_no_trace_of_it(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        _, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        await limits.driver.take(2)
        await limits.driver.cancel(second)
        assert (await limits.drain(second)).next_at_ms is None

    async def test_work_without_limits_goes_on_beside_work_that_waits(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        for _ in range(3):
            await limits.submit(quotas=(quota,), priority=5)
        free = await limits.driver.create()
        assert free.execution_id in ids(await limits.driver.take(4))

    async def test_a_one_step_claim_past_the_limits_is_refused(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        x = await limits.submit(quotas=(quota,))
        args = limits.driver.one_step_args(x)
        with pytest.raises(Conflict) as caught:
            await limits.backend._claim_in_one_step(args)
        assert caught.value.details["state"] == "admission_required"
        with pytest.raises(FlowFabricError):
            await limits.backend._claim_in_one_step(args, admitted="1")


async def test_a_trimmed_execution_leaves_nothing_of_its_limits(limits: Limits) -> None:
    x = await limits.submit()
    budget = await limits.budget({"tokens": 10}, scope_id=x.execution_id)
    (held,) = await limits.driver.take(1)
    await limits.driver.complete(held)
    await limits.drain(held)
    await limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    key = keys.attachments(x.execution_id.tag)
    assert await limits.backend.client.execute("EXISTS", key, key=key) == 0
    assert (await limits.status(budget)).reserved == {}


@pytest.mark.parametrize("reason", [c.SuspensionReasonCode.PAUSED_BY_BUDGET, c.SuspensionReasonCode.WAITING_FOR_SIGNAL])
async def test_an_answer_about_a_budget_reaches_its_execution_although_the_budget_is_closed(
    limits: Limits, reason: c.SuspensionReasonCode
) -> None:
    suspender, budget = Suspender(limits.driver), await limits.budget({"tokens": 10})
    await suspender.seed()
    await limits.submit(budgets=(budget,))
    (held,) = await limits.driver.take(1)
    await limits.report(budget, tokens=11)
    waiting = await limits.submit(budgets=(budget,))
    assert await limits.driver.take(1) == []
    await suspender.suspend(held, reason_code=reason)
    await limits.drain(held)
    await limits.backend.resume_execution(c.ResumeExecutionArgs(execution_id=held.execution_id))
    is_heard = reason is c.SuspensionReasonCode.PAUSED_BY_BUDGET
    assert ids(await limits.driver.take(2)) == ([held.execution_id] if is_heard else [])
    assert await public(limits, waiting) is PublicState.RATE_LIMITED
    await check_store(limits.backend.client)

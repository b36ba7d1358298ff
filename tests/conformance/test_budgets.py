"""Budgets: what fits is counted, what does not is refused and noted, and a breach stays until it is over (G10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.backends.valkey import keys
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, ReservationId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import FlowFabricError, InvalidInput, NotFound, StaleLease
from tests.conformance.driver import BACKOFF, Driver, Subject, made_up_fence
from tests.conformance.invariants import dump
from tests.conformance.limiting import Limits

DAY = 86_400_000


@pytest.fixture
def limits(driver: Driver) -> Limits:
    return Limits(driver)


async def key_of(limits: Limits, budget_id: BudgetId) -> str:
    return keys.budget(budget_id, limits.backend.partitions)


class TestMaking:
    async def test_a_budget_says_what_it_was_given(self, limits: Limits) -> None:
        scope = limits.driver.mint()
        budget_id = await limits.budget(
            {"tokens": 100, "calls": 5}, {"tokens": 80}, scope_id=scope, enforcement_mode="hard",
            on_hard_limit=c.OnHardLimit.SUSPEND, on_soft_limit="mail", reset_interval_ms=DAY,
        )  # fmt: skip
        now = limits.driver.clock.now_ms
        assert await limits.status(budget_id) == c.BudgetStatus(
            budget_id=budget_id, scope_type="execution", scope_id=scope, enforcement_mode="hard", usage={},
            hard_limits={"calls": 5, "tokens": 100}, soft_limits={"tokens": 80}, breach_count=0, soft_breach_count=0,
            next_reset_at=now + DAY, created_at=now, on_hard_limit="suspend", on_soft_limit="mail",
            reset_interval_ms=DAY,
        )  # fmt: skip

    async def test_a_budget_that_exists_is_left_as_it_is(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        await limits.spend(budget_id, tokens=7)
        again = c.CreateBudgetArgs(
            budget_id=budget_id, scope_type=c.LimitScope.EXECUTION, scope_id=limits.driver.mint(),
            dimensions=("tokens",), hard_limits=(1,), soft_limits=(0,),
        )  # fmt: skip
        assert await limits.backend.create_budget(again) == c.BudgetAlreadySatisfied(budget_id=budget_id)
        status = await limits.status(budget_id)
        assert (status.hard_limits, status.usage) == ({"tokens": 100}, {"tokens": 7})

    async def test_budgets_are_listed_by_id(self, limits: Limits) -> None:
        made = sorted([await limits.budget({"tokens": 1}) for _ in range(5)])
        assert await limits.backend.list_budgets() == made
        assert await limits.backend.list_budgets(after=made[1], limit=2) == made[2:4]

    async def test_one_that_is_not_there_is_not_one_without_limits(self, limits: Limits) -> None:
        nowhere = BudgetId.new()
        before = await dump(limits.backend.client)
        for call in (limits.status(nowhere), limits.report(nowhere, tokens=1), limits.spend(nowhere, tokens=1),
                     limits.reset(nowhere), limits.limit(nowhere, tokens=1)):  # fmt: skip
            with pytest.raises(NotFound) as caught:
                await call
            assert caught.value.code == "budget_not_found"
        assert await dump(limits.backend.client) == before

    async def test_an_unreadable_limit_counts_nothing(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        key = await key_of(limits, budget_id)
        await limits.backend.client.execute("HSET", f"{key}:limits", "hard:tokens", "many", key=key)
        before = await dump(limits.backend.client)
        for call in (limits.report(budget_id, tokens=1), limits.spend(budget_id, tokens=1), limits.status(budget_id)):
            with pytest.raises(FlowFabricError) as caught:
                await call
            assert caught.value.code == "corruption"
        assert await dump(limits.backend.client) == before


class TestReports:
    async def test_usage_may_reach_the_limit_and_not_pass_it(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        assert await limits.report(budget_id, tokens=60) == c.UsageCounted()
        assert await limits.report(budget_id, tokens=40) == c.UsageCounted()
        breach = c.HardBreach(dimension="tokens", current_usage=100, hard_limit=100)
        assert await limits.report(budget_id, tokens=1) == breach
        assert await limits.used(budget_id) == 100

    async def test_a_report_is_counted_as_a_whole_or_not_at_all(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100, "calls": 1})
        result = await limits.report(budget_id, tokens=10, calls=2)
        assert result == c.HardBreach(dimension="calls", current_usage=0, hard_limit=1)
        assert (await limits.status(budget_id)).usage == {}

    async def test_dimensions_without_a_limit_are_counted(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        assert await limits.report(budget_id, tokens=1, dollars=10**13 - 1) == c.UsageCounted()
        assert (await limits.status(budget_id)).usage == {"dollars": 10**13 - 1, "tokens": 1}

    async def test_the_same_dedup_key_counts_once(self, limits: Limits) -> None:
        budget_id, other = await limits.budget({"tokens": 100}), await limits.budget({"tokens": 100})
        assert await limits.report(budget_id, "once", tokens=60) == c.UsageCounted()
        assert await limits.report(budget_id, "once", tokens=60) == c.UsageAlreadyApplied()
        assert await limits.report(other, "once", tokens=60) == c.UsageCounted()
        assert await limits.used(budget_id) == 60

    async def test_a_refused_report_has_not_used_up_its_key(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        assert isinstance(await limits.report(budget_id, "once", tokens=11), c.HardBreach)
        await limits.limit(budget_id, tokens=20)
        assert await limits.report(budget_id, "once", tokens=11) == c.UsageCounted()

    async def test_a_breach_is_counted_once_however_often_it_is_met(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        at = limits.driver.clock.now_ms
        for _ in range(3):
            assert isinstance(await limits.report(budget_id, tokens=11), c.HardBreach)
            await limits.driver.clock.advance(1)
        status = await limits.status(budget_id)
        assert (status.breach_count, status.breached_at, status.last_breach_at) == (1, at, at)
        assert status.last_breach_dim == "tokens"

    async def test_what_fits_is_still_counted_after_a_breach(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        await limits.report(budget_id, tokens=11)
        assert await limits.report(budget_id, tokens=10) == c.UsageCounted()

    async def test_a_budget_that_blocks_counts_nothing_after_a_breach(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10, "calls": 10}, on_hard_limit=c.OnHardLimit.BLOCK)
        await limits.report(budget_id, tokens=11)
        breach = c.HardBreach(dimension="tokens", current_usage=0, hard_limit=10, on_hard_limit="block")
        assert await limits.report(budget_id, calls=1) == breach
        await limits.limit(budget_id, tokens=11)
        assert await limits.report(budget_id, calls=1) == c.UsageCounted()

    async def test_a_soft_limit_is_told_once_for_each_crossing(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100}, {"tokens": 50})
        assert await limits.report(budget_id, tokens=50) == c.UsageCounted()
        assert await limits.report(budget_id, tokens=1) == c.SoftBreach(
            dimension="tokens", current_usage=51, soft_limit=50
        )
        assert await limits.report(budget_id, tokens=1) == c.UsageCounted()
        await limits.reset(budget_id)
        assert isinstance(await limits.report(budget_id, tokens=60), c.SoftBreach)
        assert (await limits.status(budget_id)).soft_breach_count == 2

    async def test_a_report_of_an_execution_is_on_its_ledger(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await limits.driver.create()
        args = c.ReportUsageArgs(
            budget_id=budget_id, execution_id=x.execution_id, dimensions=("tokens",), deltas=(7,), dedup_key="k"
        )
        for _ in range(2):
            await limits.backend.report_usage_and_check(args)
        assert await limits.backend.get_budget_ledger(budget_id, x.execution_id) == {"tokens": 7}

    async def test_a_budget_has_at_most_64_dimensions(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        await limits.spend(budget_id, **{f"d{at}": 1 for at in range(64)})
        with pytest.raises(InvalidInput, match="at most 64"):
            await limits.spend(budget_id, one_more=1)
        assert await limits.spend(budget_id, d0=1) == c.UsageCounted()


class TestSpending:
    async def test_what_was_spent_always_counts(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        assert await limits.spend(budget_id, tokens=10) == c.UsageCounted()
        assert await limits.spend(budget_id, tokens=5) == c.HardBreach(
            dimension="tokens", current_usage=15, hard_limit=10
        )
        status = await limits.status(budget_id)
        assert (status.usage, status.breach_count) == ({"tokens": 15}, 1)

    async def test_spend_is_given_back_exactly(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        first, second = await limits.driver.create(), await limits.driver.create()
        await limits.spend(budget_id, first, tokens=10, calls=1)
        await limits.spend(budget_id, first, tokens=5)
        await limits.spend(budget_id, second, tokens=7)
        assert await limits.backend.get_budget_ledger(budget_id, first.execution_id) == {"tokens": 15, "calls": 1}
        assert await limits.release(budget_id, first) == c.BudgetReleased()
        assert await limits.release(budget_id, first) == c.NothingToRelease()
        assert (await limits.status(budget_id)).usage == {"tokens": 7, "calls": 0}

    async def test_what_was_spent_before_a_reset_is_not_given_back_after_it(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await limits.driver.create()
        await limits.spend(budget_id, x, tokens=10)
        await limits.reset(budget_id)
        await limits.report(budget_id, tokens=30)
        assert await limits.backend.get_budget_ledger(budget_id, x.execution_id) == {}
        assert await limits.release(budget_id, x) == c.NothingToRelease()
        assert await limits.used(budget_id) == 30

    async def test_giving_back_ends_the_breach_it_was_in(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 10}), await limits.driver.create()
        await limits.spend(budget_id, x, tokens=11)
        assert (await limits.status(budget_id)).breached_at is not None
        await limits.release(budget_id, x)
        assert (await limits.status(budget_id)).breached_at is None


class TestResets:
    async def test_a_reset_begins_a_new_period(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10}, reset_interval_ms=DAY)
        await limits.spend(budget_id, tokens=11)
        await limits.driver.clock.advance(1_000)
        now = limits.driver.clock.now_ms
        assert await limits.reset(budget_id) == c.BudgetReset(next_reset_at=now + DAY)
        status = await limits.status(budget_id)
        assert (status.usage, status.breached_at, status.last_breach_at) == ({"tokens": 0}, None, None)
        assert (status.reset_count, status.last_reset_at, status.breach_count) == (1, now, 1)

    async def test_a_due_reset_keeps_to_the_schedule_however_late(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10}, reset_interval_ms=1_000)
        made, partition = limits.driver.clock.now_ms, limits.partition(budget_id)
        await limits.spend(budget_id, tokens=11)
        await limits.driver.clock.advance(999)
        early = await limits.backend.reset_due_budgets(partition)
        assert early == c.DueBudgetsReset(next_at_ms=made + 1_000, now_ms=made + 999)
        await limits.driver.clock.advance(2_501)
        late = await limits.backend.reset_due_budgets(partition)
        assert late == c.DueBudgetsReset(budget_ids=(budget_id,), next_at_ms=made + 4_000, now_ms=made + 3_500)
        assert await limits.used(budget_id) == 0

    async def test_one_that_cannot_be_read_does_not_keep_the_others_from_their_reset(self, limits: Limits) -> None:
        broken = await limits.budget({"tokens": 10}, reset_interval_ms=1_000)
        tag = limits.partition(broken).tag
        key = await key_of(limits, broken)
        await limits.backend.client.execute("HSET", f"{key}:limits", "hard:tokens", "many", key=key)
        gone = "ff:idx:" + tag + ":budget_resets"
        await limits.backend.client.execute("ZADD", gone, 1, str(BudgetId.new()), key=gone)
        await limits.driver.clock.advance(1_000)
        result = await limits.backend.reset_due_budgets(limits.partition(broken))
        now = limits.driver.clock.now_ms
        assert result == c.DueBudgetsReset(next_at_ms=now + 60_000, now_ms=now)

    async def test_a_partition_of_executions_has_no_budgets(self, limits: Limits) -> None:
        with pytest.raises(InvalidInput, match="partition"):
            await limits.backend.reset_due_budgets(Partition(PartitionFamily.FLOW, 1))


class TestLimits:
    async def test_a_raise_ends_the_breach_of_its_dimension(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10, "calls": 10})
        await limits.report(budget_id, tokens=11)
        assert await limits.limit(budget_id, calls=20) == c.BudgetLimitsSet(is_open=False)
        assert await limits.limit(budget_id, tokens=11) == c.BudgetLimitsSet(is_open=True)
        assert (await limits.status(budget_id)).breached_at is None

    async def test_a_limit_below_what_is_used_is_a_breach_at_once(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        await limits.report(budget_id, tokens=50)
        assert await limits.limit(budget_id, tokens=49) == c.BudgetLimitsSet(is_open=False)
        status = await limits.status(budget_id)
        assert (status.breach_count, status.last_breach_dim) == (1, "tokens")

    async def test_limits_are_added_and_lifted(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        await limits.limit(budget_id, tokens=0, calls=3)
        assert (await limits.status(budget_id)).hard_limits == {"calls": 3}
        assert await limits.report(budget_id, tokens=11) == c.UsageCounted()


class TestReservations:
    async def running(self, limits: Limits) -> Subject:
        return await limits.driver.run(await limits.driver.create())

    async def test_what_is_held_counts_against_the_limit(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        _, held = await limits.reserve(budget_id, x, tokens=60)
        assert held == c.BudgetReserved()
        assert (await limits.status(budget_id)).reserved == {"tokens": 60}
        assert await limits.report(budget_id, tokens=41) == c.HardBreach(
            dimension="tokens", current_usage=60, hard_limit=100
        )
        assert (await limits.status(budget_id)).breached_at is None, "it would fit without the reservation"
        assert await limits.report(budget_id, tokens=40) == c.UsageCounted()

    async def test_settling_counts_what_was_spent_and_returns_the_rest(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert await limits.settle(budget_id, x, reservation_id, tokens=25) == c.UsageCounted()
        assert await limits.settle(budget_id, x, reservation_id, tokens=25) == c.UsageAlreadyApplied()
        status = await limits.status(budget_id)
        assert (status.usage, status.reserved) == ({"tokens": 25}, {})
        assert await limits.backend.get_budget_ledger(budget_id, x.execution_id) == {"tokens": 25}

    async def test_settling_with_nothing_returns_all_of_it(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert await limits.settle(budget_id, x, reservation_id) == c.UsageCounted()
        status = await limits.status(budget_id)
        assert (status.usage, status.reserved) == ({}, {})

    async def test_more_than_was_held_counts_too(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert isinstance(await limits.settle(budget_id, x, reservation_id, tokens=101), c.HardBreach)
        assert await limits.used(budget_id) == 101

    async def test_the_same_reservation_is_held_once(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert (await limits.reserve(budget_id, x, reservation_id, tokens=60))[1] == c.BudgetReserved()
        assert (await limits.status(budget_id)).reserved == {"tokens": 60}
        await limits.settle(budget_id, x, reservation_id)
        assert (await limits.reserve(budget_id, x, reservation_id, tokens=60))[1] == c.UsageAlreadyApplied()

    async def test_what_others_hold_is_no_breach(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        first, second = await self.running(limits), await self.running(limits)
        await limits.reserve(budget_id, first, tokens=60)
        _, refused = await limits.reserve(budget_id, second, tokens=41)
        assert refused == c.BudgetHeldByOthers(dimension="tokens", current_usage=60, hard_limit=100)
        assert (await limits.status(budget_id)).breached_at is None
        _, breach = await limits.reserve(budget_id, second, tokens=101)
        assert isinstance(breach, c.HardBreach)
        assert (await limits.status(budget_id)).breached_at is not None

    async def test_only_the_owner_of_a_lease_reserves(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        before = await dump(limits.backend.client)
        x.fence = made_up_fence()
        with pytest.raises(StaleLease):
            await limits.reserve(budget_id, x, tokens=1)
        assert await dump(limits.backend.client) == before

    async def test_at_most_64_are_open_at_once(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        for _ in range(64):
            await limits.reserve(budget_id, x, tokens=1)
        with pytest.raises(InvalidInput, match="at most 64"):
            await limits.reserve(budget_id, x, tokens=1)

    @pytest.mark.parametrize("ending", ["complete", "fail", "retry", "delay", "cancel", "lose"])
    async def test_what_is_open_returns_when_the_lease_ends(self, limits: Limits, ending: str) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        await limits.reserve(budget_id, x, tokens=60)
        await end(limits.driver, x, ending)
        drained = await limits.drain(x)
        assert drained.next_at_ms is None
        assert (await limits.status(budget_id)).reserved == {}

    async def test_the_end_of_an_old_lease_leaves_the_holds_of_the_new_one(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        await limits.reserve(budget_id, x, tokens=60)
        await limits.driver.fail(x, retry=True)
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(x)
        await limits.driver.run(x)
        await limits.reserve(budget_id, x, tokens=7)
        await limits.drain(x)
        assert (await limits.status(budget_id)).reserved == {"tokens": 7}

    async def test_a_late_settlement_counts_all_the_same(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        await limits.driver.revoke(x)
        await end(limits.driver, x, "cancel")
        await limits.drain(x)
        assert await limits.settle(budget_id, x, reservation_id, tokens=20) == c.UsageCounted()
        status = await limits.status(budget_id)
        assert (status.usage, status.reserved) == ({"tokens": 20}, {})

    async def test_settling_what_was_never_reserved_counts_once(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id = ReservationId.new()
        assert await limits.settle(budget_id, x, reservation_id, tokens=5) == c.UsageCounted()
        assert await limits.settle(budget_id, x, reservation_id, tokens=5) == c.UsageAlreadyApplied()


async def end(driver: Driver, x: Subject, how: str) -> Any:
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
    await driver.revoke(x)
    partition = Partition(PartitionFamily.FLOW, x.execution_id.partition_index)
    return await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))


class TestNotices:
    async def test_passed_limits_wait_for_somebody_to_act(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10}, {"tokens": 5})
        partition, now = limits.partition(budget_id), limits.driver.clock.now_ms
        for _ in range(2):
            await limits.spend(budget_id, tokens=6)
        soft = c.BudgetNotice(kind="soft", budget_id=budget_id, dimension="tokens", at_ms=now)
        hard = c.BudgetNotice(kind="hard", budget_id=budget_id, dimension="tokens", at_ms=now)
        found = await limits.backend.read_budget_notices(partition)
        assert sorted(found, key=str) == sorted([soft, hard], key=str)
        assert await limits.backend.read_budget_notices(partition, done=[soft]) == [hard]
        assert await limits.backend.read_budget_notices(partition, done=[hard]) == []

    async def test_a_breach_that_is_over_needs_nobody(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        await limits.spend(budget_id, tokens=11)
        await limits.reset(budget_id)
        assert await limits.backend.read_budget_notices(limits.partition(budget_id)) == []


async def test_who_listens_hears_of_passed_limits_and_of_intervals(limits: Limits) -> None:
    async with limits.backend.listen_for_budgets() as listener:
        assert await listener.wait() == frozenset()
        budget = await limits.budget({"tokens": 10})
        await limits.report(budget, tokens=11)
        with_interval = await limits.budget({"tokens": 10}, reset_interval_ms=1_000)
        wanted, heard = {limits.partition(each) for each in (budget, with_interval)}, set[Partition]()
        async with asyncio.timeout(20):
            while not heard >= wanted:
                heard |= await listener.wait()
    assert heard == wanted == set(await limits.backend.budget_partitions_in_use())


async def test_a_budget_without_a_scope_is_for_those_that_name_it(limits: Limits) -> None:
    budget = await limits.budget({"tokens": 10}, scope_type=None, scope_id=None)
    x = await limits.submit(budgets=(budget,))
    assert (await limits.backend.explain_execution(x.execution_id)).budget_ids == (budget,)
    assert (await limits.status(budget)).scope_type == ""

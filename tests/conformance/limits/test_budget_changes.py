"""Budgets while they are in use: resets, other limits, and what waits for somebody to act (G10)."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import InvalidInput
from tests.conformance.limiting import Limits

DAY = 86_400_000


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

"""Budgets: what fits is counted, what does not is refused and noted, and a breach stays until it is over (G10)."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId
from flowfabric.errors import InvalidInput, NotFound
from tests.conformance.limiting import Limits

DAY = 86_400_000


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
        before = await limits.probe.dump()
        for call in (limits.status(nowhere), limits.report(nowhere, tokens=1), limits.spend(nowhere, tokens=1),
                     limits.reset(nowhere), limits.limit(nowhere, tokens=1)):  # fmt: skip
            with pytest.raises(NotFound) as caught:
                await call
            assert caught.value.code == "budget_not_found"
        assert await limits.probe.dump() == before


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

    async def test_every_report_above_a_soft_limit_says_so_and_a_crossing_counts_once(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100}, {"tokens": 50})
        assert await limits.report(budget_id, tokens=50) == c.UsageCounted()
        assert await limits.report(budget_id, tokens=1) == c.SoftBreach(
            dimension="tokens", current_usage=51, soft_limit=50
        )
        assert await limits.report(budget_id, tokens=1) == c.SoftBreach(
            dimension="tokens", current_usage=52, soft_limit=50, is_crossing=False
        )
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
        await limits.spend(budget_id, None, None, **{f"d{at}": 1 for at in range(64)})
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

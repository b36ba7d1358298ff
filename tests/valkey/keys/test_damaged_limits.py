"""Limits whose records cannot be read: they count nothing, admit nobody and stand in nobody's way."""

from __future__ import annotations

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId
from flowfabric.errors import FlowFabricError
from tests.conformance.limiting import ids
from tests.valkey.driver import Limits


def key_of(limits: Limits, budget_id: BudgetId) -> str:
    return keys.budget(budget_id, limits.backend.partitions)


class TestResets:
    async def test_one_that_cannot_be_read_does_not_keep_the_others_from_their_reset(self, limits: Limits) -> None:
        broken = await limits.budget({"tokens": 10}, reset_interval_ms=1_000)
        tag = limits.partition(broken).tag
        key = key_of(limits, broken)
        await limits.backend.client.execute("HSET", f"{key}:limits", "hard:tokens", "many", key=key)
        gone = "ff:idx:" + tag + ":budget_resets"
        await limits.backend.client.execute("ZADD", gone, 1, str(BudgetId.new()), key=gone)
        await limits.driver.clock.advance(1_000)
        result = await limits.backend.reset_due_budgets(limits.partition(broken))
        now = limits.driver.clock.now_ms
        assert result == c.DueBudgetsReset(next_at_ms=now + 60_000, now_ms=now)


class TestMaking:
    async def test_an_unreadable_limit_counts_nothing(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        key = key_of(limits, budget_id)
        await limits.backend.client.execute("HSET", f"{key}:limits", "hard:tokens", "many", key=key)
        before = await limits.probe.dump()
        for call in (limits.report(budget_id, tokens=1), limits.spend(budget_id, tokens=1), limits.status(budget_id)):
            with pytest.raises(FlowFabricError) as caught:
                await call
            assert caught.value.code == "corruption"
        assert await limits.probe.dump() == before


class TestScopes:
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


async def test_an_unreadable_limit_is_not_no_limit(limits: Limits) -> None:
    quota = await limits.quota(max_concurrent=1)
    key = keys.quota(quota, limits.backend.partitions)
    await limits.backend.client.execute("HSET", key, "active_concurrency_cap", "some", key=key)
    with pytest.raises(FlowFabricError) as caught:
        await limits.quota_status(quota)
    assert caught.value.code == "corruption"


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

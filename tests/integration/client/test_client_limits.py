"""Budgets and quotas through a fabric: made, attached, watched and changed."""

from __future__ import annotations

import pytest

from flowfabric import Context, Task, Worker, task
from flowfabric.core import contracts as c
from flowfabric.core.explain import explain
from flowfabric.core.ids import BudgetId, QuotaPolicyId
from flowfabric.errors import InvalidInput, NotFound
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


@task
async def nothing() -> None: ...


async def test_a_budget_is_made_once_and_shown(fabric_kit: FabricKit) -> None:
    budgets = fabric_kit.budgets
    mine = BudgetId.new()
    for limit in (100, 5):
        made = await budgets.create(
            {"tokens": limit}, soft={"calls": 3}, on_hard_limit="block", reset_every=60, budget_id=mine, lane="agents"
        )
        assert made == mine
    status = await budgets.status(mine)
    assert (status.scope_type, status.scope_id, status.on_hard_limit) == ("lane", "agents", "block")
    assert (status.hard_limits, status.soft_limits) == ({"tokens": 100}, {"calls": 3})
    assert status.next_reset_at == fabric_kit.clock.now_ms + 60_000
    assert await budgets.list() == [mine]


async def test_limits_that_are_not_named_stay(fabric_kit: FabricKit) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10, "calls": 5}, soft={"tokens": 8})
    assert isinstance(await fabric_kit.budgets.report(budget, {"tokens": 10}), c.SoftBreach)
    assert isinstance(await fabric_kit.budgets.report(budget, {"tokens": 1}), c.HardBreach)
    assert await fabric_kit.budgets.set_limits(budget, {"tokens": 20})
    status = await fabric_kit.budgets.status(budget)
    assert (status.hard_limits, status.soft_limits) == ({"tokens": 20, "calls": 5}, {"tokens": 8})
    await fabric_kit.budgets.set_limits(budget, soft={"tokens": 15})
    assert (await fabric_kit.budgets.status(budget)).soft_limits == {"tokens": 15}


async def test_what_was_spent_is_on_the_ledger_until_it_is_released_or_reset(fabric_kit: FabricKit) -> None:
    budgets, handle = fabric_kit.budgets, await fabric_kit.submit(nothing)
    budget = await budgets.create({"tokens": 10})
    for _ in range(2):
        await budgets.record_spend(budget, {"tokens": 30}, execution_id=handle.id, dedup_key="once")
    assert await budgets.usage(budget, handle.id) == {"tokens": 30}
    assert await budgets.release(budget, handle.id)
    assert not await budgets.release(budget, handle.id)
    await budgets.report(budget, {"tokens": 4})
    await budgets.reset(budget)
    assert (await budgets.status(budget)).usage == {"tokens": 0}


async def test_a_limit_counts_where_it_is_attached(fabric_kit: FabricKit) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10})
    quota = await fabric_kit.quotas.create(max_concurrent=2, rate=5, window=60, namespace="default")
    handle = await fabric_kit.submit(nothing.with_options(lane="agents"))
    await fabric_kit.budgets.attach(budget, lane="agents")
    facts = await fabric_kit.explain(handle.id)
    assert (facts.budget_ids, facts.quota_policy_ids) == ((budget,), (quota,))
    await fabric_kit.budgets.detach(budget, lane="agents")
    await fabric_kit.quotas.detach(quota, namespace="default")
    facts = await fabric_kit.explain(handle.id)
    assert (facts.budget_ids, facts.quota_policy_ids) == ((), ())
    with pytest.raises(InvalidInput, match="scope: must be one of"):
        await fabric_kit.quotas.attach(quota)
    with pytest.raises(InvalidInput, match="attach the limit to the others"):
        await fabric_kit.budgets.create({"tokens": 1}, lane="a", namespace="b")


async def test_a_quota_is_configured_while_it_is_in_use(fabric_kit: FabricKit) -> None:
    quota = await fabric_kit.quotas.create(max_concurrent=2, key_by="lane", lane="agents")
    await fabric_kit.quotas.configure(quota, rate=3, window=60, jitter=0.25)
    status = await fabric_kit.quotas.status(quota, key="agents")
    assert (status.max_concurrent, status.max_requests_per_window, status.window_seconds) == (0, 3, 60)
    assert (status.jitter_ms, status.key_by) == (250, "lane")
    assert await fabric_kit.quotas.list() == [quota]
    assert await fabric_kit.quotas.list(after=quota) == []
    with pytest.raises(InvalidInput, match="window: must be whole seconds"):
        await fabric_kit.quotas.create(rate=1, window=1.5)
    with pytest.raises(NotFound):
        await fabric_kit.quotas.status(QuotaPolicyId.new())


async def test_a_submission_names_its_own_limits(fabric_kit: FabricKit) -> None:
    budget, quota = await fabric_kit.budgets.create({"tokens": 1}), await fabric_kit.quotas.create(max_concurrent=1)
    limited = nothing.with_options(budgets=[budget], quotas=[quota])
    facts = await fabric_kit.explain((await fabric_kit.submit(limited)).id)
    assert (facts.budget_ids, facts.quota_policy_ids) == ((budget,), (quota,))
    with pytest.raises(InvalidInput, match="budgets: must be a list"):
        nothing.with_options(budgets=budget)
    with pytest.raises(InvalidInput, match="quota_policy_ids"):
        nothing.with_options(quotas=["five"])


async def test_explain_names_the_limit_its_numbers_and_the_next_look(fabric_kit: FabricKit) -> None:
    worker = Worker()
    quota = await fabric_kit.quotas.create(rate=1, window=60)
    budget = await fabric_kit.budgets.create({"tokens": 10}, reset_every=3600)

    @worker.task
    async def spend(ctx: Context) -> None:
        await ctx.use(tokens=10)

    async def second(limited: Task[[], None]) -> str:
        handles = []
        for _ in range(2):
            handles.append(await fabric_kit.submit(limited))
            await fabric_kit.run_until_idle(worker)
        assert [await each.status() for each in handles] == ["completed", "rate_limited"]
        return explain(await fabric_kit.explain(handles[1].id), ())

    said = await second(spend.with_options(quotas=[quota]))
    assert said.startswith(f"waits for quota {quota}: 1 of at most 1 have started within 60 s (looked at again in ")
    assert said.endswith("; it starts in 1 min, when the window has room, or raise the quota")
    said = await second(spend.with_options(budgets=[budget]))
    assert said.startswith(f"waits for budget {budget}: tokens 10 of 10 (looked at again in ")
    assert said.endswith("; it is reset in 60 min; raise its limit or reset it")


async def test_a_kit_runs_what_waits_for_slots_until_all_of_it_is_done(fabric_kit: FabricKit) -> None:
    worker = Worker()
    worker.add(nothing)
    quota = await fabric_kit.quotas.create(max_concurrent=1)
    handles = [await fabric_kit.submit(nothing.with_options(quotas=[quota])) for _ in range(5)]
    await fabric_kit.run_until_idle(worker)
    assert {await each.status() for each in handles} == {"completed"}
    assert (await fabric_kit.quotas.status(quota)).running == 0

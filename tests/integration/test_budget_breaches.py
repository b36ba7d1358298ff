"""What breaches lead to when an engine runs: resets on time, notices told once, executions of the scope cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import Context, Engine, Handle, Worker, task
from flowfabric.core import contracts as c
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


@task(lane="agents")
async def nothing() -> None: ...


async def breach(kit: FabricKit, budget: str) -> None:
    assert isinstance(await kit.budgets.report(budget, {"tokens": 10**6}), c.HardBreach)


async def states(*handles: Handle[Any]) -> list[str]:
    return [str(await each.status()) for each in handles]


async def test_a_budget_is_reset_on_schedule_and_lets_go_what_waited(fabric_kit: FabricKit) -> None:
    worker = Worker(lanes=["agents"])
    worker.add(nothing)
    budget = await fabric_kit.budgets.create({"tokens": 10}, reset_every=60, lane="agents")
    await breach(fabric_kit, budget)
    handle = await fabric_kit.submit(nothing)
    await fabric_kit.run_until_idle(worker)
    assert await states(handle) == ["rate_limited"]
    await fabric_kit.advance(61)
    await fabric_kit.run_until_idle(worker)
    assert await states(handle) == ["completed"]
    assert (await fabric_kit.budgets.status(budget)).reset_count == 1


async def test_each_crossing_is_told_once(fabric_kit: FabricKit) -> None:
    told: list[tuple[str, str, int]] = []

    async def note(notice: c.BudgetNotice, status: c.BudgetStatus) -> None:
        told.append((notice.kind, notice.dimension, status.usage["tokens"]))
        raise ValueError("a callback that fails does no harm")

    engine = Engine(fabric_kit.backend, on_budget_notice=note)
    budget = await fabric_kit.budgets.create({"tokens": 10}, soft={"tokens": 5})
    for amount in (6, 1, 9):
        await fabric_kit.budgets.report(budget, {"tokens": amount})
        await engine.run_once()
        await engine.run_once()
    assert told == [("soft", "tokens", 6), ("hard", "tokens", 7)]
    await fabric_kit.budgets.reset(budget)
    await fabric_kit.budgets.report(budget, {"tokens": 6})
    await engine.run_once()
    assert told[2:] == [("soft", "tokens", 6)]


@pytest.mark.parametrize("scope", [{"lane": "agents"}, {"namespace": "default"}])
async def test_cancel_pending_spares_what_has_started(fabric_kit: FabricKit, scope: Any) -> None:
    worker, began = Worker(lanes=["agents"]), asyncio.Event()

    @worker.task
    async def long(ctx: Context) -> None:
        began.set()
        await ctx.wait_for_signal("go")

    @worker.task
    async def again() -> None:
        raise RuntimeError("later")

    budget = await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit="cancel_pending", **scope)
    started = [await fabric_kit.submit(long), await fabric_kit.submit(again.with_options(retry=1))]
    await fabric_kit.run_until_idle(worker)
    pending = [await fabric_kit.submit(each) for each in (nothing, nothing.with_options(delay=60))]
    await breach(fabric_kit, budget)
    await fabric_kit.apply_due()
    assert await states(*started, *pending) == ["suspended", "delayed", "cancelled", "cancelled"]


async def test_cancel_all_reaches_everything_of_the_scope_and_nothing_else(fabric_kit: FabricKit) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit="cancel_all", lane="agents")
    inside = [await fabric_kit.submit(nothing) for _ in range(150)]
    outside = await fabric_kit.submit(nothing.with_options(lane="elsewhere"))
    await breach(fabric_kit, budget)
    await fabric_kit.apply_due()
    assert set(await states(*inside)) == {"cancelled"}
    assert await states(outside) == ["waiting"]


async def test_one_execution_can_have_a_budget_that_ends_it(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(nothing)
    budget = await fabric_kit.budgets.create({"tokens": 10}, on_hard_limit="cancel_all", execution=handle.id)
    await breach(fabric_kit, budget)
    await fabric_kit.apply_due()
    assert await states(handle) == ["cancelled"]


async def test_an_engine_hears_of_a_breach(fabric_kit: FabricKit) -> None:
    told = asyncio.Event()
    async with Engine(fabric_kit.backend, on_budget_notice=lambda *_: told.set()):
        budget = await fabric_kit.budgets.create({"tokens": 10})
        await breach(fabric_kit, budget)
        async with asyncio.timeout(30):
            await told.wait()

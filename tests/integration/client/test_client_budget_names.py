"""A budget has a name, and people use it in place of the id."""

from __future__ import annotations

import pytest

from flowfabric import Context, Worker
from flowfabric.core import contracts as c
from flowfabric.core.explain import explain
from flowfabric.core.ids import BudgetId
from flowfabric.errors import InvalidInput, NotFound
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

LIMITS = {"tokens": 100}


async def test_every_method_takes_the_name(fabric_kit: FabricKit) -> None:
    budgets = fabric_kit.budgets
    made = await budgets.create(LIMITS, name="team a")
    assert await budgets.find("team a") == await budgets.find(made) == made
    assert (await budgets.status("team a")).name == "team a"
    await budgets.report("team a", {"tokens": 5})
    await budgets.record_spend("team a", {"tokens": 6})
    assert (await budgets.status(made)).usage == {"tokens": 11}
    assert await budgets.set_limits("team a", {"tokens": 50})
    await budgets.attach("team a", lane="agents")
    await budgets.detach("team a", lane="agents")
    await budgets.reset("team a")
    assert (await budgets.status(made)).usage == {"tokens": 0}


async def test_the_same_name_is_the_same_budget(fabric_kit: FabricKit) -> None:
    made = await fabric_kit.budgets.create(LIMITS, name="team")
    assert await fabric_kit.budgets.create({"tokens": 7}, name="team") == made
    assert (await fabric_kit.budgets.status("team")).hard_limits == LIMITS


async def test_each_owner_has_names_of_its_own(fabric_kit: FabricKit) -> None:
    made = [await fabric_kit.budgets.create(LIMITS, name="team", owner=owner) for owner in ("a", "b")]
    assert len({*made}) == 2
    with pytest.raises(InvalidInput, match="is the name of several budgets"):
        await fabric_kit.budgets.status("team")
    own = await fabric_kit.budgets.create(LIMITS, name="team", namespace="default")
    assert await fabric_kit.budgets.find("team") == own
    of_store = await fabric_kit.budgets.create(LIMITS, name="team")
    assert await fabric_kit.budgets.find("team") == of_store
    only = await fabric_kit.budgets.create(LIMITS, name="other", owner="b")
    assert await fabric_kit.budgets.find("other") == only


async def test_an_unknown_name_and_an_impossible_one_are_refused(fabric_kit: FabricKit) -> None:
    with pytest.raises(NotFound, match="no budget is named 'typo'"):
        await fabric_kit.budgets.status("typo")
    with pytest.raises(InvalidInput, match="must not look like an id"):
        await fabric_kit.budgets.create(LIMITS, name=str(BudgetId.new()))
    with pytest.raises(InvalidInput, match=r"budget_id: must be .* the id of the name"):
        await fabric_kit.budgets.create(LIMITS, name="team", budget_id=str(BudgetId.new()))


async def test_tasks_and_handlers_name_their_budgets(fabric_kit: FabricKit) -> None:
    worker = Worker()
    await fabric_kit.budgets.create(LIMITS, name="team")
    await fabric_kit.budgets.create(LIMITS, name="mine", namespace="default")

    @worker.task(budgets=["team"])
    async def spend(ctx: Context) -> None:
        await ctx.use("team", tokens=3)
        async with ctx.reserve("mine", tokens=9) as held:
            held.used(tokens=4)

    handle = await fabric_kit.submit(spend)
    await fabric_kit.run_until_idle(worker)
    await handle
    assert (await fabric_kit.budgets.status("team")).usage == {"tokens": 3}
    assert (await fabric_kit.budgets.status("mine")).usage == {"tokens": 4}


async def test_an_explanation_names_the_budget(fabric_kit: FabricKit) -> None:
    worker = Worker()
    await fabric_kit.budgets.create({"tokens": 1}, name="team", lane="default")
    await fabric_kit.budgets.record_spend("team", {"tokens": 2})

    @worker.task
    async def nothing() -> None: ...

    handle = await fabric_kit.submit(nothing)
    await fabric_kit.run_until_idle(worker)
    assert "waits for budget 'team' (" in explain(await fabric_kit.explain(handle.id), [])


def test_a_name_of_the_contract_decides_the_id() -> None:
    fields = {"dimensions": ("tokens",), "hard_limits": (1,), "soft_limits": (0,)}
    made = c.CreateBudgetArgs(budget_id=BudgetId.named("x"), name="x", **fields)  # type: ignore[arg-type]
    assert made.owner is None

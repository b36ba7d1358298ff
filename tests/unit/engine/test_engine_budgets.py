"""When an engine looks at budgets: when it is told, when a reset is due, and seldom otherwise."""

from __future__ import annotations

import asyncio

from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.engine.services.admissions import Admissions
from flowfabric.engine.services.budgets import Budgets
from flowfabric.engine.services.due_work import DueWork
from flowfabric.engine.services.listening import BudgetListening
from flowfabric.errors import BackendUnavailable
from tests.engine_fakes import Scene, settle

FIRST, SECOND = (Partition(PartitionFamily.BUDGET, index) for index in range(2))


async def test_idle_budgets_are_looked_at_seldom() -> None:
    scene = Scene()
    scene.store.budgets_in = [FIRST, SECOND]
    budgets = Budgets(scene.around)
    running = asyncio.create_task(budgets.run())
    await scene.timer.advance(299_000)
    assert scene.store.count("reset_due_budgets") == 2
    await scene.timer.advance(2_000)
    assert scene.store.count("reset_due_budgets") == 4
    running.cancel()


async def test_a_reset_comes_when_it_is_due_and_news_at_once() -> None:
    scene = Scene()
    scene.store.budgets_in = [FIRST, SECOND]
    scene.store.resets[FIRST] = scene.store.now + 5_000
    budgets = Budgets(scene.around)
    listening = BudgetListening(scene.around, budgets.name, budgets.hear)
    running = [asyncio.create_task(each.run()) for each in (budgets, listening)]
    await scene.timer.advance(4_900)
    assert budgets.items == 0
    await scene.timer.advance(200)
    assert budgets.items == 1
    looks = scene.store.count("read_budget_notices", SECOND)
    scene.store.budget_news.put_nowait(frozenset({SECOND}))
    await scene.timer.advance(20)
    assert scene.store.count("read_budget_notices", SECOND) == looks + 1
    for each in running:
        each.cancel()


async def test_only_the_replica_whose_duty_it_is_looks() -> None:
    scene = Scene()
    scene.store.budgets_in = [FIRST, SECOND]
    budgets = Budgets(scene.around)
    names = [str(number) for number in range(50)]
    other = next(each for each in names if not _has_duty(scene, budgets.name, each))
    scene.around.territory.hear(["me", other])
    assert await budgets.run_once() == 0
    assert scene.store.count("reset_due_budgets") == 0


def _has_duty(scene: Scene, name: str, other: str) -> bool:
    scene.around.territory.hear(["me", other])
    return scene.around.territory.has_duty(name)


async def test_a_partition_that_fails_holds_up_no_other() -> None:
    scene = Scene()
    scene.store.budgets_in = [FIRST, SECOND]
    scene.store.failing[FIRST] = BackendUnavailable("gone")
    scene.store.resets[SECOND] = scene.store.now
    budgets = Budgets(scene.around)
    assert await budgets.run_once() == 1
    assert budgets.status().set_aside == 1


async def test_limits_are_drained_where_a_look_for_due_work_has_seen_something() -> None:
    scene = Scene()
    quiet, owing = scene.use(1, 2)
    admissions = Admissions(scene.around)
    due_work = DueWork(scene.around, admissions.expect)
    running = [asyncio.create_task(each.run()) for each in (admissions, due_work)]
    await settle()
    drained = [scene.store.count("drain_admissions", each) for each in (quiet, owing)]
    assert drained == [1, 1], "each is looked at when it is new"
    scene.store.limits_due[owing] = scene.store.now + 3_000
    await scene.timer.advance(30_000)
    assert scene.store.count("drain_admissions", quiet) == 1
    assert scene.store.count("drain_admissions", owing) > 1
    for each in running:
        each.cancel()

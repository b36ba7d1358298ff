"""Timers that are due soon are announced, and the engine acts on them without a regular check in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from flowfabric.backends.ports.upkeep import DueSoon
from flowfabric.engine.schedule import Found
from flowfabric.engine.services.due_work import DueWork
from flowfabric.engine.services.listening import DueListening
from tests.engine_fakes import Scene, settle


@pytest.fixture
def scene() -> Scene:
    return Scene(look_ms=60_000, quick_look_ms=60_000)


@pytest.fixture
async def due_work(scene: Scene) -> AsyncIterator[DueWork]:
    """Both services in their loops; partition 1 was checked and is quiet."""
    scene.use(1)
    due_work = DueWork(scene.around)
    listening = DueListening(scene.around, due_work.expect)
    loops = [asyncio.create_task(each.run()) for each in (due_work, listening)]
    await settle()
    yield due_work
    for each in (due_work, listening):
        each.stop()
    await asyncio.wait_for(asyncio.gather(*loops), 5)
    await due_work.close()


async def test_an_announced_timer_is_applied_when_it_is_due(scene: Scene, due_work: DueWork) -> None:
    (one,) = scene.around.territory.own
    looks = scene.store.count("next_due")
    scene.store.due_in(one, 50)
    scene.store.due_news.put_nowait(frozenset({DueSoon(one, 50)}))
    await scene.timer.advance(40)
    assert scene.store.count("next_due") == looks
    await scene.timer.advance(20)
    assert scene.store.due[one] == []


async def test_a_timer_that_is_announced_during_a_check_is_not_forgotten(scene: Scene, due_work: DueWork) -> None:
    """The check asked the store before the timer was there, and ends after the announcement."""
    (one,) = scene.around.territory.own
    due_work.looks.plan(one, Found(0, is_busy=False, due_in_ms=0), due_work.now_ms())
    due_work.looks.begin(one)
    due_work.expect(one, 30)
    due_work.looks.plan(one, Found(0, is_busy=False, due_in_ms=None), due_work.now_ms())
    due_work.wake()  # the run that checked it is over
    scene.store.due_in(one, 30)
    await scene.timer.advance(40)
    assert scene.store.due[one] == []


async def test_a_later_timer_changes_no_earlier_plan(scene: Scene, due_work: DueWork) -> None:
    (one,) = scene.around.territory.own
    due_work.expect(one, 30)
    due_work.expect(one, 4_000)
    scene.store.due_in(one, 30)
    await scene.timer.advance(40)
    assert scene.store.due[one] == []


async def test_after_a_lost_connection_every_partition_is_checked(scene: Scene, due_work: DueWork) -> None:
    (one,) = scene.around.territory.own
    scene.store.due_in(one, 0)
    scene.store.due_news.put_nowait(frozenset())
    await scene.timer.advance(20)
    assert scene.store.due[one] == []


async def test_it_listens_before_the_first_partition_is_in_use_and_while_partitions_come(scene: Scene) -> None:
    due_work = DueWork(scene.around)
    listening = DueListening(scene.around, due_work.expect)
    loop = asyncio.create_task(listening.run())
    await settle()
    scene.use(1, 2)
    await settle()
    assert scene.store.count("listen_for_due") == 1
    listening.stop()
    await asyncio.wait_for(loop, 5)

"""When partitions are looked at, and what happens to those that fail, hang or cannot be done."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.core.contracts import batch as b
from flowfabric.engine.services.due_work import DueWork
from flowfabric.errors import BackendUnavailable, ScriptFault
from tests.engine_fakes import Scene, part, settle

LOOK, QUICK = 1_000, 250


@pytest.fixture
def scene() -> Scene:
    return Scene(look_ms=LOOK, quick_look_ms=QUICK)


class Running:
    """A service in its loop."""

    def __init__(self, scene: Scene) -> None:
        self.service = DueWork(scene.around)
        self._task = asyncio.create_task(self.service.run())

    async def stop(self) -> None:
        self.service.stop()
        await asyncio.wait_for(self._task, 5)
        await self.service.close()


async def test_a_partition_is_not_asked_to_do_what_is_not_due(scene: Scene) -> None:
    (one,) = scene.use(1)
    scene.store.due_in(one, 60_000)
    assert await DueWork(scene.around).run_once() == 0
    assert (scene.store.count("next_due"), scene.store.count("run_due_work")) == (1, 0)


async def test_what_is_due_is_done_until_dry_in_bounded_batches() -> None:
    scene = Scene(batch=10)
    (one,) = scene.use(1)
    scene.store.due_in(one, *[0] * 35, 5_000)
    service = DueWork(scene.around)
    assert await service.run_once() == 35
    assert scene.store.count("run_due_work") == 4
    assert await service.run_once() == 0


async def test_it_is_looked_at_when_it_is_due_by_the_clock_of_the_store(scene: Scene) -> None:
    (one,) = scene.use(1)
    scene.store.due_in(one, 180)
    running = Running(scene)
    await scene.timer.advance(170)
    assert scene.store.count("run_due_work") == 0
    await scene.timer.advance(20)
    assert scene.store.count("run_due_work") == 1
    assert scene.store.due[one] == []
    await running.stop()


async def test_lag_is_how_long_the_oldest_item_had_been_due(scene: Scene) -> None:
    one, two = scene.use(1, 2)
    scene.store.due_in(one, -700, -30)
    scene.store.due_in(two, -400)
    service = DueWork(scene.around)
    assert service.lag_ms() is None
    assert await service.run_once() == 3
    assert service.lag_ms() == 700
    await scene.timer.advance(50)
    scene.store.due_in(two, -20)
    await service.run_once()
    assert service.lag_ms() == 20
    await service.run_once()
    assert service.lag_ms() == 20  # nothing was done


async def test_an_entry_that_claims_an_impossible_time_does_not_spoil_the_lag(scene: Scene) -> None:
    (one,) = scene.use(1)
    service = DueWork(scene.around)
    await service.run_once()
    await scene.timer.advance(30)
    scene.store.due_in(one, -1_000_000, 0)
    await service.run_once()
    assert service.lag_ms() == 30


async def test_a_quiet_partition_is_looked_at_less_and_less_often(scene: Scene) -> None:
    (one,) = scene.use(1)
    running = Running(scene)
    await settle()
    scene.store.calls.clear()
    await scene.timer.advance(10 * LOOK)
    quiet = scene.store.count("next_due")
    assert 9 <= quiet <= 13
    assert scene.store.count("run_due_work") == 0
    scene.store.due_in(one, 60_000)  # something changes, so there may be more
    await scene.timer.advance(LOOK + 3 * QUICK)
    assert scene.store.count("next_due") >= quiet + 3
    await running.stop()


async def test_quiet_partitions_are_looked_at_in_one_go(scene: Scene) -> None:
    running = Running(scene)
    for index in range(64):
        scene.around.territory.add(part(index))
        await scene.timer.advance(11)
    await scene.timer.advance(20 * LOOK)
    runs, looks = running.service.runs, scene.store.count("next_due")
    await scene.timer.advance(10 * LOOK)
    assert scene.store.count("next_due") - looks <= 11 * 64
    assert running.service.runs - runs <= 9 * 10  # groups an eighth of a look apart
    await running.stop()


async def test_something_short_that_comes_later_waits_for_the_next_look_at_most(scene: Scene) -> None:
    (one,) = scene.use(1)
    running = Running(scene)
    await scene.timer.advance(10 * LOOK)
    scene.store.due_in(one, 5)
    await scene.timer.advance(LOOK + 5)
    assert scene.store.due[one] == []
    await running.stop()


async def test_a_partition_that_was_heard_of_is_looked_at_sooner_but_not_all_the_time(scene: Scene) -> None:
    (one,) = scene.use(1)
    running = Running(scene)
    await scene.timer.advance(10 * LOOK + QUICK)
    scene.store.calls.clear()
    for _ in range(100):
        running.service.hear(one)
        await scene.timer.advance(1)
    assert scene.store.count("next_due") == 1
    await running.stop()


async def test_a_new_partition_is_looked_at_at_once(scene: Scene) -> None:
    running = Running(scene)
    await scene.timer.advance(100)
    (one,) = scene.use(1)
    scene.store.due_in(one, 0)
    await scene.timer.advance(10)
    assert scene.store.due[one] == []
    await running.stop()


async def test_a_partition_that_fails_is_left_alone_for_longer_and_longer_and_delays_no_other(scene: Scene) -> None:
    bad, good = scene.use(1, 2)
    scene.store.failing[bad] = ScriptFault("a record cannot be read")
    running = Running(scene)
    for _ in range(75):
        scene.store.due_in(good, 0)
        await scene.timer.advance(LOOK)
        assert scene.store.due[good] == []
    assert scene.store.count("next_due", bad) == 7  # after 1, 3, 7, 15, 31 and 63 s
    status = running.service.status()
    assert (status.errors, status.set_aside) == (7, 1)
    assert status.last_error == "script_fault: a record cannot be read"
    assert (status.set_aside_items[0].what, status.set_aside_items[0].failures) == ("{fp:1}", 7)
    del scene.store.failing[bad]
    await scene.timer.advance(60_000)
    assert running.service.status().set_aside == 0
    await running.stop()


async def test_after_an_outage_everything_is_looked_at_within_seconds(scene: Scene) -> None:
    partitions = scene.use(*range(20))
    scene.store.failing["next_due"] = BackendUnavailable("gone", sent=False)
    running = Running(scene)
    await scene.timer.advance(600_000)
    del scene.store.failing["next_due"]
    for partition in partitions:
        scene.store.due_in(partition, 0)
    await scene.timer.advance(2_000)
    assert not any(scene.store.due.values())
    await running.stop()


async def test_a_partition_that_hangs_delays_no_other(scene: Scene) -> None:
    stuck, good = scene.use(1, 2)
    scene.store.hanging[stuck] = asyncio.Event()
    running = Running(scene)
    await scene.timer.advance(1_000)
    for _ in range(50):
        scene.store.due_in(good, 0)
        await scene.timer.advance(LOOK)
        assert scene.store.due[good] == []
    assert scene.store.count("next_due", stuck) == 1
    scene.store.due_in(stuck, 0)
    scene.store.hanging[stuck].set()
    await scene.timer.advance(QUICK)
    assert scene.store.due[stuck] == []
    assert running.service.items == 51
    await running.stop()


async def test_what_a_late_answer_says_is_heeded() -> None:
    scene = Scene(look_ms=60_000)
    (slow,) = scene.use(1)
    scene.store.hanging[slow] = asyncio.Event()
    running = Running(scene)
    await scene.timer.advance(5_000)
    scene.store.due_in(slow, 150)
    scene.store.hanging[slow].set()
    await scene.timer.advance(160)
    assert scene.store.due[slow] == []
    await running.stop()


async def test_work_that_says_due_and_cannot_be_done_is_not_tried_all_the_time(scene: Scene) -> None:
    odd, good = scene.use(1, 2)
    scene.store.undoable.add(odd)
    scene.store.due_in(odd, *[-10] * 5)
    running = Running(scene)
    await scene.timer.advance(60_000)
    assert 55 <= scene.store.count("run_due_work", odd) <= 65
    scene.store.due_in(good, 0)
    await scene.timer.advance(LOOK)
    assert scene.store.due[good] == []
    await running.stop()


async def test_a_large_backlog_leaves_time_for_the_others() -> None:
    scene = Scene(batch=1, budget_ms=100)
    heavy, light = scene.use(1, 2)

    async def slowly() -> None:
        await scene.timer.wait(asyncio.Event(), 10)

    scene.store.due_in(heavy, *[0] * 2_000)
    original = scene.store.run_due_work

    async def slow(args: object) -> object:
        await slowly()
        return await original(args)  # type: ignore[arg-type]

    scene.store.run_due_work = slow  # type: ignore[method-assign,assignment]
    running = Running(scene)
    for _ in range(10):
        scene.store.due_in(light, 0)
        await scene.timer.advance(LOOK + 2 * 100)
        assert scene.store.due[light] == []
    assert 0 < len(scene.store.due[heavy]) < 2_000
    await running.stop()


async def test_a_partition_of_another_replica_is_left_to_it(scene: Scene) -> None:
    scene.use(*range(16))
    scene.around.territory.hear(("me", "you"))
    await DueWork(scene.around).run_once()
    looked_at = {where for _, where in scene.store.calls}
    assert looked_at == set(scene.around.territory.own)
    assert 0 < len(looked_at) < 16


def test_what_suspensions_leave_due_counts_as_work() -> None:
    counts = {name: 10**at for at, name in enumerate(b.DueWork.__struct_fields__) if name != "more"}
    assert b.DueWork(**counts, more=True).items == sum(counts.values())

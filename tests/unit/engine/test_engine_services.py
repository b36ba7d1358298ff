"""The duties beside due work."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition
from flowfabric.engine.services.blocked_work import BlockedWork
from flowfabric.engine.services.index_repair import IndexRepair
from flowfabric.engine.services.listening import Listening
from flowfabric.engine.services.partitions import PartitionFinder
from flowfabric.engine.services.rebroadcast import Rebroadcast
from flowfabric.engine.services.retention import Retention
from flowfabric.engine.services.share import ShareHolder
from flowfabric.engine.services.worker_expiry import WorkerExpiry
from flowfabric.errors import BackendUnavailable, InvalidInput, ScriptFault
from tests.engine_fakes import Scene, part, settle


async def test_a_share_is_held_and_divides_the_partitions_in_use() -> None:
    scene = Scene(share_ttl_ms=900)
    scene.store.in_use = [part(index) for index in range(16)]
    scene.store.replicas = ("me", "you")
    holder, finder = ShareHolder(scene.around), PartitionFinder(scene.around)
    assert holder.interval_ms == 300
    await holder.run_once()
    await finder.run_once()
    territory = scene.around.territory
    assert (territory.replicas, len(territory.in_use)) == (("me", "you"), 16)
    assert 0 < len(territory.own) < 16
    scene.store.replicas = ("me",)
    await holder.run_once()
    assert territory.own == territory.in_use
    await holder.leave()
    assert [hold.leave for hold in scene.store.holds] == [False, False, True]
    assert territory.own == ()


async def test_when_the_store_cannot_be_asked_the_last_answer_holds() -> None:
    scene = Scene()
    scene.use(1, 2)
    holder = ShareHolder(scene.around)
    await holder.turn(holder.run_once)
    scene.store.failing["hold_share"] = BackendUnavailable("gone", sent=False)
    assert await holder.turn(holder.run_once) == 0
    assert len(scene.around.territory.own) == 2
    status = holder.status()
    assert (status.runs, status.items, status.errors) == (2, 1, 1)
    assert status.last_error == "backend_unavailable: gone"


async def test_every_partition_of_its_own_is_announced() -> None:
    scene = Scene()
    scene.use(*range(16))
    scene.around.territory.hear(("me", "you"))
    service = Rebroadcast(scene.around)
    assert await service.run_once() == len(scene.around.territory.own)
    assert {where for _, where in scene.store.calls} == set(scene.around.territory.own)


async def test_blocked_work_is_gone_through_page_by_page_within_the_budget() -> None:
    scene = Scene(batch=10, budget_ms=100)
    one, two = scene.use(1, 2)
    scene.store.blocked = {one: 95, two: 5}
    service = BlockedWork(scene.around)
    assert await service.run_once() == 100
    assert scene.store.count("reevaluate_blocked", one) == 10
    assert service.passed_at_ms == scene.timer.now_ms()


async def test_partitions_without_blocked_work_or_queues_are_visited_less_often() -> None:
    scene = Scene(blocked_ms=1_000, announce_ms=1_000)
    busy, quiet = scene.use(1, 2)
    scene.store.blocked = {busy: 5}
    scene.store.quiet.add(quiet)
    blocked, rebroadcast = BlockedWork(scene.around), Rebroadcast(scene.around)
    tasks = [asyncio.create_task(service.run()) for service in (blocked, rebroadcast)]
    await scene.timer.advance(60_500)
    for operation in ("reevaluate_blocked", "announce_work"):
        assert scene.store.count(operation, busy) == 61
        assert 14 <= scene.store.count(operation, quiet) <= 18
    for service in (blocked, rebroadcast):
        service.stop()
    await asyncio.gather(*tasks)


async def test_blocked_work_is_held_against_what_live_workers_offer() -> None:
    scene = Scene()
    scene.use(1)
    one = c.WorkerOffer(lanes=(LaneId("a"),), capabilities=("gpu",))
    two = c.WorkerOffer(lanes=(LaneId("a"), LaneId("b")))
    scene.store.workers = [one, two] * 1_000
    service = BlockedWork(scene.around)
    await service.run_once()
    assert set(scene.store.offers) == {one, two}
    assert scene.store.count("list_workers") == 2
    scene.store.workers = [c.WorkerOffer(lanes=(LaneId(f"lane-{number}"),)) for number in range(500)]
    picked = set()
    for _ in range(50):
        await service.run_once()
        assert len(scene.store.offers) == 100
        picked |= set(scene.store.offers)
    assert len(picked) > 400
    scene.store.failing["list_workers"] = BackendUnavailable("gone", sent=False)
    await service.run_once()
    assert scene.store.offers == ()
    assert service.errors == 1


async def test_a_pass_over_blocked_work_that_takes_too_long_goes_on_where_it_stood() -> None:
    scene = Scene(batch=10, budget_ms=1)
    (one,) = scene.use(1)
    scene.store.blocked = {one: 25}
    service = BlockedWork(scene.around)
    original = scene.store._called

    async def slow(*call: object) -> None:
        await original(*call)  # type: ignore[arg-type]
        scene.timer._now += 5

    scene.store._called = slow  # type: ignore[method-assign,assignment]
    assert [await service.run_once() for _ in range(4)] == [10, 10, 5, 10]
    scene.around.territory.find([])
    await service.run_once()
    assert service.is_dry()


async def test_a_cursor_that_is_refused_does_not_stop_blocked_work_for_ever() -> None:
    scene = Scene(batch=10, set_aside_ms=1)
    (one,) = scene.use(1)
    scene.store.blocked = {one: 25}
    service = BlockedWork(scene.around)
    service._cursors[one] = "spoiled"
    scene.store.failing[one] = InvalidInput("cursor", "spoiled", "is not a cursor")
    assert await service.run_once() == 0
    del scene.store.failing[one]
    await scene.timer.advance(1)
    assert await service.run_once() == 25


async def test_repairs_go_from_partition_to_partition_a_page_a_run() -> None:
    scene = Scene(batch=40)  # which is looked at in parts
    one, two, three = scene.use(3, 5, 9)
    scene.store.records = {one: 15, two: 0, three: 10}
    service = IndexRepair(scene.around)
    repaired = [await service.run_next() for _ in range(5)]
    assert repaired == [10, 5, 0, 10, 0]
    assert [where for _, where in scene.store.calls] == [one, one, two, three]
    assert service.lag_ms() == 0
    await scene.timer.advance(700)
    assert service.lag_ms() == 700
    assert await service.run_next() == 10
    assert service.cursor() == "3 10"
    assert service.next_in_ms() < 400  # the rest of the partition does not wait a whole second


async def test_a_partition_that_cannot_be_repaired_does_not_stop_the_others() -> None:
    scene = Scene(batch=10)
    bad, good = scene.use(1, 2)
    scene.store.records = {bad: 30, good: 30}
    scene.store.failing[bad] = ScriptFault("broken")
    service = IndexRepair(scene.around)
    assert await service.run_once() == 30
    assert await service.run_once() == 30
    assert scene.store.count("repair_indexes", bad) == 1
    assert service.status().set_aside == 1
    await scene.timer.advance(1_000)
    del scene.store.failing[bad]
    assert await service.run_once() == 60
    assert service.status().set_aside == 0


async def test_a_repair_goes_on_with_the_next_partition_when_its_own_is_taken_over() -> None:
    scene = Scene(batch=10)
    one, two = scene.use(1, 2)
    scene.store.records = {one: 30, two: 30}
    service = IndexRepair(scene.around)
    await service.run_next()
    scene.around.territory.find([two])
    await service.run_next()
    assert [where for _, where in scene.store.calls] == [one, two]


async def test_retention_without_a_rule_asks_only_for_own_times() -> None:
    scene = Scene()
    await Retention(scene.around).run_once()
    (args,) = scene.store.trims
    assert (args.older_than_ms, args.keep_last, args.cursor) == (None, None, None)


@pytest.mark.parametrize("rule", [{"retain_ms": 86_400_000}, {"keep_last": 1_000}])
async def test_retention_follows_its_rule_until_nothing_is_left(rule: dict[str, int]) -> None:
    scene = Scene(batch=10, **rule)
    scene.store.finished = 35
    service = Retention(scene.around)
    assert await service.run_once() == 35
    assert [args.cursor for args in scene.store.trims] == [None, "left-25", "left-15", "left-5"]
    asked = {(args.older_than_ms, args.keep_last) for args in scene.store.trims}
    assert asked == {(rule.get("retain_ms"), rule.get("keep_last"))}
    assert service.next_in_ms() == 60_000


async def test_a_long_trim_goes_on_soon_from_its_cursor_and_after_an_error_from_the_start() -> None:
    scene = Scene(batch=10, budget_ms=100)
    scene.store.finished = 1_000
    service = Retention(scene.around)
    service.deadline_ms = scene.timer.now_ms  # type: ignore[method-assign]
    await service.run_once()
    assert (service.cursor(), service.next_in_ms()) == ("left-990", 100)
    await service.run_once()
    assert scene.store.trims[-1].cursor == "left-990"
    scene.store.failing["trim_executions"] = InvalidInput("cursor", "left-980", "is not a cursor")
    await service.turn(service.run_once)
    scene.store.failing.clear()
    await service.run_once()
    assert scene.store.trims[-1].cursor is None


@pytest.mark.parametrize("kind", [Retention, WorkerExpiry])
async def test_what_concerns_the_whole_store_is_done_by_one_replica(kind: type[Retention | WorkerExpiry]) -> None:
    asked = []
    for name in ("a", "b", "c"):
        scene = Scene()
        scene.around.territory.replica_id = name
        scene.around.territory.hear(("a", "b", "c"))
        await kind(scene.around).run_once()
        asked.append(len(scene.store.calls))
    assert sorted(asked) == [0, 0, 1]


async def test_silent_workers_are_forgotten_in_bounded_batches() -> None:
    scene = Scene(batch=10)
    scene.store.silent_workers = 25
    assert await WorkerExpiry(scene.around).run_once() == 25
    assert scene.store.count("expire_workers") == 3


async def test_a_run_waits_for_slow_partitions_within_its_budget_and_counts_them_when_they_are_done() -> None:
    scene = Scene(budget_ms=100)
    slow, quick = scene.use(1, 2)
    scene.store.hanging[slow] = asyncio.Event()
    service = Rebroadcast(scene.around)
    assert await scene.timer.pass_in(100, service.run_once()) == 1
    assert service.passed_at_ms is None
    assert await service.run_once() == 1
    assert scene.store.count("announce_work", slow) == 1
    scene.store.hanging[slow].set()
    await settle()
    assert await service.run_once() == 3  # both, and the one that was late
    assert scene.store.count("announce_work", quick) == 3
    assert scene.store.count("announce_work", slow) == 2
    assert service.passed_at_ms == scene.timer.now_ms()


class Ears:
    """A service that listens, and what it passes on."""

    def __init__(self, scene: Scene) -> None:
        self.heard: list[Partition] = []
        self.service = Listening(scene.around, self.heard.append)
        self._task = asyncio.create_task(self.service.run())

    async def stop(self) -> None:
        self.service.stop()
        await asyncio.wait_for(self._task, 5)


async def test_what_is_announced_is_passed_on_together_and_not_all_the_time() -> None:
    scene = Scene(quick_look_ms=250)
    one, two = scene.use(1, 2)
    scene.store.lanes = [LaneId("a"), LaneId("b")]
    ears = Ears(scene)
    await settle()
    assert scene.store.listening == ("a", "b")
    for heard in (frozenset(), {(LaneId("a"), one), (LaneId("b"), one)}, {(LaneId("b"), two)}):  # type: ignore[var-annotated]
        scene.store.announced.put_nowait(frozenset(heard))
    await scene.timer.advance(0)
    assert ears.heard == []
    await scene.timer.advance(250)
    assert ears.heard == [one]
    await scene.timer.advance(250)
    assert ears.heard == [one, two]
    assert ears.service.items == 3
    await ears.stop()
    assert scene.store.listening == ()


async def test_other_lanes_are_heard_when_other_partitions_come_into_use() -> None:
    scene = Scene()
    ears = Ears(scene)
    await scene.timer.advance(10_000)
    assert scene.store.count("list_lanes") == 0  # nobody to listen to
    scene.store.lanes = [LaneId("a")]
    scene.use(1)
    await settle()
    assert scene.store.listening == ("a",)
    scene.store.lanes.append(LaneId("b"))
    scene.use(1, 2)
    await scene.timer.advance(2_000)
    assert scene.store.listening == ("a", "b")
    await ears.stop()


async def test_a_listener_that_fails_is_tried_again() -> None:
    scene = Scene()
    (one,) = scene.use(1)
    scene.store.lanes = [LaneId("a")]
    ears = Ears(scene)
    await settle()
    scene.store.announced.put_nowait(BackendUnavailable("gone", sent=False))
    await settle()
    assert (ears.service.errors, scene.store.listening) == (1, ())
    await scene.timer.advance(1_000)
    scene.store.announced.put_nowait(frozenset({(LaneId("a"), one)}))
    await settle()
    assert ears.heard == [one]
    await ears.stop()

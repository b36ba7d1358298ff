"""Slots and claims that dead workers have left behind are looked for all the time, a page after the other."""

from __future__ import annotations

from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.engine.services.reconcile import Reconcile
from flowfabric.errors import ScriptFault
from tests.engine_fakes import Scene


def quotas(index: int) -> Partition:
    return Partition(PartitionFamily.QUOTA, index)


async def test_a_pass_goes_through_all_limits_in_pages() -> None:
    scene = Scene(batch=10)
    scene.store.limits_in = {quotas(1): 25, quotas(2): 0, quotas(3): 4}
    service = Reconcile(scene.around)
    assert await service.run_once() == 29
    assert [scene.store.count("reconcile_limits", quotas(index)) for index in (1, 2, 3)] == [3, 1, 1]
    assert service.lag_ms() == 0


async def test_a_long_pass_goes_on_soon_where_it_was() -> None:
    scene = Scene(batch=10, budget_ms=1)
    scene.store.limits_in = {quotas(1): 25}
    service = Reconcile(scene.around)
    scene.timer._now = 0.0
    service.deadline_ms = lambda: 0.0  # type: ignore[method-assign]
    done = [await service.run_once()]
    assert (service.next_in_ms(), service.cursor()) == (10, "{q:1}")
    done += [await service.run_once(), await service.run_once()]
    assert (done, service.cursor()) == ([10, 10, 5], None)
    assert service.next_in_ms() > 1_000


async def test_a_pass_ends_within_a_minute_by_default() -> None:
    service = Reconcile(Scene().around)
    assert service.next_in_ms() <= 30_000


async def test_a_partition_that_fails_does_not_stop_the_others() -> None:
    scene = Scene()
    scene.store.limits_in = {quotas(1): 3, quotas(2): 4}
    scene.store.failing["reconcile_limits"] = ScriptFault("broken")
    service = Reconcile(scene.around)
    assert await service.run_once() == 0
    assert (service.status().errors, service.cursor()) == (2, None)
    del scene.store.failing["reconcile_limits"]
    assert await service.run_once() == 7


async def test_one_replica_does_it() -> None:
    done = []
    for name in ("a", "b", "c"):
        scene = Scene()
        scene.store.limits_in = {quotas(1): 1}
        scene.around.territory.replica_id = name
        scene.around.territory.hear(("a", "b", "c"))
        done.append(await Reconcile(scene.around).run_once())
    assert sorted(done) == [0, 0, 1]

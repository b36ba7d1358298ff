"""Who gets what: lanes by weight, capabilities, and several workers on one lane."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.states import LaneState
from flowfabric.worker import Worker
from tests.working import Store, clean_store


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


async def test_lanes_with_work_share_the_slots_by_weight(store: Store) -> None:
    worker = Worker(lanes={"often": 3, "seldom": 1}, concurrency=4)
    order: list[str] = []

    @worker.task
    async def note(name: str) -> None:
        order.append(name)

    ids = [await store.submit(note.with_options(lane=lane), lane) for lane in ("often", "seldom") for _ in range(80)]
    async with worker.working(store.backend):
        for execution_id in ids:
            await store.ended(execution_id)
    counts = Counter(order[:80])
    assert 50 <= counts["often"] <= 70, "three of four while both have work"
    assert len(order) == 160


async def test_a_full_lane_does_not_keep_another_one_waiting(store: Store) -> None:
    worker = Worker(lanes=["full", "other"], concurrency=2)
    order: list[str] = []

    @worker.task
    async def note(name: str) -> None:
        order.append(name)
        await asyncio.sleep(0)

    for _ in range(200):
        await store.submit(note, "full")
    late = await store.submit(note.with_options(lane="other"), "other")
    async with worker.working(store.backend):
        await store.ended(late)
        await worker.idle()
    assert order.index("other") < 20


async def test_a_paused_lane_delays_nothing_and_goes_on_when_it_is_open(store: Store) -> None:
    worker = Worker(lanes=["paused", "open"])

    @worker.task
    async def echo(name: str) -> str:
        return name

    await store.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LaneId("paused"), state=LaneState.PAUSED))
    held = await store.submit(echo, "held")
    async with worker.working(store.backend):
        assert await store.result(echo, await store.submit(echo.with_options(lane="open"), "free")) == "free"
        await worker.idle()
        assert (await store.snapshot(held)).public_state == "waiting"
        await store.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LaneId("paused"), state=LaneState.ACTIVE))
        assert await store.result(echo, held) == "held"


async def test_only_who_can_run_it_gets_it(store: Store) -> None:
    workers = [Worker(capabilities={"gpu"} if number == 0 else (), concurrency=4) for number in range(4)]
    ran: dict[str, list[int]] = {"render": [], "plain": []}

    def add(number: int, worker: Worker) -> None:
        @worker.task(capabilities={"gpu"})
        async def render(which: int) -> int:
            ran["render"].append(number)
            return which

        @worker.task
        async def plain(which: int) -> int:
            ran["plain"].append(number)
            await asyncio.sleep(0)
            return which

    for number, worker in enumerate(workers):
        add(number, worker)
    render, plain = workers[0].tasks["render"], workers[0].tasks["plain"]
    started = [await worker.start(store.backend) for worker in workers]
    ids = [await store.submit(render if which % 5 == 0 else plain, which) for which in range(200)]
    for execution_id in ids:
        assert await store.ended(execution_id) == "completed"
    for worker in workers:
        await worker.stop()
    assert len(started) == 4
    assert ran["render"] == [0] * 40
    assert len(ran["plain"]) == 160


async def test_work_that_nobody_can_run_waits_where_it_is_and_delays_nothing(store: Store) -> None:
    worker = Worker(concurrency=2)

    @worker.task
    async def plain() -> int:
        return 1

    tpu = plain.with_options(capabilities={"tpu"})
    stuck = [await store.submit(tpu) for _ in range(50)]
    async with worker.working(store.backend):
        assert await store.result(plain, await store.submit(plain)) == 1
        await worker.idle()
    assert {(await store.snapshot(execution_id)).public_state for execution_id in stuck} == {"waiting"}
    able = Worker(capabilities={"tpu", "gpu"})
    able.add(plain)
    async with able.working(store.backend):
        for execution_id in stuck:
            assert await store.result(plain, execution_id) == 1


async def test_workers_of_one_lane_share_its_work(store: Store) -> None:
    workers = [Worker(concurrency=2) for _ in range(3)]
    gate = asyncio.Event()
    for worker in workers:

        @worker.task
        async def wait() -> None:
            await gate.wait()

    for worker in workers:
        await worker.start(store.backend)
    ids = [await store.submit(workers[0].tasks["wait"]) for _ in range(6)]
    for execution_id in ids:
        await store.until_state(execution_id, "active")
    assert [worker.running for worker in workers] == [2, 2, 2]
    gate.set()
    for execution_id in ids:
        await store.ended(execution_id)
    for worker in workers:
        await worker.stop()

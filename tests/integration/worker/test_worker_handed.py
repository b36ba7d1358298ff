"""Workers whose claims wait in a real store: work comes to them unasked, once, and is not lost on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.tasks.task import Task
from flowfabric.config import Settings
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import lane_partitions
from flowfabric.core.states import PublicState
from flowfabric.testing import FabricKit, open_test_backend
from flowfabric.worker import Context, Worker
from tests.worker_fakes import parts_of
from tests.working import Store, clean_store

LANE = LaneId("default")


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


class Counting:
    """A worker that counts how often each execution was begun."""

    def __init__(self, **options: Any) -> None:
        self.worker = Worker(**{"concurrency": 32, **options})
        self.runs: Counter[ExecutionId] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self.began = asyncio.Event()

        @self.worker.task
        async def counted(ctx: Context) -> None:
            self.runs[ctx.execution_id] += 1
            self.began.set()
            await self.gate.wait()

        self.task: Task[..., Any] = counted


async def waiting(backend: ValkeyBackend, lane: LaneId = LANE) -> int:
    """How many claims wait in the lane."""
    found = 0
    for partition in lane_partitions(lane, backend.partitions):
        key = f"ff:idx:{partition.tag}:lane:{lane}:parked"
        count = await backend.client.execute("HLEN", key, key=key)
        assert isinstance(count, int)
        found += count
    return found


async def until_a_claim_waits(backend: ValkeyBackend) -> None:
    async with asyncio.timeout(20):
        while await waiting(backend) != 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)


async def ended(store: Store, execution_ids: list[ExecutionId]) -> set[PublicState]:
    return set(await asyncio.gather(*(store.ended(each) for each in execution_ids)))


async def test_an_idle_worker_starts_work_without_having_asked_for_it(store: Store) -> None:
    counting = Counting()
    counting.gate.clear()
    async with counting.worker.working(store.backend):
        await until_a_claim_waits(store.backend)
        await counting.worker.idle()
        for number in range(3):
            calls = counting.worker.stats.calls
            (execution_id,) = await store.submit_many(counting.task, 1)
            async with asyncio.timeout(20):
                await counting.began.wait()
            assert counting.worker.stats.calls == calls, "it has not asked"
            counting.began.clear()
            counting.gate.set()
            assert await store.ended(execution_id) is PublicState.COMPLETED
            await counting.worker.idle()
            assert counting.worker.stats.calls == calls + 1, "the end and the next claim are one call"
            assert await waiting(store.backend) == 1, number
            counting.gate.clear()
        counting.gate.set()
    assert await waiting(store.backend) == 0


async def test_claims_wait_again_after_more_work_than_they_could_take(store: Store) -> None:
    counting = Counting()
    async with counting.worker.working(store.backend):
        for _ in range(3):
            await until_a_claim_waits(store.backend)
            assert await ended(store, await store.submit_many(counting.task, 100)) == {PublicState.COMPLETED}
        await until_a_claim_waits(store.backend)
    assert set(counting.runs.values()) == {1}
    assert len(counting.runs) == 300


async def test_claims_wait_again_after_announced_work(store: Store) -> None:
    counting = Counting()
    async with counting.worker.working(store.backend):
        await until_a_claim_waits(store.backend)
        await counting.worker.idle()
        recalled = parts_of(counting.worker).claim_loop.handover.recall_all()
        await asyncio.gather(*recalled)
        assert await waiting(store.backend) == 0
        assert await store.ended(await store.submit(counting.task)) is PublicState.COMPLETED
        await until_a_claim_waits(store.backend)


async def test_work_in_bursts_runs_once(store: Store) -> None:
    workers = [Counting(concurrency=slots) for slots in (4, 16, 40)]
    for each in workers:
        await each.worker.start(store.backend)
    submitted: list[ExecutionId] = []
    for burst in (1, 2, 1, 30, 7, 1, 64, 3, 1, 1, 90, 5):
        submitted += await store.submit_many(workers[0].task, burst)
        await asyncio.sleep(0)
    assert await ended(store, submitted) == {PublicState.COMPLETED}
    for each in workers:
        await each.worker.stop()
    runs = sum((each.runs for each in workers), Counter[ExecutionId]())
    assert runs == Counter(submitted)
    assert sum(each.worker.stats.lost for each in workers) == 0


async def test_losing_the_connection_that_listens_loses_no_work_and_runs_none_twice(store: Store) -> None:
    counting = Counting()
    submitted: list[ExecutionId] = []
    async with counting.worker.working(store.backend):
        await until_a_claim_waits(store.backend)
        for number in range(60):
            adding = asyncio.create_task(store.submit_many(counting.task, 1 + number % 3))
            if number % 2:
                await asyncio.sleep(0)
            await store.backend.client.execute("CLIENT", "KILL", "TYPE", "pubsub")
            submitted += await adding
            if number % 5 == 0:
                await ended(store, submitted[-1:])
        assert await ended(store, submitted) == {PublicState.COMPLETED}
        await until_a_claim_waits(store.backend)
    assert counting.runs == Counter(submitted)
    assert counting.worker.stats.lost == 0


async def test_a_message_that_was_lost_is_made_up_for(store: Store) -> None:
    counting = Counting()
    async with counting.worker.working(store.backend):
        await until_a_claim_waits(store.backend)
        handed = asyncio.Event()
        (listener,) = store.backend._announcements._everybody()
        listener._on_handed = lambda key, message: handed.set()  # type: ignore[attr-defined]
        (execution_id,) = await store.submit_many(counting.task, 1)
        async with asyncio.timeout(20):
            await handed.wait()
        assert (await store.snapshot(execution_id)).public_state == "active"
        assert not counting.runs
        listener._on_handed = parts_of(counting.worker).claim_loop.handover.handed  # type: ignore[attr-defined]
        await store.backend.client.execute("CLIENT", "KILL", "TYPE", "pubsub")
        assert await store.ended(execution_id) is PublicState.COMPLETED
    assert counting.runs == Counter([execution_id])


@pytest.mark.parametrize("grace", [0, 20], ids=["hands back", "finishes"])
async def test_a_worker_that_stops_settles_what_was_handed_over(store: Store, grace: int) -> None:
    counting = Counting()
    counting.gate.clear()
    await counting.worker.start(store.backend)
    await until_a_claim_waits(store.backend)
    submitted = await store.submit_many(counting.task, 3)
    stopping = asyncio.create_task(counting.worker.stop(grace=grace))
    await asyncio.sleep(0)
    if grace:
        counting.gate.set()
    await stopping
    states = {(await store.snapshot(each)).public_state for each in submitted}
    assert states <= ({"completed", "waiting"} if grace else {"waiting"}), "none is left with a lease"
    assert await waiting(store.backend) == 0
    counting.gate.set()
    async with counting.worker.working(store.backend):
        assert await ended(store, submitted) == {PublicState.COMPLETED}


@pytest.mark.parametrize("slots", [1, 2, 3])
async def test_a_worker_with_few_slots_lets_no_claim_wait_and_works(store: Store, slots: int) -> None:
    counting = Counting(concurrency=slots)
    async with counting.worker.working(store.backend):
        await counting.worker.idle()
        assert await waiting(store.backend) == 0
        submitted = await store.submit_many(counting.task, 20)
        assert await ended(store, submitted) == {PublicState.COMPLETED}
    assert counting.runs == Counter(submitted)


async def test_several_lanes_in_several_shards_run_everything_once() -> None:
    backend, clock = await open_test_backend(settings=Settings(lane_shards=4, num_flow_partitions=16))
    store = Store(backend, clock, "embedded://")
    counting = Counting(lanes=["default", "other"], concurrency=16)
    async with counting.worker.working(backend):
        await counting.worker.idle()
        submitted: list[ExecutionId] = []
        for burst in range(1, 12):
            submitted += await store.submit_many(counting.task, burst)
            other = counting.task.with_options(lane="other")
            submitted += await store.submit_many(other, burst)
        assert await ended(store, submitted) == {PublicState.COMPLETED}
    assert counting.runs == Counter(submitted)
    await backend.close()


async def test_a_killed_worker_leaves_no_claim_that_waits() -> None:
    async with FabricKit.connect() as kit:
        counting = Counting()
        await kit.start_worker(counting.worker)
        await counting.worker.idle()
        await kit.kill_worker(counting.worker)
        handle = await kit.submit(counting.task)
        await kit.run_until_idle(counting.worker)
        await handle
        assert counting.runs == Counter([handle.id])


async def test_the_work_of_a_worker_that_was_killed_with_it_comes_back() -> None:
    async with FabricKit.connect() as kit:
        counting = Counting()
        counting.gate.clear()
        await kit.start_worker(counting.worker)
        await counting.worker.idle()
        handle = await kit.submit(counting.task)
        async with asyncio.timeout(20):
            await counting.began.wait()
        await kit.kill_worker(counting.worker)
        counting.gate.set()
        await kit.advance(counting.worker.settings.lease_ttl_ms / 1000)
        await kit.run_until_idle(counting.worker)
        await handle
        assert counting.runs == Counter({handle.id: 2})

"""CPU tasks run in processes, and everything they can say comes through."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowfabric.worker import CallNext, Context, Worker
from tests.servers import eventually_async
from tests.worker_tasks import cpu_worker, crash, power, raises, spin, where
from tests.working import Store, clean_store


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


async def test_results_and_progress_come_from_another_process(store: Store) -> None:
    async with cpu_worker.working(store.backend):
        ids = [await store.submit(power, 2, exponent) for exponent in range(6)]
        there = await store.submit(where)
        assert [await store.result(power, execution_id) for execution_id in ids] == [1, 2, 4, 8, 16, 32]
        pid, attempt_index = await store.result(where, there)
    assert pid != os.getpid()
    assert attempt_index == 0
    assert (await store.snapshot(there)).progress_message == "halfway"


async def test_what_a_process_raises_ends_the_attempt_as_anywhere(store: Store) -> None:
    async with cpu_worker.working(store.backend):
        failing = await store.submit(raises, "fail")
        other = await store.submit(raises, "broken pipe")
        snoozing = await store.submit(raises, "snooze")
        retrying = await store.submit(raises.with_options(retry=1), "retry")
        assert await store.ended(failing) == await store.ended(other) == "failed"
        asleep = await store.until_state(snoozing, "delayed")
        waiting = await store.until_state(retrying, "delayed")
        await store.cancel(snoozing)
        await store.cancel(retrying)
    snapshot = await store.snapshot(failing)
    assert (snapshot.failure_category, snapshot.failure_reason) == ("mine", "bad")
    assert (await store.snapshot(other)).failure_reason == "ConnectionResetError: broken pipe"
    (attempt,) = await store.backend.list_attempts(other)
    assert attempt.failure_detail is not None
    assert (attempt.failure_detail.type, attempt.failure_detail.message) == ("ConnectionResetError", "broken pipe")
    assert attempt.failure_detail.frames[-1].file.endswith("worker_tasks.py")
    assert waiting.delay_until == store.clock.now_ms + 7_000
    assert asleep.delay_until is not None
    assert asleep.delay_until >= store.clock.now_ms + 8_000


async def test_a_process_that_dies_fails_its_attempt_and_no_other(store: Store) -> None:
    async with cpu_worker.working(store.backend):
        dying = await store.submit(crash)
        assert await store.ended(dying) == "failed"
        assert await store.result(power, await store.submit(power, 3, 2)) == 9
    snapshot = await store.snapshot(dying)
    assert snapshot.failure_category == "crashed"
    assert "-9" in (snapshot.failure_reason or "")


async def test_middleware_sees_the_value_of_a_process(store: Store) -> None:
    async def negate(ctx: Context, call_next: CallNext) -> int:
        return -await call_next()

    worker = Worker(middleware=[negate], processes=1)
    worker.add(power, cpu=True)
    async with worker.working(store.backend):
        assert await store.result(power, await store.submit(power, 2, 5)) == -32


async def test_what_computes_when_the_worker_stops_goes_back(store: Store, tmp_path: Path) -> None:
    mark = tmp_path / "began"
    await cpu_worker.start(store.backend)
    execution_id = await store.submit(spin, str(mark))
    await eventually_async(mark.exists, "it began", 60)
    handed_back = cpu_worker.stats.handed_back
    await cpu_worker.stop(grace=0)
    assert cpu_worker.stats.handed_back == handed_back + 1
    snapshot = await store.snapshot(execution_id)
    assert snapshot.public_state == "waiting"
    assert len(await store.backend.list_attempts(execution_id)) == 1

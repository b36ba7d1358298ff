"""Cancellation, lost leases and time-outs reach handlers of every kind, and an attempt has one end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.worker import Context, Interrupted, Worker
from tests.servers import eventually_async
from tests.worker_tasks import cpu_worker, spin
from tests.working import Store, clean_store, happened

ONCE = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=1_000))


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


class Hanging:
    """A worker whose handlers hang until they are stopped."""

    def __init__(self, **options: object) -> None:
        self.worker = Worker(lease_ttl_ms=600, **options)  # type: ignore[arg-type]
        self.began, self.stopped = threading.Event(), threading.Event()
        self.raised: list[BaseException] = []

        @self.worker.task(retry=ONCE)
        async def on_the_loop() -> None:
            self.began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                self.raised.append(error)
                raise
            finally:
                self.stopped.set()

        @self.worker.task(retry=ONCE)
        def in_a_thread(ctx: Context) -> None:
            self.began.set()
            ctx.cancelled.wait()
            try:
                ctx.progress(1)
            except Interrupted as error:
                self.raised.append(error)
                raise
            finally:
                self.stopped.set()

        self.tasks = {"loop": on_the_loop, "thread": in_a_thread}


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_an_operators_cancellation_reaches_the_handler(store: Store, kind: str) -> None:
    hanging = Hanging()
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(hanging.tasks[kind])
        await happened(hanging.began)
        await store.cancel(execution_id)
        await happened(hanging.stopped)
        await hanging.worker.idle()
    assert "cancelled" in str(hanging.raised[0])
    assert hanging.worker.stats.cancelled == 1
    assert (await store.events(execution_id))[-1] == "cancelled"
    assert (await store.snapshot(execution_id)).public_state == "cancelled"


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_revoked_lease_reaches_the_handler_and_the_work_is_done_again(store: Store, kind: str) -> None:
    hanging = Hanging()
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(hanging.tasks[kind])
        await happened(hanging.began)
        await store.revoke(execution_id)
        await happened(hanging.stopped)
        await hanging.worker.idle()
        assert hanging.worker.stats.lost == 1
        hanging.began.clear()
        await store.pass_time(1)
        await happened(hanging.began)
        await store.cancel(execution_id)
    assert await store.events(execution_id) == [
        "created", "claimed", "lease_revoked", "requeued", "reclaimed", "cancelled",
    ], "the first attempt said nothing about its end"  # fmt: skip


async def test_a_lease_that_ran_out_reaches_the_handler(store: Store) -> None:
    hanging = Hanging()
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(hanging.tasks["loop"])
        await happened(hanging.began)
        await store.clock.advance(600)
        await happened(hanging.stopped)
        await hanging.worker.idle()
    assert "completed" not in await store.events(execution_id)
    assert hanging.worker.stats.lost == 1


async def test_a_time_out_of_the_store_reaches_the_handler(store: Store) -> None:
    hanging = Hanging()
    slow = hanging.tasks["loop"].with_options(timeout=20)  # known to the store only
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(slow)
        await happened(hanging.began)
        for _ in range(50):
            await store.backend.renew_lease(await _renewal(store, execution_id))
            await store.pass_time(400)
        await happened(hanging.stopped)
        await hanging.worker.idle()
    snapshot = await store.snapshot(execution_id)
    assert snapshot.failure_category == "timeout"
    assert (await store.events(execution_id)).count("retry_scheduled") == 1


async def _renewal(store: Store, execution_id: ExecutionId) -> c.RenewLeaseArgs:
    snapshot = await store.snapshot(execution_id)
    assert snapshot.current_lease is not None
    assert snapshot.current_attempt is not None
    lease = snapshot.current_lease
    fence = c.LeaseFence(
        lease_id=lease.lease_id, lease_epoch=lease.lease_epoch, attempt_id=snapshot.current_attempt.attempt_id
    )
    return c.RenewLeaseArgs(execution_id=execution_id, attempt_index=lease.attempt_index, fence=fence, lease_ttl_ms=600)


async def test_a_time_out_of_the_task_fails_the_attempt_once(store: Store) -> None:
    worker = Worker()
    cancelled = asyncio.Event()

    @worker.task(timeout=0.05, retry=ONCE)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(slow)
        waiting = await store.until_state(execution_id, "delayed")
        assert cancelled.is_set()
        await worker.idle()
    assert (waiting.failure_category, waiting.failure_reason) == ("timeout", "the attempt took longer than 0.05 s")
    assert (await store.events(execution_id)).count("retry_scheduled") == 1


async def test_a_blocked_loop_keeps_its_leases(store: Store) -> None:
    worker = Worker(lease_ttl_ms=500, blocking_threshold=60)
    began, renewed = threading.Event(), threading.Event()

    @worker.task
    async def rude() -> str:
        began.set()
        assert renewed.wait(60), "the lease was not renewed while the loop was blocked"
        return "kept"

    def work() -> None:
        asyncio.run(_until_completed(worker, store.url))

    execution_id = await store.submit(rude)
    working = asyncio.create_task(asyncio.to_thread(work))
    await happened(began)
    while not renewed.is_set():
        lease = (await store.snapshot(execution_id)).current_lease
        if lease is not None and lease.last_heartbeat_at is not None:
            renewed.set()
    assert await store.result(rude, execution_id) == "kept"
    await working
    assert worker.stats.lost == 0


async def _until_completed(worker: Worker, url: str) -> None:
    async with worker.working(url):
        await eventually_async(lambda: worker.stats.completed == 1, "it completed", 60)


async def test_a_process_is_ended_with_its_attempt(store: Store, tmp_path: Path) -> None:
    mark = tmp_path / "began"
    async with cpu_worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(spin, str(mark))
        await eventually_async(lambda: mark.exists() and bool(mark.read_text()), "it began", 60)
        pid = int(mark.read_text())
        await store.cancel(execution_id)
        await eventually_async(lambda: not Path(f"/proc/{pid}").exists(), "the process ended", 60)
        await cpu_worker.idle()
    assert (await store.events(execution_id))[-1] == "cancelled"


async def test_a_thread_that_is_slow_to_stop_has_one_end(store: Store) -> None:
    worker = Worker(cancel_grace=0.05, concurrency=1)
    gate = threading.Event()

    @worker.task(timeout=0.05)
    def stubborn() -> str:
        gate.wait(60)
        return "too late"

    async with worker.working(store.backend):
        execution_id = await store.submit(stubborn)
        assert await store.ended(execution_id) == "failed"
        gate.set()
        await worker.idle()
    assert await store.events(execution_id) == ["created", "claimed", "failed"]

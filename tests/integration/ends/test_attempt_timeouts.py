"""An attempt timeout is one end, whatever runs the handler and whoever notices first: failed, category `timeout`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric.client.tasks.task import Task
from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.worker import Context, Worker
from tests.servers import eventually_async
from tests.worker_tasks import spin
from tests.working import Store, clean_store, run_due_work

ONCE = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=1_000))
KINDS = ["loop", "thread", "process"]


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


class Hanging:
    """A worker whose handlers hang until their attempts are over."""

    def __init__(self, mark: Path, timeout: float | None) -> None:
        self.worker = Worker(lease_ttl_ms=600_000, processes=1)
        self.began = threading.Event()
        self._mark = mark

        @self.worker.task(timeout=timeout)
        async def on_the_loop() -> None:
            self.began.set()
            await asyncio.Event().wait()

        @self.worker.task(timeout=timeout)
        def in_a_thread(ctx: Context) -> None:
            self.began.set()
            ctx.cancelled.wait()

        in_a_process = spin.with_options(timeout=timeout)
        self.worker.add(in_a_process, cpu=True)
        self._tasks: dict[str, Task[..., Any]] = {
            "loop": on_the_loop, "thread": in_a_thread, "process": in_a_process,
        }  # fmt: skip

    def call(self, kind: str, **options: Any) -> tuple[Task[..., Any], tuple[str, ...]]:
        return self._tasks[kind].with_options(**options), (str(self._mark),) if kind == "process" else ()

    async def has_begun(self) -> None:
        await eventually_async(lambda: self.began.is_set() or self._mark.exists(), "it began", 60)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_that_notices_first_fails_the_attempt(store: Store, kind: str, tmp_path: Path) -> None:
    hanging = Hanging(tmp_path / "began", timeout=0.1)
    task, args = hanging.call(kind, retry=ONCE)
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(task, *args)
        retried = await store.until_state(execution_id, "delayed")
        await store.pass_time(1_000)
        assert await store.ended(execution_id) == "failed"
    assert (retried.failure_category, retried.failure_reason) == ("timeout", "the attempt took longer than 0.1 s")
    ended = await store.snapshot(execution_id)
    assert (ended.failure_category, ended.failure_reason) == ("timeout", "the attempt took longer than 0.1 s")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_that_notices_first_fails_the_attempt_in_the_same_words(
    store: Store, kind: str, tmp_path: Path
) -> None:
    """The worker knows no timeout here, so only the engine can notice."""
    hanging = Hanging(tmp_path / "began", timeout=None)
    task, args = hanging.call(kind, timeout=20)
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(task, *args)
        await hanging.has_begun()
        await store.clock.advance(20_000)
        await run_due_work(store.backend)
        assert await store.ended(execution_id) == "failed"
    ended = await store.snapshot(execution_id)
    assert (ended.failure_category, ended.failure_reason) == ("timeout", "the attempt took longer than 20 s")
    assert (await store.events(execution_id))[-1] == "failed"


async def test_a_policy_that_does_not_retry_timeouts_fails_at_the_first(store: Store, tmp_path: Path) -> None:
    picky = RetryPolicy(max_retries=5, retryable_categories=("busy",))
    hanging = Hanging(tmp_path / "began", timeout=None)
    task, _ = hanging.call("loop", timeout=20, retry=picky)
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(task)
        await hanging.has_begun()
        await store.pass_time(20_000)
        assert await store.ended(execution_id) == "failed"
    assert (await store.snapshot(execution_id)).failure_category == "timeout"


async def test_a_deadline_still_expires_the_execution(store: Store, tmp_path: Path) -> None:
    hanging = Hanging(tmp_path / "began", timeout=None)
    task, _ = hanging.call("loop", timeout=20, deadline=10)
    async with hanging.worker.working(store.backend, keeper=store.url):
        execution_id = await store.submit(task)
        await hanging.has_begun()
        await store.pass_time(10_000)
        assert await store.ended(execution_id) == "expired"
    ended = await store.snapshot(execution_id)
    assert (ended.failure_category, ended.failure_reason) == (None, "execution_deadline")

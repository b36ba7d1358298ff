"""A handler that raises what would end a program ends its attempt; the worker lives and takes the next work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.worker import CallNext, Context, Worker
from tests.worker_tasks import raises
from tests.working import Store, clean_store

ONCE = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=1_000))


class Odd(BaseException):
    """No Exception, and known to nobody."""


ERRORS: dict[str, tuple[Callable[[], BaseException], str, str]] = {
    "exit": (lambda: SystemExit("enough"), "exit", "SystemExit: enough"),
    "interrupt": (lambda: KeyboardInterrupt("enough"), "exit", "KeyboardInterrupt: enough"),
    "close": (lambda: GeneratorExit("enough"), "exit", "GeneratorExit: enough"),
    "odd": (lambda: Odd("enough"), "error", "Odd: enough"),
    "cancel": (asyncio.CancelledError, "error", "CancelledError"),
}


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


def _at_once(worker: Worker, error: Callable[[], BaseException]) -> Any:
    @worker.task(retry=ONCE)
    async def ends() -> None:
        raise error()

    return ends


def _after_a_wait(worker: Worker, error: Callable[[], BaseException]) -> Any:
    @worker.task(retry=ONCE)
    async def ends() -> None:
        await asyncio.sleep(0)
        raise error()

    return ends


def _in_a_thread(worker: Worker, error: Callable[[], BaseException]) -> Any:
    @worker.task(retry=ONCE)
    def ends() -> None:
        raise error()

    return ends


def _in_a_step(worker: Worker, error: Callable[[], BaseException]) -> Any:
    async def step() -> None:
        raise error()

    @worker.task(retry=ONCE)
    async def ends(ctx: Context) -> None:
        await ctx.step("step", step)

    return ends


def _in_a_step_in_a_thread(worker: Worker, error: Callable[[], BaseException]) -> Any:
    def step() -> None:
        raise error()

    @worker.task(retry=ONCE)
    async def ends(ctx: Context) -> None:
        await ctx.step("step", step)

    return ends


def _in_a_step_of_a_thread(worker: Worker, error: Callable[[], BaseException]) -> Any:
    async def step() -> None:
        raise error()

    @worker.task(retry=ONCE)
    def ends(ctx: Context) -> None:
        ctx.wait(ctx.step("step", step))

    return ends


def _in_a_task(worker: Worker, error: Callable[[], BaseException]) -> Any:
    async def child() -> None:
        raise error()

    @worker.task(retry=ONCE)
    async def ends() -> None:
        await asyncio.create_task(child())

    return ends


PLACES = [
    _at_once, _after_a_wait, _in_a_thread, _in_a_step, _in_a_step_in_a_thread, _in_a_step_of_a_thread, _in_a_task,
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ERRORS)
async def test_the_attempt_fails_and_the_worker_lives(store: Store, place: Any, name: str) -> None:
    error, category, reason = ERRORS[name]
    worker = Worker(concurrency=1)
    ends = place(worker, error)
    await _fails_and_lives(store, worker, ends, category, reason)


async def test_middleware_ends_an_attempt_too(store: Store) -> None:
    async def leave(ctx: Context, call_next: CallNext) -> Any:
        if ctx.task == "ends":
            sys.exit("enough")
        return await call_next()

    worker = Worker(concurrency=1, middleware=[leave])

    @worker.task(retry=ONCE)
    async def ends() -> None: ...

    await _fails_and_lives(store, worker, ends, "exit", "SystemExit: enough")


@pytest.mark.parametrize("name", ["exit", "interrupt", "close"])
async def test_a_process_ends_an_attempt_too(store: Store, name: str) -> None:
    _, category, reason = ERRORS[name]
    worker = Worker(concurrency=1, processes=1)
    ends = raises.with_options(retry=ONCE)
    worker.add(ends, cpu=True)
    await _fails_and_lives(store, worker, ends, category, reason, name)


async def _fails_and_lives(store: Store, worker: Worker, ends: Any, category: str, reason: str, *args: Any) -> None:
    """It is retried as its policy says, and gives its only slot back."""

    @worker.task
    async def alive() -> str:
        return "alive"

    async with worker.working(store.backend):
        execution_id = await store.submit(ends, *args)
        await store.until_state(execution_id, "delayed")
        assert await store.result(alive, await store.submit(alive)) == "alive"
        await store.pass_time(1_000)
        assert await store.ended(execution_id) == "failed"
        assert await store.result(alive, await store.submit(alive)) == "alive"
    snapshot = await store.snapshot(execution_id)
    assert (snapshot.failure_category, snapshot.failure_reason) == (category, reason)


async def test_a_task_that_nobody_awaits_does_not_end_the_worker(store: Store) -> None:
    worker, started = Worker(), []

    async def child() -> None:
        sys.exit(1)

    @worker.task
    async def leaves_a_task() -> str:
        started.append(asyncio.create_task(child()))
        await asyncio.sleep(0)
        return "done"

    async with worker.working(store.backend):
        assert await store.result(leaves_a_task, await store.submit(leaves_a_task)) == "done"
        assert await store.result(leaves_a_task, await store.submit(leaves_a_task)) == "done"
    assert [type(each.exception()).__name__ for each in started] == ["TaskExited", "TaskExited"]


async def test_a_task_group_is_a_group_of_what_its_tasks_raised(store: Store) -> None:
    worker = Worker()

    async def child() -> None:
        sys.exit(1)

    @worker.task
    async def ends() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    async with worker.working(store.backend):
        execution_id = await store.submit(ends)
        assert await store.ended(execution_id) == "failed"
    assert "unhandled errors in a TaskGroup" in ((await store.snapshot(execution_id)).failure_reason or "")

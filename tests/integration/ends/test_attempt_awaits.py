"""A call of the context that is not awaited fails the attempt, and names the line that forgot it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.worker import CallNext, Context, Worker
from tests.worker_tasks import forgets_in_process
from tests.working import Store, clean_store

OFTEN = RetryPolicy(max_retries=5, backoff=FixedBackoff(delay_ms=10))

FORGOTTEN: dict[str, Callable[[Context], Any]] = {
    "step": lambda ctx: ctx.step("one", int),
    "submit": lambda ctx: ctx.submit("another"),
    "sleep": lambda ctx: ctx.sleep(60),
    "now": lambda ctx: ctx.now(),
    "random": lambda ctx: ctx.random(),
    "waitpoint": lambda ctx: ctx.waitpoint("desk"),
    "wait_for_signal": lambda ctx: ctx.wait_for_signal("go"),
    "emit": lambda ctx: ctx.emit("x"),
    "use": lambda ctx: ctx.use(tokens=1),
    "describe": lambda ctx: ctx.describe(),
    "tags": lambda ctx: ctx.tags(),
}


def test_every_async_call_of_a_context_is_here() -> None:
    """A new one must be noted too."""
    public = {name for name in dir(Context) if not name.startswith("_")}
    noted = {name for name in public if "must_await" in getattr(getattr(Context, name), "__code__", _NONE).co_qualname}
    asynchronous = {name for name in public if inspect.iscoroutinefunction(inspect.unwrap(getattr(Context, name)))}
    assert asynchronous <= noted
    assert noted | {"emit"} == FORGOTTEN.keys() | {"wait_for"}


class _NONE:
    co_qualname = ""


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


async def _fails(store: Store, worker: Worker, task: Any, *args: Any) -> str:
    """It fails at its first attempt; the reason."""
    async with worker.working(store.backend):
        execution_id = await store.submit(task, *args)
        assert await store.ended(execution_id) == "failed"
    snapshot = await store.snapshot(execution_id)
    assert (snapshot.failure_category, snapshot.total_attempt_count) == ("not_awaited", 1)
    return snapshot.failure_reason or ""


def _line(function: Any, at: int) -> str:
    return f"{__file__}:{inspect.getsourcelines(function)[1] + at}: "


@pytest.mark.parametrize("name", FORGOTTEN)
async def test_an_async_handler_that_forgets_an_await_fails(store: Store, name: str) -> None:
    worker, call = Worker(), FORGOTTEN[name]

    @worker.task(retry=OFTEN)
    async def forgets(ctx: Context) -> str:
        call(ctx)
        await asyncio.sleep(0)
        return "done"

    reason = await _fails(store, worker, forgets)
    # An emit is noticed where its result is dropped, other calls where they are made.
    assert reason.startswith(_line(forgets.function, 2) if name == "emit" else _line(call, 0))
    effect = "did not wait for room" if name == "emit" else "did nothing"
    assert f"ctx.{name}(...) was not awaited, so it {effect}" in reason


async def test_the_reason_shows_the_line_and_the_remedy(store: Store) -> None:
    worker = Worker()

    @worker.task(retry=OFTEN)
    async def forgets(ctx: Context) -> None:
        await ctx.step("one", int)
        ctx.sleep(60)  # type: ignore[unused-coroutine]
        ctx.sleep(61)  # type: ignore[unused-coroutine]

    reason = await _fails(store, worker, forgets)
    problem = "ctx.sleep(...) was not awaited, so it did nothing; write `await ctx.sleep(...)` (and 1 more)"
    assert reason == _line(forgets.function, 3) + problem


async def test_a_thread_that_forgets_to_wait_fails(store: Store) -> None:
    worker = Worker()

    @worker.task(retry=OFTEN)
    def forgets(ctx: Context) -> None:
        ctx.step("one", int)  # type: ignore[unused-coroutine]

    reason = await _fails(store, worker, forgets)
    assert reason.startswith(_line(forgets.function, 2))
    assert "write `ctx.wait(ctx.step(...))`" in reason


async def test_a_process_that_forgets_to_wait_fails(store: Store) -> None:
    worker = Worker(processes=1)
    worker.add(forgets_in_process, cpu=True)
    reason = await _fails(store, worker, forgets_in_process)
    assert "worker_tasks.py" in reason
    assert "write `ctx.wait(ctx.use(...))`" in reason


async def test_middleware_that_forgets_an_await_fails(store: Store) -> None:
    async def forgetful(ctx: Context, call_next: CallNext) -> Any:
        ctx.use(tokens=1)  # type: ignore[unused-coroutine]
        return await call_next()

    worker = Worker(middleware=[forgetful])

    @worker.task
    async def fine() -> None: ...

    assert (await _fails(store, worker, fine)).startswith(_line(forgetful, 1))


async def test_an_error_about_a_coroutine_names_the_line_that_made_it(store: Store) -> None:
    worker = Worker()

    @worker.task(retry=OFTEN)
    async def forgets(ctx: Context) -> str:
        answer: Any = ctx.wait_for_signal("go")
        return str(answer["name"])

    reason = await _fails(store, worker, forgets)
    assert reason.startswith(_line(forgets.function, 2))
    assert reason.endswith("(TypeError: 'coroutine' object is not subscriptable)")


async def test_a_call_that_is_returned_instead_of_awaited_fails(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def forgets(ctx: Context) -> Any:
        return ctx.step("one", int)

    assert (await _fails(store, worker, forgets)).startswith(_line(forgets.function, 2))


async def test_another_error_stays_what_it_is(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def fails(ctx: Context) -> None:
        later = asyncio.create_task(ctx.step("one", int))
        try:
            raise ConnectionError("no route")
        finally:
            later.cancel()

    async with worker.working(store.backend):
        execution_id = await store.submit(fails)
        assert await store.ended(execution_id) == "failed"
    assert (await store.snapshot(execution_id)).failure_category == "error"


async def test_calls_that_others_start_are_awaited(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def fine(ctx: Context) -> list[int]:
        async with asyncio.TaskGroup() as group:
            started = group.create_task(ctx.step("grouped", int))
        given = await asyncio.gather(*[ctx.step(f"gathered-{at}", int, at) for at in range(200)])
        await asyncio.gather(ctx.emit("a"), ctx.emit("b"))
        await asyncio.wait_for(ctx.step("in time", int), 60)
        return [started.result(), sum(given)]

    async with worker.working(store.backend):
        assert await store.result(fine, await store.submit(fine)) == [0, sum(range(200))]


async def test_a_call_that_outlives_the_handler_has_started(store: Store) -> None:
    worker, background = Worker(), []

    @worker.task
    async def leaves(ctx: Context) -> str:
        background.append(asyncio.create_task(ctx.step("slow", asyncio.Event().wait)))
        await asyncio.sleep(0)
        return "done"

    async with worker.working(store.backend):
        assert await store.result(leaves, await store.submit(leaves)) == "done"
        background[0].cancel()

"""`current_context()` finds the context of the running handler, wherever the handler's code runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from flowfabric import FlowFabricError, current_context
from flowfabric.errors import NoContext
from flowfabric.worker import CallNext, Context, Worker
from tests.worker_tasks import cpu_worker, whoami
from tests.working import Store, clean_store


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


def _who() -> str:
    return str(current_context().execution_id)


async def test_handlers_on_the_loop_and_in_threads_find_their_own_context(store: Store) -> None:
    worker = Worker()

    @worker.task()
    async def quick() -> str:
        return _who()

    @worker.task()
    async def waiting() -> str:
        await asyncio.sleep(0)
        return _who()

    @worker.task()
    def threaded() -> str:
        return _who()

    async with worker.working(store.backend):
        for each in (quick, waiting, threaded):
            ids = [await store.submit(each) for _ in range(3)]
            assert [await store.result(each, one) for one in ids] == [str(one) for one in ids]


async def test_steps_and_their_threads_find_the_context_of_their_handler(store: Store) -> None:
    worker = Worker()

    async def in_loop() -> bool:
        return current_context() is seen[0]

    def in_thread() -> bool:
        return current_context() is seen[0]

    seen: list[Context] = []

    @worker.task()
    async def stepping(ctx: Context) -> list[bool]:
        seen.append(ctx)
        return [await ctx.step("loop", in_loop), await ctx.step("thread", in_thread), current_context() is ctx]

    async with worker.working(store.backend):
        assert await store.result(stepping, await store.submit(stepping)) == [True, True, True]


async def test_a_process_finds_the_context_of_its_call(store: Store) -> None:
    async with cpu_worker.working(store.backend):
        ids = [await store.submit(whoami) for _ in range(2)]
        assert [await store.result(whoami, one) for one in ids] == [str(one) for one in ids]


async def test_middleware_finds_the_context_too(store: Store) -> None:
    found: list[bool] = []

    async def around(ctx: Context, call_next: CallNext) -> object:
        found.append(current_context() is ctx)
        return await call_next()

    worker = Worker(middleware=[around])

    @worker.task()
    async def nothing() -> None: ...

    async with worker.working(store.backend):
        await store.ended(await store.submit(nothing))
    assert found == [True]


def test_outside_of_a_handler_the_error_says_what_to_do() -> None:
    with pytest.raises(LookupError, match="pass ctx as an argument") as caught:
        current_context()
    assert isinstance(caught.value, FlowFabricError)
    assert isinstance(caught.value, NoContext)

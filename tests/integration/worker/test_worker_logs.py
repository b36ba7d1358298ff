"""What handlers log is kept with their executions, and never at their expense."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from flowfabric.client.fabric import Fabric
from flowfabric.client.handle import Handle
from flowfabric.core import contracts as c
from flowfabric.worker import Context, Logs, Worker
from tests.worker_tasks import talk
from tests.working import Store, clean_store


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


def handle_of(store: Store, execution_id: str) -> Handle[object]:
    return Fabric(store.backend).handle(execution_id)


async def logged(handle: Handle[object], **wanted: object) -> list[tuple[int, int, str]]:
    found = handle.logs(**wanted)  # type: ignore[arg-type]
    return [(each.attempt_index, each.level, each.message) async for each in found]


async def test_records_of_the_context_are_kept_with_attempt_level_and_time(store: Store) -> None:
    worker = Worker()

    @worker.task(retry=1)
    async def report(ctx: Context, topic: str) -> None:
        ctx.log.debug("too small")
        ctx.log.info("about %s", topic)
        if ctx.attempt_index == 0:
            try:
                raise ValueError("no")
            except ValueError:
                ctx.log.exception("first try")
            raise ConnectionError("reset")

    async with worker.working(store.backend):
        execution_id = await store.submit(report.with_options(retry=1), "tides")
        await store.until_state(execution_id, "delayed")
        await store.pass_time(60_000)
        assert await store.ended(execution_id) == "completed"
        await worker.idle()
    handle = handle_of(store, execution_id)
    first, second, third = await logged(handle)
    assert first == (0, 20, "about tides")
    assert second[:2] == (0, 40)
    assert second[2].startswith("first try\nTraceback")
    assert third == (1, 20, "about tides")
    assert await logged(handle, attempt=1) == [third]
    assert await logged(handle, level="error") == [second]
    assert all([each.at_ms > 0 async for each in handle.logs()])


async def test_a_handler_in_a_thread_logs_as_any_other(store: Store) -> None:
    worker = Worker(logs="debug")

    @worker.task
    def work(ctx: Context) -> None:
        ctx.log.debug("in a thread")

    async with worker.working(store.backend):
        execution_id = await store.submit(work)
        assert await store.ended(execution_id) == "completed"
        await worker.idle()
    assert await logged(handle_of(store, execution_id)) == [(0, 10, "in a thread")]


async def test_a_handler_in_a_process_logs_and_prints_as_any_other(store: Store) -> None:
    worker = Worker(logs=Logs(print=True, loggers=["app"]), processes=1)
    worker.add(talk, cpu=True)
    async with worker.working(store.backend):
        execution_id = await store.submit(talk, "hello")
        assert await store.ended(execution_id) == "completed"
        await worker.idle()
    found = await logged(handle_of(store, execution_id))
    assert found == [(0, 20, "log hello"), (0, 20, "print hello"), (0, 30, "app hello")]


async def test_print_and_other_loggers_are_kept_where_it_is_asked_for(store: Store) -> None:
    worker = Worker(logs=Logs(print=True, loggers=["app"]))
    elsewhere = logging.getLogger("app.db")

    @worker.task
    async def work(name: str) -> None:
        print("one", name)
        await asyncio.sleep(0)
        print("rest of", name, end="")
        elsewhere.warning("slow %s", name)
        logging.getLogger("other").warning("not kept")

    @worker.task
    def in_thread(name: str) -> None:
        print("thread", name)

    async with worker.working(store.backend):
        ids = [await store.submit(work, "a"), await store.submit(work, "b"), await store.submit(in_thread, "c")]
        for each in ids:
            assert await store.ended(each) == "completed"
        await worker.idle()
        print("outside of attempts")
    for name, execution_id in zip("ab", ids, strict=False):
        found = await logged(handle_of(store, execution_id))
        assert [text for _, _, text in found] == [f"one {name}", f"slow {name}", f"rest of {name}"]
    assert [text for _, _, text in await logged(handle_of(store, ids[2]))] == ["thread c"]


@pytest.mark.parametrize("off", [None, "off"])
async def test_logs_can_be_switched_off(store: Store, off: str | None) -> None:
    worker = Worker(logs=off)

    @worker.task
    async def work(ctx: Context) -> None:
        ctx.log.error("not kept")

    async with worker.working(store.backend):
        execution_id = await store.submit(work)
        assert await store.ended(execution_id) == "completed"
        await worker.idle()
    assert await logged(handle_of(store, execution_id)) == []


async def test_the_environment_can_switch_them_off(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWFABRIC_WORKER_LOGS", "off")
    worker = Worker()

    @worker.task
    async def work(ctx: Context) -> None:
        ctx.log.error("not kept")

    async with worker.working(store.backend):
        execution_id = await store.submit(work)
        assert await store.ended(execution_id) == "completed"
        await worker.idle()
    assert await logged(handle_of(store, execution_id)) == []


async def test_a_flood_is_cut_and_says_so(store: Store) -> None:
    worker = Worker(logs=Logs(records=100_000, bytes=16_777_216))

    @worker.task
    async def flood(ctx: Context) -> None:
        for number in range(5_000):
            ctx.log.info("%d", number)

    async with worker.working(store.backend):
        execution_id = await store.submit(flood)
        assert await store.ended(execution_id) == "completed"
        await worker.idle()
    found = await logged(handle_of(store, execution_id))
    assert len(found) == 1_001
    assert found[-1] == (0, 30, "4000 log records were dropped, because they came faster than the store takes them")


async def test_what_was_flushed_survives_the_worker(store: Store) -> None:
    worker, may_end = Worker(), asyncio.Event()

    @worker.task
    async def work(ctx: Context) -> None:
        ctx.log.info("before the crash")
        await may_end.wait()

    await worker.start(store.backend)
    execution_id = await store.submit(work)
    handle = handle_of(store, execution_id)
    following = handle.logs(follow=True)
    record = await anext(following)
    await following.aclose()
    await worker.kill()
    assert record.message == "before the crash"
    assert await logged(handle) == [(0, 20, "before the crash")]


async def test_a_follower_gets_new_records_until_the_end(store: Store) -> None:
    worker, may_end = Worker(), asyncio.Event()

    @worker.task
    async def work(ctx: Context) -> None:
        ctx.log.info("one")
        await may_end.wait()
        ctx.log.info("two")

    async with worker.working(store.backend):
        execution_id = await store.submit(work)
        found: list[str] = []
        async for record in handle_of(store, execution_id).logs(follow=True):
            found.append(record.message)
            may_end.set()
    assert found == ["one", "two"]


async def test_a_store_that_refuses_records_does_not_fail_the_handler(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def work(ctx: Context) -> str:
        ctx.log.info("lost")
        await store.backend.get_execution_state(ctx.execution_id)
        return "done"

    execution_id = await store.submit(work)
    async with worker.working(store.backend):
        assert await store.result(work, execution_id) == "done"
        await worker.idle()
        await store.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))

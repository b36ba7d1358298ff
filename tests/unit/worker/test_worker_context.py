"""What a handler sees of its attempt."""

from __future__ import annotations

import contextvars
import logging
from datetime import UTC, datetime

import pytest

from flowfabric.errors import InvalidInput
from flowfabric.worker import Context, Worker
from tests.worker_fakes import FakeStore, settle, worked

CLAIMED_AT = datetime.fromtimestamp(1_700_000_000, UTC)  # by the fake store's clock


async def test_it_knows_its_execution() -> None:
    worker, store = Worker(namespace="acme", lanes=["default"]), FakeStore()
    seen: list[Context] = []

    @worker.task(name="research", timeout=60)
    async def handler(ctx: Context, topic: str) -> None:
        seen.append(ctx)
        assert ctx.is_lease_healthy
        assert not ctx.cancelled
        assert not ctx.lease_lost.is_set()
        ctx.check()

    execution_id = await worked(worker, store, handler, "tides")
    (ctx,) = seen
    assert (ctx.execution_id, ctx.attempt_index, ctx.task) == (execution_id, 0, "research")
    assert (ctx.lane, ctx.namespace, ctx.state) == ("default", "acme", None)
    assert ctx.deadline is not None
    assert (ctx.deadline - CLAIMED_AT).total_seconds() == 60
    assert execution_id.short in repr(ctx)
    assert worker.stats.completed == 1


async def test_without_a_time_out_there_is_no_deadline() -> None:
    worker, store = Worker(), FakeStore()
    seen: list[datetime | None] = []

    @worker.task
    async def handler(ctx: Context) -> None:
        seen.append(ctx.deadline)

    await worked(worker, store, handler)
    assert seen == [None]


async def test_its_log_lines_name_the_execution(caplog: pytest.LogCaptureFixture) -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler(ctx: Context) -> None:
        ctx.log.info("page %d", 3, extra={"page": 3})

    with caplog.at_level(logging.INFO, logger="flowfabric.task"):
        execution_id = await worked(worker, store, handler)
    (record,) = [each for each in caplog.records if each.name == "flowfabric.task"]
    assert record.getMessage() == f"handler {execution_id.short}: page 3"
    facts = vars(record)
    assert (facts["execution_id"], facts["attempt_index"], facts["task"], facts["page"]) == (
        execution_id.short, 0, "handler", 3,
    )  # fmt: skip


async def test_tags_are_read_when_they_are_asked_for() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler(ctx: Context) -> dict[str, str]:
        assert (await ctx.describe()).tags == {"team.a": "b"}
        return await ctx.tags()

    await worked(worker, store, handler)
    assert worker.stats.completed == 1


async def test_a_thread_can_wait_for_async_calls() -> None:
    worker, store = Worker(), FakeStore()
    seen: list[dict[str, str]] = []

    @worker.task
    def handler(ctx: Context) -> None:
        seen.append(ctx.wait(ctx.tags()))

    store.give(handler)
    async with worker.working(store.port):
        while not worker.stats.completed:
            await settle()
    assert seen == [{"team.a": "b"}]


async def test_waiting_on_the_loop_itself_is_refused_instead_of_hanging() -> None:
    worker, store = Worker(), FakeStore()
    refused: list[InvalidInput] = []

    @worker.task
    async def handler(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match="await the call") as error:
            ctx.wait(ctx.tags())
        refused.append(error.value)

    await worked(worker, store, handler)
    assert len(refused) == 1


async def test_context_variables_belong_to_the_attempt() -> None:
    worker, store = Worker(concurrency=4), FakeStore()
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    seen: list[str] = []

    @worker.task
    async def handler(mine: str) -> None:
        name.set(mine)
        await settle()
        seen.append(name.get())

    for each in ("a", "b", "c"):
        store.give(handler, each)
    async with worker.working(store.port):
        while worker.stats.completed < 3:
            await settle()
    assert sorted(seen) == ["a", "b", "c"]

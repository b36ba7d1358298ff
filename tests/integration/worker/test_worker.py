"""A worker on a real store: what its handlers return and raise is what becomes of their executions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from flowfabric.client.tasks.task import named
from flowfabric.core import contracts as c
from flowfabric.core.explain import explain
from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.worker import Cancel, Context, Fail, Retry, Snooze, Worker
from tests.working import Store, clean_store

TWICE = RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=5_000))


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


@dataclass
class Report:
    topic: str
    pages: int


async def test_results_come_back_typed(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def research(topic: str, *, depth: int = 2) -> Report:
        return Report(topic, depth * 10)

    @worker.task
    def double(ctx: Context, number: int) -> int:
        return 2 * number

    async with worker.working(store.backend):
        first = await store.submit(research, "tides", depth=4)
        second = await store.submit(double, 21)
        assert await store.result(research, first) == Report("tides", 40)
        assert await store.result(double, second) == 42


async def test_what_waits_before_the_worker_comes_is_found(store: Store) -> None:
    worker = Worker(concurrency=8)

    @worker.task
    async def echo(number: int) -> int:
        return number

    ids = [await store.submit(echo, number) for number in range(50)]
    async with worker.working(store.backend):
        for number, execution_id in enumerate(ids):
            assert await store.result(echo, execution_id) == number
    assert worker.stats.completed == 50


async def test_a_failure_is_retried_as_the_policy_says(store: Store) -> None:
    worker = Worker()
    attempts: list[int] = []

    @worker.task(retry=TWICE)
    async def flaky(ctx: Context) -> str:
        attempts.append(ctx.attempt_index)
        if ctx.attempt_index < 2:
            raise ConnectionError("not yet")
        return "at last"

    async with worker.working(store.backend):
        execution_id = await store.submit(flaky)
        for _ in range(2):
            waiting = await store.until_state(execution_id, "delayed")
            assert waiting.failure_reason == "ConnectionError: not yet"
            await store.pass_time(5_000)
        assert await store.result(flaky, execution_id) == "at last"
    assert attempts == [0, 1, 2]


async def test_a_failure_without_retries_ends_the_execution(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def broken() -> None:
        raise KeyError("page")

    async with worker.working(store.backend):
        execution_id = await store.submit(broken)
        assert await store.ended(execution_id) == "failed"
    snapshot = await store.snapshot(execution_id)
    assert (snapshot.failure_reason, snapshot.failure_category) == ("KeyError: 'page'", "error")


async def test_fail_can_rule_out_the_retries_of_the_policy(store: Store) -> None:
    worker = Worker()

    @worker.task(retry=TWICE)
    async def hopeless() -> None:
        raise Fail("no such account", category="account", retryable=False)

    async with worker.working(store.backend):
        execution_id = await store.submit(hopeless)
        assert await store.ended(execution_id) == "failed"
    assert (await store.snapshot(execution_id)).failure_category == "account"


async def test_retry_comes_back_when_it_said(store: Store) -> None:
    worker = Worker()

    @worker.task(retry=TWICE)
    async def busy(ctx: Context) -> int:
        if ctx.attempt_index == 0:
            raise Retry("rate limited", after=60)
        return ctx.attempt_index

    async with worker.working(store.backend):
        execution_id = await store.submit(busy)
        waiting = await store.until_state(execution_id, "delayed")
        assert waiting.delay_until == store.clock.now_ms + 60_000
        await store.pass_time(5_000)
        assert (await store.snapshot(execution_id)).public_state == "delayed", "the policy's pause is not enough"
        await store.pass_time(55_000)
        assert await store.result(busy, execution_id) == 1


async def test_snooze_goes_on_with_the_same_attempt(store: Store) -> None:
    worker = Worker()
    tries: list[int] = []

    @worker.task
    async def patient(ctx: Context) -> str:
        tries.append(ctx.attempt_index)
        if len(tries) == 1:
            raise Snooze(for_=timedelta(minutes=10))
        return "morning"

    async with worker.working(store.backend):
        execution_id = await store.submit(patient)
        waiting = await store.until_state(execution_id, "delayed")
        assert waiting.delay_until is not None
        await store.pass_time(waiting.delay_until - store.clock.now_ms)
        assert await store.result(patient, execution_id) == "morning"
    assert tries == [0, 0]
    assert len(await store.backend.list_attempts(execution_id)) == 1


async def test_cancel_ends_the_execution_as_cancelled(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def pointless() -> None:
        raise Cancel("nobody asked")

    async with worker.working(store.backend):
        execution_id = await store.submit(pointless)
        assert await store.ended(execution_id) == "cancelled"
    assert worker.stats.cancelled == 1


async def test_progress_and_tags_go_both_ways(store: Store) -> None:
    worker = Worker()
    seen = asyncio.Event()
    gate = asyncio.Event()
    tags: list[dict[str, str]] = []

    @worker.task
    async def slow(ctx: Context) -> None:
        tags.append(await ctx.tags())
        ctx.progress(40, "half of it")
        seen.set()
        await gate.wait()

    async with worker.working(store.backend):
        execution_id = await store.submit(slow.with_options(tags={"team.name": "tides"}))
        await seen.wait()
        async for event in store.backend.tail_events(execution_id):
            if event.event == "progress":
                break
        snapshot = await store.snapshot(execution_id)
        gate.set()
        await store.ended(execution_id)
    assert (snapshot.progress_pct, snapshot.progress_message) == (40, "half of it")
    assert tags == [{"team.name": "tides"}]


async def test_work_of_an_unknown_task_waits_and_starts_when_a_worker_has_it(store: Store) -> None:
    worker, other = Worker(), Worker()

    @worker.task
    async def known() -> None: ...

    new = named("new")
    async with worker.working(store.backend):
        execution_id = await store.submit(new)
        assert await store.ended(await store.submit(known)) == "completed"
        await worker.idle()
        facts = await store.backend.explain_execution(execution_id)
        workers = (await store.backend.list_workers(c.ListWorkersArgs())).workers
        assert explain(facts, workers) == (
            "waits: no live worker has the task `new`; workers of lane default know: known; "
            "it starts when a worker with this task comes"
        )
        assert worker.stats.unknown == 0
        assert [each.event for each in (await store.backend.history(execution_id)).events] == ["created"]

        @other.task(name="new")
        async def now_known() -> str:
            return "here"

        async with other.working(store.backend):
            assert await store.result(now_known, execution_id) == "here"
    assert len(await store.backend.list_attempts(execution_id)) == 1


async def test_workers_with_different_tasks_share_a_lane(store: Store) -> None:
    first, second = Worker(), Worker()

    @first.task
    async def one(number: int) -> int:
        return number

    @second.task
    async def two(number: int) -> int:
        return -number

    async with first.working(store.backend), second.working(store.backend):
        ids = [await store.submit(one if at % 2 else two, at) for at in range(40)]
        results = [await store.result(one, each) for each in ids]
    assert results == [at if at % 2 else -at for at in range(40)]
    assert (first.stats.unknown, second.stats.unknown) == (0, 0)


async def test_a_worker_is_on_the_list_while_it_works(store: Store) -> None:
    worker = Worker(lanes=["agents", "mail"], capabilities={"gpu"}, concurrency=7, namespace="acme", version="1.2")

    @worker.task
    async def handler() -> None: ...

    async with worker.working(store.backend):
        (info,) = (await store.backend.list_workers(c.ListWorkersArgs())).workers
    assert info.worker_instance_id == worker.settings.worker_instance_id
    assert (info.lanes, info.capabilities, info.slots) == (("agents", "mail"), ("gpu",), 7)
    assert (info.namespace, info.version) == ("acme", "1.2")
    assert (await store.backend.list_workers(c.ListWorkersArgs())).workers == ()


async def test_a_worker_that_waits_asks_the_store_nothing(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def echo(number: int) -> int:
        return number

    async def calls() -> int:
        text = await store.backend.client.execute("INFO", "commandstats")
        assert isinstance(text, bytes)
        (line,) = [line for line in text.decode().splitlines() if line.startswith("cmdstat_fcall:")]
        return int(line.split("calls=")[1].split(",")[0])

    async with worker.working(store.backend):
        await store.result(echo, await store.submit(echo, 1))
        await worker.idle()
        before = await calls()
        for _ in range(200):
            await asyncio.sleep(0)
        assert await calls() == before
        assert worker.stats.calls <= 4, "one or two that found nothing, one claim, one end"
        assert await store.result(echo, await store.submit(echo, 2)) == 2


async def test_every_shard_of_a_lane_is_claimed_from(store: Store) -> None:
    store.backend.partitions = type(store.backend.partitions)(lane_shards=8)
    worker = Worker(concurrency=4)

    @worker.task
    async def echo(number: int) -> int:
        return number

    before = [await store.submit(echo, number) for number in range(40)]
    async with worker.working(store.backend):
        after = [await store.submit(echo, number) for number in range(40)]
        for number, execution_id in enumerate([*before, *after]):
            assert await store.result(echo, execution_id) == number % 40
    assert len({execution_id.tag for execution_id in before}) > 1


async def test_handlers_on_the_loop_and_in_threads_explain_their_failures(store: Store) -> None:
    worker = Worker()

    @worker.task
    async def on_the_loop() -> None:
        raise KeyError("page") from OSError("refused")

    @worker.task
    def in_a_thread() -> None:
        error = KeyError("page")
        error.add_note("of the index")
        raise error

    async with worker.working(store.backend):
        first, second = await store.submit(on_the_loop), await store.submit(in_a_thread)
        assert await store.ended(first) == await store.ended(second) == "failed"
    ((of_loop,), (of_thread,)) = (
        await store.backend.list_attempts(first),
        await store.backend.list_attempts(second),
    )
    assert of_loop.failure_detail is not None
    assert of_loop.failure_detail.frames[-1].source == 'raise KeyError("page") from OSError("refused")'
    assert of_loop.failure_detail.cause is not None
    assert of_loop.failure_detail.cause.type == "OSError"
    assert of_thread.failure_detail is not None
    assert of_thread.failure_detail.notes == ("of the index",)
    assert [frame.source for frame in of_thread.failure_detail.frames] == ["raise error"]

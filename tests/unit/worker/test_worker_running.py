"""A worker at work, on a store that does as it is told."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.client.tasks.task import task
from flowfabric.core import contracts as c
from flowfabric.errors import BackendUnavailable, ExecutionNotActive, InvalidInput
from flowfabric.worker import CallNext, Context, Interrupted, Snooze, Worker
from tests.worker_fakes import LANE, FakeStore, claimed_work, parts_of, settle, worked


async def test_arguments_and_results_are_typed() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def repeat(text: str, *, times: int = 2) -> list[str]:
        return [text] * times

    await worked(worker, store, repeat, "a", times=3)
    (args,) = store.finished
    assert isinstance(args, c.CompleteExecutionArgs)
    assert repeat.decode_result(args.result_payload or b"") == ["a", "a", "a"]


async def test_tasks_made_elsewhere_can_be_added() -> None:
    @task(name="elsewhere")
    async def handler() -> None: ...

    worker, store = Worker(), FakeStore()
    worker.add(handler)
    await worked(worker, store, handler)
    assert worker.stats.completed == 1


async def test_an_async_handler_is_one_task_of_the_loop() -> None:
    worker, store = Worker(), FakeStore()
    seen: list[Any] = []

    @worker.task
    async def handler() -> None:
        async with asyncio.timeout(30):  # needs a task of its own
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

    await worked(worker, store, handler)
    assert seen[0] is seen[1]
    assert worker.stats.completed == 1


async def test_no_more_handlers_run_than_there_are_slots() -> None:
    worker, store = Worker(concurrency=3, prefetch=2), FakeStore()
    gate, most = asyncio.Event(), 0

    @worker.task
    async def handler() -> None:
        nonlocal most
        most = max(most, worker.running)
        await gate.wait()

    for _ in range(8):
        store.give(handler)
    async with worker.working(store.port):
        await settle()
        assert worker.running == 3
        assert worker.stats.claimed == 5, "prefetch, and no more"
        gate.set()
        while worker.stats.completed < 8:
            await settle()
    assert most == 3


async def test_a_plain_function_runs_in_a_thread() -> None:
    worker, store = Worker(), FakeStore()
    threads = []

    @worker.task
    def handler(ctx: Context, number: int) -> int:
        threads.append(threading.current_thread())
        return number + 1

    store.give(handler, 1)
    async with worker.working(store.port):
        while not worker.stats.completed:
            await settle()
    assert threads[0] is not threading.current_thread()
    (args,) = store.finished
    assert isinstance(args, c.CompleteExecutionArgs)
    assert args.result_payload == b"2"


async def test_a_plain_function_may_answer_with_something_to_await() -> None:
    worker, store = Worker(), FakeStore()

    async def later() -> int:
        return 5

    @worker.task
    def handler() -> Any:
        return later()

    store.give(handler)
    async with worker.working(store.port):
        while not worker.stats.completed:
            await settle()
    assert isinstance(store.finished[0], c.CompleteExecutionArgs)
    assert store.finished[0].result_payload == b"5"


async def test_a_task_that_the_worker_does_not_know_goes_back_visibly(caplog: pytest.LogCaptureFixture) -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def known() -> None: ...

    store.give("unknown")
    store.give("unknown")
    with caplog.at_level(logging.WARNING):
        await worked(worker, store, known)
    assert [record.message for record in caplog.records if "unknown" in record.message] == [
        "no task 'unknown' in this worker; its executions of lane default are handed back"
    ]
    assert len(store.delayed) == 2
    assert store.delayed[0].delay_until > 1_700_000_000_000
    assert "has no task 'unknown'" in (store.progress[0].progress_message or "")
    assert (worker.stats.unknown, worker.stats.completed) == (2, 1)


async def test_middleware_stands_around_every_attempt() -> None:
    seen: list[str] = []

    async def outer(ctx: Context, call_next: CallNext) -> Any:
        seen.append(f"outer {ctx.task}")
        try:
            return await call_next() * 10
        finally:
            seen.append("outer ends")

    async def inner(ctx: Context, call_next: CallNext) -> Any:
        seen.append("inner")
        return await call_next() + 1

    worker, store = Worker(middleware=[outer, inner]), FakeStore()

    @worker.task
    async def three() -> int:
        seen.append("handler")
        return 3

    @worker.task
    def four() -> int:
        return 4

    await worked(worker, store, three)
    assert seen == ["outer three", "inner", "handler", "outer ends"]
    store.give(four)
    async with worker.working(store.port):
        while worker.stats.completed < 2:
            await settle()
    assert [args.result_payload for args in store.finished if isinstance(args, c.CompleteExecutionArgs)] == [
        b"40",
        b"50",
    ]


async def test_what_middleware_raises_ends_the_attempt() -> None:
    async def refuse(ctx: Context, call_next: CallNext) -> Any:
        raise Snooze("not now", for_=5)

    worker, store = Worker(middleware=[refuse]), FakeStore()

    @worker.task
    async def handler() -> None: ...

    await worked(worker, store, handler)
    assert len(store.delayed) == 1


async def test_the_lifespan_is_entered_once_and_gives_the_state() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[dict[str, int]]:
        seen.append("opened")
        yield {"answer": 42}
        seen.append("closed")

    worker, store = Worker(lifespan=lifespan), FakeStore()

    @worker.task
    async def handler(ctx: Context) -> int:
        return ctx.state["answer"]

    store.give(handler)
    await worked(worker, store, handler)
    assert [args.result_payload for args in store.finished if isinstance(args, c.CompleteExecutionArgs)] == [b"42"] * 2
    assert seen == ["opened", "closed"]


async def test_progress_is_sent_and_the_last_of_many_wins() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler(ctx: Context) -> None:
        for pct in range(101):
            ctx.progress(pct, f"step {pct}")
        await settle()

    await worked(worker, store, handler)
    assert store.progress[-1].progress_pct == 100
    assert len(store.progress) < 5


async def test_a_bad_progress_is_the_handlers_error() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler(ctx: Context) -> None:
        ctx.progress(101)

    await worked(worker, store, handler)
    (args,) = store.finished
    assert isinstance(args, c.FailExecutionArgs)
    assert "progress_pct" in args.failure_reason


async def test_an_attempt_that_takes_too_long_is_cancelled_and_fails_once() -> None:
    worker, store = Worker(), FakeStore()
    cancelled = asyncio.Event()

    @worker.task(timeout=0.01)
    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await worked(worker, store, handler)
    assert cancelled.is_set()
    (args,) = store.finished
    assert isinstance(args, c.FailExecutionArgs)
    assert args.failure_category == "timeout"
    assert worker.stats.timed_out == 1


async def test_a_handler_that_will_not_stop_keeps_its_slot_but_not_its_attempt() -> None:
    worker, store = Worker(concurrency=1, cancel_grace=0.01), FakeStore()
    gate = threading.Event()

    @worker.task(timeout=0.01)
    def stubborn() -> str:
        gate.wait(30)
        return "too late"

    store.give(stubborn)
    async with worker.working(store.port):
        while not store.finished:
            await settle()
        assert worker.running == 1
        gate.set()
        while worker.running:
            await settle()
    (args,) = store.finished
    assert isinstance(args, c.FailExecutionArgs)


async def test_a_lost_lease_cancels_the_handler_and_no_outcome_is_sent() -> None:
    worker, store = Worker(lease_ttl_ms=100), FakeStore()
    cancelled = asyncio.Event()

    @worker.task
    async def handler() -> None:
        store.renewal_outcome = ExecutionNotActive(terminal_outcome="cancelled")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    store.give(handler)
    async with worker.working(store.port):
        await cancelled.wait()
        await worker.idle()
    assert (store.finished, store.delayed) == ([], [])
    assert worker.stats.cancelled == 1


async def test_a_value_that_comes_after_the_lease_was_lost_is_not_sent() -> None:
    worker, store = Worker(lease_ttl_ms=100), FakeStore()

    @worker.task
    async def handler() -> str:
        store.renewal_outcome = ExecutionNotActive(terminal_outcome="none")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    await worked(worker, store, handler)
    assert store.finished == []
    assert worker.stats.lost == 1


async def test_a_thread_is_told_and_raises_at_its_next_call_of_the_context() -> None:
    worker, store = Worker(lease_ttl_ms=100), FakeStore()
    raised: list[BaseException] = []
    flags: list[bool] = []

    @worker.task
    def handler(ctx: Context) -> None:
        store.renewal_outcome = ExecutionNotActive(terminal_outcome="none")
        flags.append(ctx.lease_lost.wait(30))
        flags.append(bool(ctx.cancelled))
        try:
            ctx.progress(50)
        except Interrupted as error:
            raised.append(error)
            raise

    store.give(handler)
    async with worker.working(store.port):
        while not raised:
            await settle()
        await worker.idle()
    assert flags == [True, True]
    assert store.finished == []


async def test_draining_lets_handlers_end_within_the_grace() -> None:
    worker, store = Worker(), FakeStore()
    gate, started = asyncio.Event(), asyncio.Event()

    @worker.task
    async def handler() -> str:
        started.set()
        await gate.wait()
        return "done"

    store.give(handler)
    await worker.start(store.port)
    await started.wait()
    stopping = asyncio.create_task(worker.stop())
    await settle()
    store.give(handler)
    gate.set()
    await stopping
    assert len(store.finished) == 1
    assert store.delayed == []
    assert len(store.queue) == 1, "nothing more is claimed"
    assert store.presence[-1] == "dead: stopped"


async def test_what_does_not_end_within_the_grace_is_handed_back_at_once() -> None:
    worker, store = Worker(concurrency=1, prefetch=1), FakeStore()
    started = asyncio.Event()

    @worker.task
    async def handler() -> None:
        started.set()
        await asyncio.Event().wait()

    store.give(handler)
    store.give(handler)
    await worker.start(store.port)
    await started.wait()
    await worker.stop(grace=0)
    assert [args.delay_until for args in store.delayed] == [0, 0], "the one that ran, and the one claimed ahead"
    assert store.finished == []
    assert worker.stats.handed_back == 2


async def test_a_handler_that_ends_while_it_is_stopped_for_the_drain_has_ended() -> None:
    worker, store = Worker(), FakeStore()
    started = asyncio.Event()

    @worker.task
    async def handler() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "saved"
        return ""

    store.give(handler)
    await worker.start(store.port)
    await started.wait()
    await worker.stop(grace=0)
    (args,) = store.finished
    assert isinstance(args, c.CompleteExecutionArgs)
    assert args.result_payload == b'"saved"'


async def test_a_thread_that_will_not_stop_does_not_keep_the_worker() -> None:
    worker, store = Worker(cancel_grace=0), FakeStore()
    gate, started = threading.Event(), threading.Event()

    @worker.task
    def stubborn() -> None:
        started.set()
        gate.wait(30)

    store.give(stubborn)
    await worker.start(store.port)
    while not started.is_set():
        await settle()
    await worker.stop(grace=0)
    assert len(store.delayed) == 1
    gate.set()


async def test_an_order_to_stop_that_comes_before_the_first_step_is_heeded() -> None:
    worker, store = Worker(), FakeStore()
    ran = []

    @worker.task
    async def handler() -> None:
        ran.append(1)

    async with worker.working(store.port):
        parts = parts_of(worker)
        parts.starter.claimed([claimed_work(handler.name)], LANE, sent_at=0)
        parts.stopper.stop_all()
        await settle()
    assert ran == []
    assert len(store.delayed) == 1


async def test_a_worker_without_tasks_does_not_start() -> None:
    with pytest.raises(InvalidInput, match="has no tasks"):
        await Worker().start(FakeStore().port)


async def test_a_worker_runs_once_at_a_time() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler() -> None: ...

    async with worker.working(store.port):
        with pytest.raises(InvalidInput, match="is already running"):
            await worker.start(store.port)
    await worked(worker, store, handler)
    assert worker.stats.completed == 1, "but it can run again"


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    closed = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        try:
            yield
        finally:
            closed.append(1)

    class Refusing(FakeStore):
        async def register_worker(self, args: c.RegisterWorkerArgs) -> c.RegisterWorkerResult:
            raise BackendUnavailable("no", sent=False)

    worker = Worker(lifespan=lifespan)

    @worker.task
    async def handler() -> None: ...

    with pytest.raises(BackendUnavailable):
        await worker.start(Refusing().port)
    assert closed == [1]
    await worked(worker, FakeStore(), handler)

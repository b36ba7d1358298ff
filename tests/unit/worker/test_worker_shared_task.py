"""Handlers that do not wait share an asyncio task; whoever waits has one to itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.worker import Worker
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.executors.inline import SharedTask
from tests.worker_fakes import LANE, FakeStore, claimed_work, settle

who: ContextVar[str] = ContextVar("who", default="nobody")


async def worked_through(worker: Worker, store: FakeStore, ends: int) -> None:
    async with worker.working(store.port):
        while len(store.finished) < ends:
            await settle()


async def test_handlers_that_do_not_wait_need_no_task_each() -> None:
    worker, store = Worker(concurrency=8), FakeStore()
    tasks = []

    @worker.task
    async def handler(number: int) -> int:
        tasks.append(asyncio.current_task())
        return number

    for number in range(4):
        store.give(handler, number)
    await worked_through(worker, store, 4)
    assert len(set(tasks)) < 4
    assert all(isinstance(task, asyncio.Task) for task in tasks)
    assert [args.result_payload for args in store.finished if isinstance(args, c.CompleteExecutionArgs)] == [
        b"0", b"1", b"2", b"3",
    ]  # fmt: skip


async def test_each_attempt_has_its_own_context_variables() -> None:
    worker, store = Worker(concurrency=8), FakeStore()
    seen = []

    @worker.task
    async def handler(name: str, waits: bool) -> None:
        seen.append(who.get())
        who.set(name)
        if waits:
            await asyncio.sleep(0)
            seen.append(who.get())

    for name, waits in (("a", False), ("b", True), ("c", False), ("d", True)):
        store.give(handler, name, waits)
    await worked_through(worker, store, 4)
    assert sorted(seen) == ["b", "d", "nobody", "nobody", "nobody", "nobody"]
    assert who.get() == "nobody"


async def test_who_waits_keeps_its_task_and_holds_up_nobody() -> None:
    worker, store = Worker(concurrency=8), FakeStore()
    gate = asyncio.Event()
    tasks: dict[int, set[Any]] = {}

    @worker.task
    async def handler(number: int) -> None:
        tasks[number] = {asyncio.current_task()}
        if number % 2:
            await gate.wait()
            tasks[number].add(asyncio.current_task())

    for number in range(6):
        store.give(handler, number)
    async with worker.working(store.port):
        while len(store.finished) < 3:
            await settle()
        assert worker.running == 3
        gate.set()
        await worker.idle()
    assert all(len(each) == 1 for each in tasks.values())
    assert len(tasks[1] | tasks[3] | tasks[5]) == 3, "each of those that wait"
    assert tasks[4].isdisjoint(tasks[3]), "behind one that waits"


async def test_time_outs_and_task_groups_work_in_the_first_attempt_that_waits() -> None:
    worker, store = Worker(concurrency=8), FakeStore()

    async def child(name: str) -> str:
        await asyncio.sleep(0)
        return name + who.get()

    @worker.task
    async def quick() -> None: ...

    @worker.task
    async def slow() -> str:
        who.set("!")
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            async with asyncio.TaskGroup() as group:
                children = [group.create_task(child(name)) for name in "ab"]
        return "".join(each.result() for each in children)

    store.give(quick)
    store.give(slow)
    await worked_through(worker, store, 2)
    results = {args.result_payload for args in store.finished if isinstance(args, c.CompleteExecutionArgs)}
    assert results == {b"null", b'"a!b!"'}


async def test_an_attempt_in_a_shared_task_is_cancelled_alone() -> None:
    worker, store = Worker(concurrency=8, cancel_grace=30), FakeStore()
    told = []

    @worker.task
    async def quick() -> None: ...

    @worker.task
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            told.append(error.args)
            raise

    store.give(quick)
    store.give(slow)
    store.give(quick)
    async with worker.working(store.port):
        while len(store.finished) < 2:
            await settle()
        await worker.stop(grace=0)
    assert told == [("draining",)]
    assert worker.stats.completed == 2
    assert worker.stats.handed_back == 1


async def test_who_cancels_itself_does_not_cancel_those_behind_it() -> None:
    worker, store = Worker(concurrency=8), FakeStore()

    @worker.task
    async def rash() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @worker.task
    async def waiting() -> None:
        await asyncio.sleep(0)

    store.give(rash)
    store.give(waiting)
    await worked_through(worker, store, 2)
    assert worker.stats.completed == 2


class Broken:
    """A handler with a fault that it does not report."""

    waits = False

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run

    async def run(self, attempt: Attempt) -> None:
        self._run()


def attempt_of(run: Callable[[], None]) -> Attempt:
    return Attempt(claimed_work(), Broken(run), LANE, 0.0, 0.0)  # type: ignore[arg-type]


async def test_a_fault_of_one_leaves_nobody_in_line() -> None:
    shared, ran = SharedTask(), asyncio.Event()

    def fault() -> None:
        raise ZeroDivisionError

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is told of the fault some time
    shared.run(attempt_of(fault))
    shared.run(attempt_of(ran.set))
    await settle()
    assert ran.is_set()


@pytest.mark.parametrize("count", [1, 3])
async def test_who_comes_while_others_run_is_run_after_them(count: int) -> None:
    shared, ran = SharedTask(), []

    def add_another() -> None:
        ran.append("first")
        shared.run(attempt_of(lambda: ran.append("second")))

    for _ in range(count):
        shared.run(attempt_of(add_another))
    await settle()
    assert ran == ["first"] * count + ["second"] * count

"""The kit for users' tests: time, engine and workers move when the test says so, and in no other moment."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock, sentinel

import pytest

from flowfabric import Context, ExecutionExpired, ExecutionFailed, RetryPolicy, Snooze, Worker
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import BackendUnavailable, ExecutionNotActive, InvalidInput
from flowfabric.testing import FabricKit, ManualClock, StillOpen
from flowfabric.testing.fault_proxy import Line
from tests.servers import start_standalone

pytest_plugins = ["flowfabric.testing.pytest_plugin", "pytester"]

AFTER_A_MINUTE = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=60_000))


@pytest.fixture
def worker() -> Worker:
    return Worker(worker_instance_id="worker-1")


async def test_nothing_runs_before_the_test_says_so(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    handle = await fabric_kit.submit(greet, "tides")
    assert await handle.status() == "waiting"
    await fabric_kit.run_until_idle(worker)
    assert await handle == "Hello, tides!"
    assert not (await fabric_kit.workers()).workers


async def test_tasks_that_tasks_submit_run_too(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(lane="default")
    async def count_down(number: int) -> int:
        if number:
            await fabric_kit.submit(count_down, number - 1)
        return number

    await fabric_kit.submit(count_down, 5)
    await fabric_kit.run_until_idle(worker)
    (lane,) = await fabric_kit.counts()
    assert lane.counts == {"completed": 6}


async def test_a_handler_may_wait_for_another_that_is_retried_at_once(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0)))
    async def flaky(ctx: Context) -> int:
        if not ctx.attempt_index:
            raise OSError("the first try")
        return ctx.attempt_index

    @worker.task
    async def parent() -> int:
        return await (await fabric_kit.submit(flaky))

    handle = await fabric_kit.submit(parent)
    await fabric_kit.run_until_idle(worker)
    assert await handle == 1


async def test_a_retry_comes_when_its_time_has_come(fabric_kit: FabricKit, worker: Worker) -> None:
    tries = []

    @worker.task(retry=AFTER_A_MINUTE)
    async def fetch(ctx: Context) -> None:
        tries.append(ctx.attempt_index)
        raise OSError("no route")

    handle = await fabric_kit.submit(fetch)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(59.999)
    await fabric_kit.run_until_idle(worker)
    assert (tries, await handle.status()) == ([0], "delayed")

    await fabric_kit.advance(0.001)
    await fabric_kit.run_until_idle(worker)
    assert tries == [0, 1]
    with pytest.raises(ExecutionFailed, match="no route"):
        await handle


async def test_a_snooze_is_counted_on_the_clock_of_the_test(fabric_kit: FabricKit, worker: Worker) -> None:
    naps: list[Any] = []

    @worker.task
    async def sleepy() -> str:
        await asyncio.sleep(0.05)  # real time, which must not matter
        if not naps:
            naps.append(1)
            raise Snooze(for_=timedelta(days=2))
        return "rested"

    handle = await fabric_kit.submit(sleepy)
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "delayed"
    await fabric_kit.advance(timedelta(days=2))
    await fabric_kit.run_until_idle(worker)
    assert await handle == "rested"


async def test_moments_are_counted_from_the_time_of_the_store(
    fabric_kit: FabricKit, manual_clock: ManualClock, worker: Worker
) -> None:
    @worker.task
    async def remind() -> None: ...

    assert fabric_kit.now.timestamp() * 1000 == manual_clock.now_ms
    in_an_hour = fabric_kit.now + timedelta(hours=1)
    due = await fabric_kit.submit(remind.with_options(delay=in_an_hour))
    late = await fabric_kit.submit(remind.with_options(delay=7200, deadline=in_an_hour))
    await fabric_kit.run_until_idle(worker)
    assert (await due.status(), await late.status()) == ("delayed", "delayed")

    await fabric_kit.advance(3600)
    await fabric_kit.run_until_idle(worker)
    assert await due.status() == "completed"
    with pytest.raises(ExecutionExpired):
        await late


async def test_a_worker_that_its_handler_kills_dies_right_there(fabric_kit: FabricKit, worker: Worker) -> None:
    charged = []

    @worker.task
    async def charge(ctx: Context, amount: int) -> str:
        charged.append(amount)
        if not ctx.attempt_index:
            await fabric_kit.kill_worker(worker)
        return f"charged {amount}"

    handle = await fabric_kit.submit(charge, 5)
    await fabric_kit.run_until_idle(worker)
    snapshot = await handle.describe()
    assert snapshot.public_state == "active"
    assert snapshot.current_lease is not None
    assert snapshot.current_lease.worker_instance_id == "worker-1"

    await fabric_kit.advance(29.999)
    assert await handle.status() == "active"
    await fabric_kit.advance(0.001)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "charged 5"
    assert charged == [5, 5]
    assert [attempt.attempt_type for attempt in await handle.attempts()] == ["initial", "reclaim"]


async def test_what_a_killed_worker_does_afterwards_does_not_reach_the_store(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    begun, go_on, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @worker.task
    def compute() -> int:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(30)
        ended.set()
        return 1

    await fabric_kit.start_worker(worker)
    handle = await fabric_kit.submit(compute)
    await begun.wait()
    await fabric_kit.kill_worker(worker)
    go_on.set()
    await asyncio.to_thread(ended.wait)
    await fabric_kit.advance(29.999)
    assert await handle.status() == "active"
    assert [event.event for event in (await handle.history()).events] == ["created", "claimed"]


async def test_work_that_waits_for_a_killed_worker_is_no_surprise(fabric_kit: FabricKit) -> None:
    alone = Worker(concurrency=1)

    @alone.task
    async def die() -> None:
        await fabric_kit.kill_worker(alone)

    await fabric_kit.submit_many(die, [(), ()])
    await fabric_kit.run_until_idle(alone)
    (lane,) = await fabric_kit.counts()
    assert lane.counts == {"active": 1, "waiting": 1}


async def test_only_a_worker_that_runs_can_be_killed(fabric_kit: FabricKit, worker: Worker) -> None:
    with pytest.raises(InvalidInput, match="is not running"):
        await fabric_kit.kill_worker(worker)


async def test_an_expired_lease_frees_the_execution_and_the_old_owner_is_refused(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    held, release = asyncio.Event(), asyncio.Event()

    @worker.task
    async def publish(ctx: Context) -> int:
        if not ctx.attempt_index:
            held.set()
            await release.wait()
        return ctx.attempt_index

    other = Worker()
    other.add(publish)
    handle = await fabric_kit.submit(publish)
    with pytest.raises(ExecutionNotActive):
        await fabric_kit.expire_lease(handle)

    await fabric_kit.start_worker(worker)
    await held.wait()
    await fabric_kit.expire_lease(handle)
    await fabric_kit.kill_worker(worker)
    await fabric_kit.run_until_idle(other)
    assert await handle == 1


async def test_a_worker_that_lives_keeps_its_leases_while_the_clock_is_moved(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @worker.task
    async def long_job() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    await fabric_kit.start_worker(worker)
    handle = await fabric_kit.submit(long_job)
    await begun.wait()
    await fabric_kit.advance(timedelta(days=3))
    assert [info.worker_instance_id for info in (await fabric_kit.workers()).workers] == ["worker-1"]
    go_on.set()
    await fabric_kit.run_until_idle()
    assert await handle == "done"
    assert len(await handle.attempts()) == 1


async def test_an_end_on_its_way_to_the_store_arrives_although_the_clock_is_moved(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    ending = asyncio.Event()

    @worker.task
    async def quick() -> str:
        ending.set()
        return "done"

    await fabric_kit.start_worker(worker)
    handle = await fabric_kit.submit(quick)
    await ending.wait()
    await fabric_kit.advance(3600)
    await fabric_kit.run_until_idle()
    assert await handle == "done"
    assert len(await handle.attempts()) == 1


async def test_an_attempt_time_out_is_counted_on_the_clock_of_the_test(fabric_kit: FabricKit, worker: Worker) -> None:
    begun = asyncio.Event()

    @worker.task(timeout=600)
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    await fabric_kit.start_worker(worker)
    handle = await fabric_kit.submit(hang)
    await begun.wait()
    await fabric_kit.advance(599)
    assert await handle.status() == "active"
    await fabric_kit.advance(1)
    with pytest.raises(ExecutionFailed, match="timeout: the attempt took longer than 600 s"):
        await handle


async def test_work_that_nobody_can_run_is_named(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def train() -> None: ...

    done = await fabric_kit.submit(train)
    elsewhere = await fabric_kit.submit(train.with_options(lane="other"))
    with_gpu = await fabric_kit.submit(train.with_options(capabilities={"gpu"}))
    with pytest.raises(StillOpen) as failure:
        await fabric_kit.run_until_idle(worker)
    assert {each.execution_id for each in failure.value.executions} == {elsewhere.id, with_gpu.id}
    assert f"train {elsewhere.id.short} waits for a worker of lane other" in str(failure.value)
    assert f"train {with_gpu.id.short} waits for a worker that offers gpu" in str(failure.value)
    assert await done.status() == "completed"


async def test_a_task_that_no_worker_has_is_named(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def known() -> None: ...

    await fabric_kit.submit(known)
    await fabric_kit.submit("unknown", 1)
    with pytest.raises(StillOpen, match=r"unknown \S+ waits: no live worker has the task `unknown`"):
        await fabric_kit.run_until_idle(worker)


async def test_a_handler_that_does_not_end_is_named_and_stopped(fabric_kit: FabricKit, worker: Worker) -> None:
    stopped = asyncio.Event()

    @worker.task
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    handle = await fabric_kit.submit(hang)
    with pytest.raises(
        StillOpen, match=rf"not idle after 0.2 seconds:\n  hang {handle.id.short} runs on worker worker-1"
    ):
        await fabric_kit.run_until_idle(worker, timeout=0.2)
    assert stopped.is_set()
    assert await handle.status() == "waiting"


async def test_a_result_that_nobody_brings_about_is_not_waited_for_for_ever(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    @worker.task(delay=60)
    async def later() -> None: ...

    handle = await fabric_kit.submit(later)
    await fabric_kit.run_until_idle(worker)
    fabric_kit.patience = 0.1
    with pytest.raises(StillOpen, match=rf"not ended after 0.1 seconds.*\n  later {handle.id.short} is delayed"):
        await handle
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.05)
    fabric_kit.patience = 30
    waiting = asyncio.create_task(handle.result())
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    await waiting


async def test_no_call_of_a_worker_gets_through_while_the_clock_is_moved() -> None:
    """A renewal at that moment would be a short one, and the lease lost."""
    backend = AsyncMock()
    line = Line(backend)
    with line.held():
        call = asyncio.create_task(line.end.finish_executions(sentinel.args))
        await asyncio.sleep(0)
        backend.finish_executions.assert_not_called()
    await call
    backend.finish_executions.assert_awaited_once_with(sentinel.args)


async def test_work_that_is_held_back_on_purpose_is_idle(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def report() -> str:
        return "sent"

    await fabric_kit.pause_lane("default")
    handle = await fabric_kit.submit(report)
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "waiting"
    await fabric_kit.resume_lane("default")
    await fabric_kit.run_until_idle(worker)
    assert await handle == "sent"


async def test_a_call_to_the_store_fails_when_the_test_wants_it(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def save() -> str:
        return "saved"

    fabric_kit.fail_next("submit_executions", times=2)
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="the test made this call fail"):
            await fabric_kit.submit(save)
    handle = await fabric_kit.submit(save)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "saved"
    (lane,) = await fabric_kit.counts()
    assert lane.total == 1

    fabric_kit.fail_next("get_execution_result", RuntimeError("mine"))
    with pytest.raises(RuntimeError, match="mine"):
        await handle
    with pytest.raises(InvalidInput, match="must be a method of EngineBackend"):
        fabric_kit.fail_next("submit")


async def test_what_the_engine_cannot_do_is_not_passed_over(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> int:
        raise BackendUnavailable("the store has gone", sent=True)

    monkeypatch.setattr(fabric_kit.engine.services[0], "run_once", fails)
    with pytest.raises(AssertionError, match=r"the engine failed; share: .*the store has gone"):
        await fabric_kit.advance(1)


async def test_a_kit_without_fixtures_has_a_store_of_its_own() -> None:
    async with FabricKit.connect() as kit, FabricKit.connect() as other:
        await kit.submit("anything")
        assert [lane.total for lane in await kit.counts()] == [1]
        assert await other.counts() == []


USERS_TESTS = """
import pytest

from flowfabric import Worker
from flowfabric.testing import FabricKit, ManualClock

{plugins}
worker = Worker()


@worker.task
async def double(number: int) -> int:
    return 2 * number


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [1, 2])
async def test_double(fabric_kit: FabricKit, manual_clock: ManualClock, number: int) -> None:
    assert await fabric_kit.counts() == []
    assert manual_clock is fabric_kit.clock
    handle = await fabric_kit.submit(double, number)
    await fabric_kit.run_until_idle(worker)
    assert await handle == 2 * number
"""


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_fixtures_give_every_test_of_a_user_an_empty_store(pytester: pytest.Pytester, mode: str) -> None:
    plugins = 'pytest_plugins = ["flowfabric.testing.pytest_plugin"]'
    pytester.makeini(
        f"[pytest]\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    pytester.makepyfile(USERS_TESTS.format(plugins=plugins))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)


async def test_what_waits_is_idle_and_goes_on_when_it_is_told(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def patient(ctx: Context) -> str:
        await ctx.sleep(timedelta(days=30))
        return str((await ctx.wait_for_signal("name", timeout=60, type=str)).payload)

    told, late = await fabric_kit.submit(patient), await fabric_kit.submit(patient)
    await fabric_kit.run_until_idle(worker)
    before = fabric_kit.now
    await fabric_kit.sleep_through(told)
    assert fabric_kit.now - before == timedelta(days=30)
    await fabric_kit.run_until_idle(worker)
    await told.signal("name", "tides")
    await fabric_kit.sleep_through(late.id)
    await fabric_kit.run_until_idle(worker)
    assert await told == "tides"
    with pytest.raises(ExecutionFailed, match="timeout: SignalTimeout"):
        await late
    with pytest.raises(InvalidInput, match="neither sleeps nor waits"):
        await fabric_kit.sleep_through(told)


async def test_a_kit_on_somebody_elses_server_has_a_secret_of_its_own(worker: Worker) -> None:
    @worker.task
    async def ask(ctx: Context) -> str:
        desk = await ctx.waitpoint()
        await kit.signal(desk.link("go"), "early")
        return str((await ctx.wait_for_signal("go", at=desk)).payload)

    with start_standalone() as server:
        async with await FabricKit.open(f"valkey://127.0.0.1:{server.port}") as kit:
            handle = await kit.submit(ask)
            await kit.run_until_idle(worker)
            assert await handle == "early"

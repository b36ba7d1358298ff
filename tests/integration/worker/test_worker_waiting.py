"""Handlers that wait: suspended without a worker, woken by signals, time-outs and operators, and run to the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from flowfabric import (
    AllOf,
    ByName,
    Context,
    Count,
    CountKind,
    Handle,
    OperatorOnly,
    ResumedWithoutSignal,
    RetryPolicy,
    Signal,
    SignalSet,
    SignalTimeout,
    Single,
    Suspended,
    TimeoutOnly,
    Waitpoint,
    Worker,
)
from flowfabric.core import contracts as c
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import InvalidAnswer, InvalidInput
from flowfabric.testing import FabricKit
from flowfabric.worker.durable.signal_waits import OnTimeout
from tests.worker_fakes import parts_of, settle

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

AT_ONCE = RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=0))


@dataclass
class Answer:
    ok: bool
    why: str = ""


@pytest.fixture
def worker() -> Worker:
    return Worker(worker_instance_id="worker-1")


@pytest.fixture
def other() -> Worker:
    return Worker(worker_instance_id="worker-2")


async def waiting(kit: FabricKit, worker: Worker, task: Any, *args: Any) -> Handle[Any]:
    """An execution of the task that has been run until it waits."""
    handle = await kit.submit(task, *args)
    await kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    return handle


async def told(kit: FabricKit, worker: Worker, handle: Handle[Any], name: str, payload: object = None) -> None:
    await handle.signal(name, payload, source="ada")
    await kit.run_until_idle(worker)


async def test_a_handler_that_waits_goes_on_in_the_same_attempt_on_another_worker(
    fabric_kit: FabricKit, worker: Worker, other: Worker
) -> None:
    passes: list[tuple[Worker, int]] = []

    def approval(mine: Worker) -> Any:
        @mine.task(name="publish")
        async def publish(ctx: Context) -> Answer:
            passes.append((mine, ctx.attempt_index))
            signal = await ctx.wait_for_signal("approval", type=Answer)
            assert signal.name == "approval"
            assert signal.source_identity == "ada"
            assert signal.received_at == fabric_kit.now
            return signal.payload

        return publish

    handle = await waiting(fabric_kit, worker, approval(worker))
    assert (worker.stats.suspended, worker.stats.lost, worker.stats.failed) == (1, 0, 0)
    assert (await handle.describe()).current_lease is None
    approval(other)
    await told(fabric_kit, other, handle, "approval", {"ok": True, "why": "fine"})
    assert await handle == Answer(True, "fine")
    assert passes == [(worker, 0), (other, 0)]
    assert (await handle.describe()).total_attempt_count == 1


async def test_an_early_signal_at_a_waitpoint_is_not_lost(fabric_kit: FabricKit, worker: Worker) -> None:
    passes: list[Waitpoint] = []

    @worker.task
    async def early(ctx: Context) -> int:
        desk = await ctx.waitpoint("desk")
        passes.append(desk)
        assert (await ctx.waitpoint()).key != desk.key
        await fabric_kit.signal(desk.link("approval"), 7)
        signal: Signal[int] = await ctx.wait_for_signal("approval", at=desk, type=int)
        assert signal.waitpoint_key == "desk"
        return signal.payload + await ctx.step("more", lambda: 1)

    handle = await fabric_kit.submit(early)
    await fabric_kit.run_until_idle(worker)
    assert await handle == 8
    assert len(passes) == 1, "it did not have to wait"
    assert worker.stats.suspended == 0


async def test_every_pass_gets_the_same_waitpoint_and_shows_no_token(
    fabric_kit: FabricKit, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    links: list[str] = []
    shown: list[str] = []

    @worker.task
    async def handler(ctx: Context) -> None:
        desk = await ctx.waitpoint()
        links.append(desk.link("go"))
        shown.append(f"{desk!r} {desk}")
        await ctx.wait_for_signal("go", at=desk)

    with caplog.at_level(logging.DEBUG):
        handle = await waiting(fabric_kit, worker, handler)
        await fabric_kit.signal(links[0])
        await fabric_kit.run_until_idle(worker)
    assert await handle is None
    assert links[0] == links[1]
    assert links[0].startswith("http://127.0.0.1:9090/v1/executions/")
    token = links[0].partition("token=")[2].partition("&")[0]
    assert not any(token[-16:] in text for text in (*shown, *caplog.messages))


async def test_a_crash_between_a_waitpoint_and_its_record_makes_no_second_one(
    fabric_kit: FabricKit, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = fabric_kit.backend.create_pending_waitpoint
    made: list[str] = []

    async def create_and_die(args: c.CreatePendingWaitpointArgs) -> c.CreatePendingWaitpointResult:
        created = await create(args)
        made.append(created.waitpoint_token.reveal())
        if len(made) == 1:
            await fabric_kit.kill_worker(worker)
        return created

    @worker.task
    async def handler(ctx: Context) -> str:
        return str((await ctx.wait_for_signal("go", at=await ctx.waitpoint("desk"))).payload)

    monkeypatch.setattr(fabric_kit._store, "create_pending_waitpoint", create_and_die)
    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert made[0] == made[1]
    await told(fabric_kit, worker, handle, "go", "gone")
    assert await handle == "gone"


# How a wait ends otherwise.


async def test_a_time_out_is_raised(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def patient(ctx: Context) -> str:
        try:
            await ctx.wait_for_signal("approval", timeout=timedelta(hours=1))
        except SignalTimeout as error:
            first = str(error)
        with pytest.raises(SignalTimeout):
            await ctx.wait_for(SignalSet(("a", "b")), timeout=1)
        return first

    handle = await waiting(fabric_kit, worker, patient)
    await fabric_kit.advance(3599)
    assert await handle.status() == "suspended"
    for _ in range(2):
        await fabric_kit.sleep_through(handle)
        await fabric_kit.run_until_idle(worker)
    assert await handle == "no signal 'approval' came in time"


@pytest.mark.parametrize(
    ("choice", "state"),
    [("fail", "failed"), ("cancel", "cancelled"), ("expire", "expired"), ("escalate", "suspended")],
)
async def test_a_time_out_can_end_the_execution_or_call_an_operator(
    fabric_kit: FabricKit, worker: Worker, choice: OnTimeout, state: str
) -> None:
    @worker.task
    async def patient(ctx: Context) -> Any:
        return (await ctx.wait_for_signal("approval", timeout=60, on_timeout=choice)).payload

    handle = await waiting(fabric_kit, worker, patient)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == state
    if choice == "escalate":
        assert [each.reason for each in (await fabric_kit.suspended()).entries] == ["waiting_for_operator_review"]
        await told(fabric_kit, worker, handle, "approval", "late")
        assert await handle == "late"


async def test_an_operator_can_end_a_wait(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def handler(ctx: Context) -> int:
        with pytest.raises(ResumedWithoutSignal, match="approval"):
            await ctx.wait_for_signal("approval")
        await ctx.sleep(3600)
        return len(await ctx.wait_for(OperatorOnly(), reason="manual_pause"))

    handle = await waiting(fabric_kit, worker, handler)
    for _ in range(3):
        await handle.resume()
        await fabric_kit.run_until_idle(worker)
    assert await handle == 0


async def test_sleep_waits_for_the_clock_of_the_store(fabric_kit: FabricKit, worker: Worker) -> None:
    passes: list[int] = []

    @worker.task
    async def sleepy(ctx: Context) -> str:
        passes.append(1)
        await ctx.sleep(0)
        await ctx.sleep(timedelta(days=2))
        await ctx.sleep(0.001)
        return "rested"

    handle = await waiting(fabric_kit, worker, sleepy)
    await fabric_kit.advance(timedelta(days=2) - timedelta(milliseconds=1))
    await fabric_kit.run_until_idle(worker)
    assert len(passes) == 1
    for _ in range(2):
        await fabric_kit.advance(0.001)
        await fabric_kit.run_until_idle(worker)
    assert await handle == "rested"
    assert len(passes) == 3


@pytest.mark.parametrize(
    ("options", "field"),
    [({"on_timeout": "explode"}, "on_timeout"), ({"timeout": 0}, "timeout"), ({"reason": "bored"}, "reason")],
)
async def test_a_wait_that_makes_no_sense_is_refused(
    fabric_kit: FabricKit, worker: Worker, options: dict[str, Any], field: str
) -> None:
    @worker.task
    async def handler(ctx: Context) -> None:
        for wait in (ctx.wait_for_signal("x", **options), ctx.wait_for(OperatorOnly(), **options)):
            with pytest.raises(InvalidInput, match=f"^invalid_input: {field}: ") as error:
                await wait
            assert (error.value.field, error.value.details["field"]) == (field, field)
        with pytest.raises(InvalidInput):
            await ctx.wait_for_signal("__timeout__")
        with pytest.raises(InvalidInput, match=r"from ctx\.waitpoint"):
            await ctx.wait_for_signal("x", at="desk")  # type: ignore[call-overload]

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle is None


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        ("approval", "condition"),
        (AllOf(tuple(Single(f"desk {each}") for each in range(33))), "condition"),
        (TimeoutOnly(), "timeout"),
    ],
    ids=["no condition", "too many waitpoints", "no end"],
)
async def test_a_condition_that_cannot_be_waited_for_is_refused(
    fabric_kit: FabricKit, worker: Worker, condition: Any, field: str
) -> None:
    @worker.task
    async def handler(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match=f"^invalid_[a-z]+: {field}: ") as error:
            await ctx.wait_for(condition)
        assert error.value.field == field

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle is None


async def test_what_happens_at_a_time_out_needs_one(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def handler(ctx: Context, patience: float | None) -> None:
        for wait in (ctx.wait_for_signal("x", on_timeout="cancel"), ctx.wait_for(OperatorOnly(), on_timeout="raise")):
            with pytest.raises(InvalidInput, match="needs timeout") as error:
                await wait
            assert error.value.field == "on_timeout"
        await ctx.wait_for_signal("x", timeout=patience, on_timeout="cancel")

    handle = await waiting(fabric_kit, worker, handler, None)
    await told(fabric_kit, worker, handle, "x")
    assert await handle is None


# Several waits, several waitpoints.


async def test_waits_of_one_name_are_told_apart_by_their_order(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=AT_ONCE)
    async def handler(ctx: Context) -> list[Any]:
        said = [(await ctx.wait_for_signal("next")).payload for _ in range(3)]
        if ctx.attempt_index == 0:
            raise OSError("all of it once more")
        return said

    handle = await waiting(fabric_kit, worker, handler)
    for number in range(3):
        await told(fabric_kit, worker, handle, "next", number)
    assert await handle == [0, 1, 2]


async def test_two_of_three_waitpoints_suffice(fabric_kit: FabricKit, worker: Worker) -> None:
    people = ("ada", "grace", "linus")
    links: dict[str, str] = {}

    async def early() -> None:
        await fabric_kit.signal(links["grace"], 1)

    @worker.task
    async def publish(ctx: Context) -> list[str]:
        for person in people:
            links[person] = (await ctx.waitpoint(person)).link("approve")
        await ctx.step("early", early)
        votes = await ctx.wait_for(
            Count(2, CountKind.DISTINCT_WAITPOINTS, people, ByName("approve")), type=int, reason="waiting_for_approval"
        )
        return [f"{vote.waitpoint_key} {vote.payload}" for vote in votes]

    handle = await waiting(fabric_kit, worker, publish)
    assert (await handle.describe()).blocking_reason == "waiting_for_approval"
    await fabric_kit.signal(links["grace"], 2)
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    await fabric_kit.signal(links["linus"], 3)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["grace 1", "linus 3"]


async def test_keys_without_a_waitpoint_get_a_new_one(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def handler(ctx: Context) -> list[Any]:
        await ctx.waitpoint("made")
        both = AllOf((Single(WaitpointKey("made")), Single(WaitpointKey("new"), ByName("go"))))
        first = await ctx.wait_for(both)
        again = await ctx.wait_for(Single(WaitpointKey("made")))
        return [each.payload for each in (*first, *again)]

    handle = await waiting(fabric_kit, worker, handler)
    await handle.signal("go", 1, waitpoint="new")
    await handle.signal("any", 2, waitpoint="made")
    await fabric_kit.run_until_idle(worker)
    await handle.signal("other", 3, waitpoint="made")
    await fabric_kit.run_until_idle(worker)
    assert sorted(await handle) == [1, 2, 3]


async def test_a_waitpoint_that_expired_or_was_used_is_refused_with_advice(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    @worker.task
    async def handler(ctx: Context) -> None:
        short, long = await ctx.waitpoint("short", expires_in=60), await ctx.waitpoint("long")
        await ctx.wait_for_signal("go", at=long)
        with pytest.raises(InvalidInput, match=r"raise expires_in.*'short'"):
            await ctx.wait_for_signal("go", at=short)
        with pytest.raises(InvalidInput, match="was already used by a wait"):
            await ctx.wait_for_signal("go", at=long)

    handle = await waiting(fabric_kit, worker, handler)
    await fabric_kit.advance(61)
    await told(fabric_kit, worker, handle, "go")
    assert await handle is None


async def test_a_key_is_taken_until_its_waitpoint_was_waited_at(fabric_kit: FabricKit, worker: Worker) -> None:
    refused: list[InvalidInput] = []

    @worker.task
    async def handler(ctx: Context) -> list[Any]:
        said = []
        for number in range(2):
            first, second = await asyncio.gather(ctx.waitpoint("desk"), ctx.waitpoint("desk"), return_exceptions=True)
            assert isinstance(first, Waitpoint)
            await ctx.step("early", lambda link: fabric_kit.signal(link, number), first.link("go"))  # noqa: B023
            with pytest.raises(InvalidInput) as error:
                await ctx.waitpoint("desk")
            refused.extend([second, error.value])  # type: ignore[list-item]
            if number == 0:
                said.append((await ctx.wait_for_signal("go", at=first)).payload)
            else:
                said.append((await ctx.wait_for(Single(WaitpointKey("desk"))))[0].payload)
            await ctx.sleep(1)
        await ctx.waitpoint("desk")
        return said

    handle = await waiting(fabric_kit, worker, handler)
    for _ in range(2):
        await fabric_kit.sleep_through(handle)
        await fabric_kit.run_until_idle(worker)
    assert await handle == [0, 1]
    assert len(refused) == 10
    for each in refused:
        assert each.field == "key"
        assert "wait on it or choose another key (got 'desk')" in str(each)


async def test_large_answers_outlive_the_next_wait(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def handler(ctx: Context) -> list[int]:
        many = await ctx.wait_for(Count(3, CountKind.DISTINCT_SIGNALS, (WaitpointKey("desk"),)), type=str)
        one = await ctx.wait_for_signal("more", type=str)
        await ctx.sleep(1)
        return [len(each.payload) for each in (*many, one)]

    handle = await waiting(fabric_kit, worker, handler)
    for _ in range(3):
        await handle.signal("part", "x" * 262_142, waitpoint="desk")
    await fabric_kit.run_until_idle(worker)
    await told(fabric_kit, worker, handle, "more", "y" * 200_000)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle == [262_142, 262_142, 262_142, 200_000]


async def test_a_payload_that_does_not_fit_is_refused_and_the_wait_goes_on(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    @worker.task(retry=AT_ONCE)
    async def strict(ctx: Context) -> int:
        return (await ctx.wait_for_signal("number", type=int)).payload

    handle = await waiting(fabric_kit, worker, strict)
    with pytest.raises(InvalidAnswer, match=r"payload: must be a whole number \(got 'seven'\)"):
        await handle.signal("number", "seven")
    await told(fabric_kit, worker, handle, "number", 7)
    assert await handle == 7


# The unwinding.


async def test_what_a_handler_does_after_swallowing_it_counts_for_nothing(
    fabric_kit: FabricKit, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    raised: list[str] = []

    async def again(ctx: Context) -> None:
        calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            ctx.describe, ctx.now, lambda: ctx.step("x", int), lambda: ctx.sleep(1), lambda: ctx.wait_for_signal("y"),
            ctx.waitpoint,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(Suspended):
                await call()
            raised.append(str(call))
        with pytest.raises(Suspended):
            ctx.progress(50)

    @worker.task
    async def stubborn(ctx: Context, how: str) -> str:
        try:
            return str((await ctx.wait_for_signal("go")).payload)
        except Exception:
            return "an Exception met it"
        except Suspended:
            await again(ctx)
            if how == "raise":
                raise OSError("never mind") from None
            return "went on"

    handles = [await waiting(fabric_kit, worker, stubborn, how) for how in ("return", "raise")]
    assert len(raised) == 12
    lines = [each for each in caplog.messages if "caught Suspended and went on" in each]
    assert [line.rpartition("; ")[2] for line in lines] == ["its return value is ignored", "its exception is ignored"]
    for handle in handles:
        await told(fabric_kit, worker, handle, "go", "gone")
        assert await handle == "gone"


async def test_it_leaves_task_groups_and_cleans_up(fabric_kit: FabricKit, worker: Worker) -> None:
    cleaned: list[str] = []

    @worker.task
    async def grouped(ctx: Context) -> list[Any]:
        async def branch(name: str) -> Any:
            try:
                return (await ctx.wait_for_signal(name)).payload
            finally:
                cleaned.append(name)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch(name)) for name in ("a", "b")]
        return [task.result() for task in tasks]

    handle = await waiting(fabric_kit, worker, grouped)
    assert cleaned == ["a", "b"]
    await told(fabric_kit, worker, handle, "a", 1)
    await told(fabric_kit, worker, handle, "b", 2)
    assert await handle == [1, 2]
    assert (worker.stats.suspended, worker.stats.failed) == (2, 0)


async def test_a_wait_lets_the_steps_beside_it_be_recorded(fabric_kit: FabricKit, worker: Worker) -> None:
    runs: list[str] = []

    @worker.task
    async def handler(ctx: Context) -> list[Any]:
        async def slow() -> str:
            await settle()
            runs.append("slow")
            return "done"

        async def both() -> list[str]:
            return [await ctx.step("slow", slow), await ctx.step("slower", slow)]

        signal, said = await asyncio.gather(ctx.wait_for_signal("go"), both())
        return [signal.payload, *said]

    handle = await waiting(fabric_kit, worker, handler)
    await told(fabric_kit, worker, handle, "go", 1)
    assert await handle == [1, "done", "done"]
    assert runs == ["slow", "slow"]


async def test_it_reaches_handlers_in_threads(fabric_kit: FabricKit, worker: Worker) -> None:
    met: list[BaseException] = []

    @worker.task
    def threaded(ctx: Context) -> Any:
        try:
            return ctx.wait(ctx.wait_for_signal("go", type=int)).payload
        except BaseException as error:
            met.append(error)
            with pytest.raises(Suspended):
                ctx.wait(ctx.now())
            raise

    handle = await waiting(fabric_kit, worker, threaded)
    await told(fabric_kit, worker, handle, "go", 3)
    assert await handle == 3
    assert [type(each) for each in met] == [Suspended]


async def test_middleware_sees_it_pass(fabric_kit: FabricKit) -> None:
    seen: list[str] = []

    async def watching(ctx: Context, call_next: Any) -> Any:
        try:
            return await call_next()
        except Exception:
            seen.append("an error")
            raise
        finally:
            seen.append("left")

    worker = Worker(middleware=[watching])

    @worker.task
    async def handler(ctx: Context) -> Any:
        return (await ctx.wait_for_signal("go")).payload

    handle = await waiting(fabric_kit, worker, handler)
    await told(fabric_kit, worker, handle, "go", 1)
    assert await handle == 1
    assert seen == ["left", "left"]


# Leases and slots.


async def test_a_suspended_attempt_has_no_lease_to_renew_while_its_handler_unwinds(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    unwinding, enough = asyncio.Event(), asyncio.Event()

    @worker.task(timeout=0.2)
    async def slow_to_leave(ctx: Context) -> None:
        try:
            await ctx.wait_for_signal("go")
        except Suspended:
            unwinding.set()
            await enough.wait()
            raise

    await fabric_kit.start_worker(worker)
    handle = await fabric_kit.submit(slow_to_leave)
    await asyncio.wait_for(unwinding.wait(), 30)
    assert worker.running == 1
    assert not parts_of(worker).pool.held
    assert all(attempt.timer and attempt.timer.cancelled() for attempt in parts_of(worker).pool.running)
    assert await handle.status() == "suspended"
    enough.set()
    await worker.idle()
    assert (worker.stats.suspended, worker.stats.timed_out, worker.stats.lost) == (1, 0, 0)


async def test_many_that_wait_hold_no_slot(fabric_kit: FabricKit) -> None:
    worker = Worker(concurrency=1)

    @worker.task
    async def ask(ctx: Context, number: int) -> int:
        return number + (await ctx.wait_for_signal("go", type=int)).payload

    @worker.task
    async def quick() -> str:
        return "between"

    handles = [await fabric_kit.submit(ask, number) for number in range(64)]
    await fabric_kit.run_until_idle(worker)
    assert [await handle.status() for handle in handles] == ["suspended"] * 64
    between = await fabric_kit.submit(quick)
    await fabric_kit.run_until_idle(worker)
    assert await between == "between"
    for handle in handles:
        await handle.signal("go", 100)
    await fabric_kit.run_until_idle(worker)
    assert [await handle for handle in handles] == list(range(100, 164))
    assert worker.stats.suspended == 64


async def test_a_lease_that_is_lost_before_the_wait_ends_the_attempt_quietly(
    fabric_kit: FabricKit, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    @worker.task
    async def handler(ctx: Context) -> Any:
        if ctx.attempt_index == 0:
            await fabric_kit.backend.revoke_lease(c.RevokeLeaseArgs(execution_id=ctx.execution_id, reason="tests"))
        return (await ctx.wait_for_signal("go")).payload

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await told(fabric_kit, worker, handle, "go", 1)
    assert await handle == 1
    assert (worker.stats.lost, worker.stats.failed) == (1, 0)
    assert not [record for record in caplog.records if record.exc_info]
    assert (await handle.describe()).total_attempt_count == 2


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_worker_that_is_killed_around_its_wait_changes_nothing(
    fabric_kit: FabricKit, worker: Worker, moment: str
) -> None:
    passes: list[int] = []

    @worker.task
    async def handler(ctx: Context) -> Any:
        passes.append(ctx.attempt_index)
        if moment == "before" and len(passes) == 1:
            await fabric_kit.kill_worker(worker)
        try:
            return (await ctx.wait_for_signal("go")).payload
        except Suspended:
            if moment == "after":
                await fabric_kit.kill_worker(worker)
            raise

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    await told(fabric_kit, worker, handle, "go", 1)
    assert await handle == 1
    assert passes == ([0, 1, 1] if moment == "before" else [0, 0])


async def test_an_attempt_that_was_told_to_stop_does_not_suspend(
    fabric_kit: FabricKit, worker: Worker, other: Worker
) -> None:
    began = threading.Event()

    def make(mine: Worker) -> Any:
        @mine.task(name="ask")
        def handler(ctx: Context) -> Any:
            began.set()
            if mine is worker:
                ctx.cancelled.wait()
            return ctx.wait(ctx.wait_for_signal("go")).payload

        return handler

    task = make(worker)
    await fabric_kit.start_worker(worker)
    handle = await fabric_kit.submit(task)
    await asyncio.to_thread(began.wait, 30)
    await fabric_kit.stop_worker(worker)
    assert (worker.stats.handed_back, worker.stats.suspended) == (1, 0)
    make(other)
    await fabric_kit.run_until_idle(other)
    await told(fabric_kit, other, handle, "go", 1)
    assert await handle == 1
    assert (await handle.describe()).total_attempt_count == 1


async def test_a_worker_that_drains_lets_its_handlers_wait(fabric_kit: FabricKit, worker: Worker) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @worker.task
    async def handler(ctx: Context) -> Any:
        began.set()
        await go_on.wait()
        return (await ctx.wait_for_signal("go")).payload

    await worker.start(fabric_kit.backend)
    handle = await fabric_kit.submit(handler)
    await asyncio.wait_for(began.wait(), 30)
    stopping = asyncio.create_task(worker.stop(grace=30))
    await settle()
    go_on.set()
    await stopping
    assert await handle.status() == "suspended"
    assert (worker.stats.suspended, worker.stats.handed_back) == (1, 0)


@pytest.mark.parametrize("when", ["before_it_is_sent", "before_it_is_answered"])
async def test_a_suspension_is_known_though_its_handler_is_cancelled_meanwhile(
    fabric_kit: FabricKit, worker: Worker, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    suspend = fabric_kit._store.suspend_execution

    async def slow(args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        result = await suspend(args) if when == "before_it_is_answered" else None
        asked.set()
        await go_on.wait()
        return result or await suspend(args)

    @worker.task
    async def handler(ctx: Context) -> Any:
        return (await ctx.wait_for_signal("go")).payload

    monkeypatch.setattr(fabric_kit._store, "suspend_execution", slow)
    await worker.start(fabric_kit.backend)
    handle = await fabric_kit.submit(handler)
    await asyncio.wait_for(asked.wait(), 30)
    stopping = asyncio.create_task(worker.stop(grace=0))
    (attempt,) = parts_of(worker).pool.running
    while attempt.stop is None:
        await settle()
    go_on.set()
    await stopping
    assert await handle.status() == "suspended"
    assert (worker.stats.suspended, worker.stats.lost, worker.stats.handed_back) == (1, 0, 0)


async def test_an_execution_that_waits_can_be_cancelled(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def handler(ctx: Context) -> None:
        await ctx.wait_for_signal("go")

    handle = await waiting(fabric_kit, worker, handler)
    await handle.cancel("enough")
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "cancelled"
    assert worker.stats.claimed == 1

"""What a pass reads and records, how steps are numbered and compared, and how a wait ends in the records."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId, SignalId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.states import AttemptType
from flowfabric.errors import BackendUnavailable, ExecutionNotActive, InvalidInput, StaleLease
from flowfabric.worker import Context, Fail, Retry, Suspended, Waitpoint, Worker
from flowfabric.worker.attempts.outcomes import spoken
from flowfabric.worker.durable.occurrences import Gate, Occurrences
from flowfabric.worker.durable.signals import Signal, WaitEnd
from flowfabric.worker.durable.steps import _Call, _result_type, digest_of
from tests.worker_fakes import FakeStore, parts_of, settle


class Recording(FakeStore):
    """A store that keeps steps, and notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.steps: dict[tuple[str, int], c.StepRecord] = {}
        self.latest = c.ListResumeSignalsPage()
        self.problem: Exception | None = None
        self.early = False

    def give_as(self, kind: AttemptType | None, task: Any) -> None:
        self.give(task)
        self.queue[-1] = replace(self.queue[-1], attempt_type=kind)

    async def record_step(self, args: c.RecordStepArgs) -> c.RecordStepResult:
        self._note("record")
        step = c.StepRecord(name=args.step.name, occurrence=args.step.occurrence, payload=args.payload)
        known = self.steps.setdefault((step.name, step.occurrence), step)
        return c.StepRecorded() if known is step else c.StepAlreadyRecorded(result=known)

    async def read_steps(self, args: c.ReadStepsArgs) -> c.ReadStepsPage:
        self._note("read")
        await settle()
        self._note("read it")
        found = list(self.steps.values())[args.cursor : args.cursor + 2]
        more = args.cursor + 2 < len(self.steps)
        return c.ReadStepsPage(steps=tuple(found), next_cursor=args.cursor + 2 if more else None)

    async def list_resume_signals(self, args: c.ListResumeSignalsArgs) -> c.ListResumeSignalsPage:
        self._note("list")
        return self.latest

    async def suspend_execution(self, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        self._note("suspend")
        kind = c.SuspensionAlreadySatisfied if self.early else c.ExecutionSuspended
        self.latest = c.ListResumeSignalsPage(
            signals=(signal("x"),), close_reason="resumed",
            continuation_metadata_pointer=args.continuation_metadata_pointer,
        )  # fmt: skip
        place = args.waitpoints[0]
        assert place.waitpoint_key is not None
        return kind(
            suspension_id=args.suspension_id,
            waitpoint_id=place.waitpoint_id,
            waitpoint_key=place.waitpoint_key,
            waitpoint_token=WaitpointToken("k1:ab"),
        )

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.problem is not None:
            raise self.problem


def signal(name: str, payload: bytes | None = b"1", encoding: str = "json") -> c.ResumeSignal:
    return c.ResumeSignal(
        signal_id=SignalId.new(), signal_name=name, waitpoint_id=WaitpointId.new(), waitpoint_key=WaitpointKey("k"),
        accepted_at=1_700_000_000_000, payload=payload, payload_encoding=encoding,
    )  # fmt: skip


async def run(store: Recording, worker: Worker) -> None:
    async with worker.working(store.port):
        await worker.idle()


def one_step(worker: Worker) -> Any:
    @worker.task
    async def handler(ctx: Context) -> int:
        return await ctx.step("x", lambda: 1)

    return handler


@pytest.mark.parametrize("kind", [AttemptType.INITIAL, AttemptType.RETRY])
async def test_a_handler_without_steps_asks_nothing_unless_an_earlier_attempt_may_have_had_some(
    kind: AttemptType,
) -> None:
    worker, store = Worker(), Recording()

    @worker.task
    async def handler(ctx: Context) -> str:
        return ctx.task

    store.give_as(kind, handler)
    await run(store, worker)
    assert store.asked == ([] if kind is AttemptType.INITIAL else ["read", "read it"])


async def test_a_first_attempt_reads_nothing() -> None:
    worker, store = Worker(), Recording()
    store.give_as(AttemptType.INITIAL, one_step(worker))
    await run(store, worker)
    assert store.asked == ["record"]


@pytest.mark.parametrize("kind", [None, AttemptType.RETRY, AttemptType.RECLAIM])
async def test_every_other_pass_reads_all_in_one_go_and_once(kind: AttemptType | None) -> None:
    worker, store = Worker(), Recording()
    store.steps = {
        (name, 0): c.StepRecord(name=name, occurrence=0, payload=b"7") for name in ("a", "b", "x", "c", "ff:now")
    }

    @worker.task
    async def handler(ctx: Context) -> list[Any]:
        return await asyncio.gather(*(ctx.step(name, lambda: 1) for name in ("x", "a", "c", "b")))

    store.give_as(kind, handler)
    await run(store, worker)
    assert store.asked[:3] == ["read", "list", "read it"], "both are out at once"
    assert store.asked.count("list") == 1
    assert "record" not in store.asked
    results = [each.result_payload for each in store.finished if isinstance(each, c.CompleteExecutionArgs)]
    assert results == [b"[7,7,7,7]"]


async def test_a_step_that_was_recorded_meanwhile_gives_that_record() -> None:
    worker, store = Worker(), Recording()
    store.steps[("x", 0)] = c.StepRecord(name="x", occurrence=0, payload=b"7")
    store.give_as(AttemptType.INITIAL, one_step(worker))
    await run(store, worker)
    (end,) = store.finished
    assert isinstance(end, c.CompleteExecutionArgs)
    assert end.result_payload == b"7"


async def test_a_lost_lease_ends_the_attempt_and_an_unreachable_store_is_the_handlers_to_know() -> None:
    for problem in (StaleLease("gone"), ExecutionNotActive(terminal_outcome="cancelled"), BackendUnavailable("away")):
        worker, store = Worker(), Recording()
        store.problem = problem
        store.give_as(AttemptType.INITIAL, one_step(worker))
        await run(store, worker)
        counted = (worker.stats.lost, worker.stats.cancelled, worker.stats.failed)
        expected = {"stale_lease": (1, 0, 0), "execution_not_active": (0, 1, 0), "backend_unavailable": (0, 0, 1)}
        assert counted == expected[problem.code]


async def test_a_suspension_frees_the_slot_and_sends_no_end(caplog: pytest.LogCaptureFixture) -> None:
    worker, store = Worker(concurrency=1, lease_ttl_ms=300), Recording()

    @worker.task(timeout=30)
    async def handler(ctx: Context) -> None:
        await ctx.wait_for_signal("x")

    for _ in range(3):
        store.give_as(AttemptType.INITIAL, handler)
    await run(store, worker)
    assert (worker.stats.suspended, worker.stats.claimed, store.finished, store.renewed) == (3, 3, [], [])
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_a_satisfied_suspension_goes_on_with_its_lease() -> None:
    worker, store = Worker(), Recording()
    store.early = True

    @worker.task
    async def handler(ctx: Context) -> int:
        value = (await ctx.wait_for_signal("x", type=int)).payload
        assert len(parts_of(worker).pool.held) == 1
        await ctx.wait_for_signal("x")
        return value

    store.give_as(AttemptType.INITIAL, handler)
    await run(store, worker)
    assert worker.stats.completed == 1
    assert store.asked == ["suspend", "list", "record", "suspend", "list"], "the first end is kept before the second"
    assert list(store.steps) == [("ff:signal:x#0", 0)]


async def test_a_suspension_that_fails_is_the_same_wait_when_it_is_repeated() -> None:
    worker, store = Worker(), Recording()

    @worker.task
    async def handler(ctx: Context) -> None:
        store.problem = BackendUnavailable("away")
        with pytest.raises(BackendUnavailable):
            await ctx.wait_for_signal("x")
        store.problem = None
        await ctx.wait_for_signal("x")

    store.give_as(AttemptType.INITIAL, handler)
    await run(store, worker)
    assert worker.stats.suspended == 1
    assert store.latest.continuation_metadata_pointer == "signal:x#0"


# Numbers, comparisons, types.


def test_steps_of_a_name_are_counted_and_failed_ones_keep_their_number() -> None:
    numbers = Occurrences()
    first, second = numbers.take("a", "one"), numbers.take("a", "two")
    assert [str(each) for each in (first, second, numbers.take("b"))] == ["a#0", "a#1", "b#0"]
    numbers.give_back(first)
    assert str(numbers.take("a", "three")) == "a#2"
    assert str(numbers.take("a", "one")) == "a#0"
    assert str(numbers.take("a", "one")) == "a#3"


def test_calls_are_alike_when_function_and_what_it_holds_are() -> None:
    def closing_over(value: object) -> Callable[[], object]:
        return lambda: value

    one, other = object(), object()
    assert _Call(closing_over(one), "d") == _Call(closing_over(one), "d")
    assert _Call(closing_over(one), "d") != _Call(closing_over(other), "d")
    assert _Call(closing_over(one), "d") != _Call(closing_over(one), "e")
    assert _Call("x".upper, "") == _Call("x".upper, "")
    assert _Call(int, "") != _Call(float, "")
    calls = [_Call(lambda: each, "") for each in (one, other)]  # noqa: B023 - what it held when it was called
    assert calls[0] != calls[1]


def test_the_digest_of_inputs_is_about_their_values() -> None:
    @dataclass
    class Point:
        x: int

    assert digest_of((1, "a", Point(1))) == digest_of((1, "a", Point(1)))
    assert digest_of((Point(1),)) != digest_of((Point(2),))
    assert digest_of(({"b", "a", "c"}, {"y": 1, "x": 2})) == digest_of(({"c", "a", "b"}, {"x": 2, "y": 1}))
    assert digest_of((object(),)) == digest_of((object(),)), "what has no JSON form counts by its type"
    assert digest_of((object(),)) != digest_of((Path(),))
    endless: list[Any] = []
    endless.append(endless)
    assert digest_of((endless,)) == ""


def test_the_type_of_a_result_is_what_the_function_says() -> None:
    class Caller:
        def method(self) -> list[int]:
            return []

    async def later() -> set[str]:
        return set()

    def bad() -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        ...

    assert _result_type(Caller().method, None) == list[int]
    assert _result_type(later, None) == set[str]
    assert _result_type(functools.partial(later), None) == set[str]
    assert _result_type(later, dict) is dict
    assert _result_type(datetime, None) is datetime
    assert _result_type(len, None) is Any
    assert _result_type(lambda: 1, None) is Any
    with pytest.raises(InvalidInput, match=r"say returns="):
        _result_type(bad, None)


async def test_a_suspension_goes_alone() -> None:
    gate, order = Gate(), []

    async def step(name: str, turns: int) -> None:
        async with gate.beside():
            order.append(f"{name} in")
            for _ in range(turns):
                await settle()
            order.append(f"{name} out")

    async def suspension(name: str) -> None:
        async with gate.alone():
            order.append(f"{name} in")
            late.append(asyncio.create_task(step("c", 1)))
            await settle()
            order.append(f"{name} out")

    late: list[asyncio.Task[None]] = []
    await asyncio.gather(step("a", 1), suspension("s"), step("b", 2), suspension("t"))
    await asyncio.gather(*late)
    assert order[:4] == ["a in", "b in", "a out", "b out"]
    assert order[4:6] == ["s in", "s out"]
    assert order.index("t out") == order.index("t in") + 1
    assert order.count("c out") == 2


# Ends of waits, signals, waitpoints.


def test_the_end_of_a_wait_outgrows_one_record() -> None:
    large = tuple(signal("x", bytes([each]) * limits.SIGNAL_PAYLOAD_MAX_BYTES) for each in range(3))
    for end in (WaitEnd("resumed", large), WaitEnd("resumed_by_operator")):
        pieces = list(end.pieces())
        assert all(len(piece) <= limits.STEP_RESULT_MAX_BYTES for piece in pieces)
        assert WaitEnd.joined(pieces) == end


def test_a_time_out_is_no_signal_of_others() -> None:
    end = WaitEnd("timed_out_auto_resume", (signal("__timeout__"),))
    assert end.is_timeout
    assert end.told == ()


def test_payloads_are_read_as_their_type() -> None:
    assert Signal.read(signal("x", b"[1,2]"), tuple[int, int]).payload == (1, 2)
    assert Signal.read(signal("x", None), Any).payload is None
    assert Signal.read(signal("x", b"\xff", "protobuf"), bytes).payload == b"\xff"
    assert Signal.read(signal("x"), int).received_at == datetime.fromtimestamp(1_700_000_000, UTC)
    for given, kind in ((signal("x", b'"a"'), int), (signal("x", None), int), (signal("x", b"1", "protobuf"), int)):
        with pytest.raises(Fail, match="payload of signal 'x'") as error:
            Signal.read(given, kind)
        assert (error.value.category, error.value.retryable) == ("invalid_payload", False)


def test_a_waitpoint_shows_its_token_in_its_link_only() -> None:
    execution_id = ExecutionId("{fp:7}:00000000-0000-4000-8000-000000000000")
    made = Waitpoint(execution_id, WaitpointId.new(), WaitpointKey("k"), WaitpointToken("k1:feed"), "https://a.example")
    assert "feed" not in f"{made} {made!r} {made.token} {[made]}"
    assert "token=k1%3Afeed" in made.link()
    assert made.link("approve").endswith("&name=approve")


def test_an_outcome_in_a_group_of_exceptions_counts() -> None:
    retry = Retry("busy")
    assert spoken(ExceptionGroup("a", [ValueError(), ExceptionGroup("b", [retry])])) is retry
    plain = ExceptionGroup("a", [ValueError()])
    assert spoken(plain) is plain
    assert spoken(retry) is retry


def test_suspended_is_no_exception() -> None:
    assert not issubclass(Suspended, Exception)

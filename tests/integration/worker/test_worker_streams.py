"""What handlers emit is in the store before their attempt ends: all of it, in order, in few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from flowfabric import Context, Fail, Handle, RetryPolicy, Snooze, Suspended, Worker
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts import batch as b
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import BackendUnavailable, InvalidInput
from flowfabric.testing import FabricKit
from flowfabric.worker.attempts.attempt import Stop
from flowfabric.worker.attempts.outcomes import Interrupted
from tests.servers import eventually_async
from tests.worker_tasks import cpu_worker, emits

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

ONE_RETRY = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0))


@dataclass
class Delta:
    page: int
    text: str


class Watched:
    """A store that shows the calls that append, and may hold them up or fail them."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self.calls: list[list[int]] = []  # how many frames of each attempt
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def append_frames(self, batch: Sequence[c.AppendFramesArgs]) -> list[b.AppendFramesOutcome]:
        self.calls.append([len(args.frames) for args in batch])
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        return await self._backend.append_frames(batch)

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        assert self.gate.is_set() or not args.finish, "an end overtook the frames"
        return await self._backend.finish_executions(args)

    @property
    def port(self) -> EngineBackend:
        return cast("EngineBackend", self)


async def frames_of(kit: FabricKit, handle: Handle[Any], index: int = 0) -> list[c.StreamFrame]:
    args = c.ReadFramesArgs(execution_id=handle.id, attempt_index=index, count_limit=limits.STREAM_READ_HARD_CAP)
    return list((await kit.backend.read_attempt_stream(args)).frames)


async def texts_of(kit: FabricKit, handle: Handle[Any], index: int = 0) -> list[str]:
    return [frame.text for frame in await frames_of(kit, handle, index)]


@pytest.fixture
def worker() -> Worker:
    return Worker()


async def test_text_bytes_and_values_are_frames(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def speak(ctx: Context) -> None:
        await ctx.emit("Tides ")
        await ctx.emit(b"\x00\xff", type="image")
        await ctx.emit(Delta(1, "rise"), type="delta", metadata={"model": "m"}, correlation_id="c", source="s")

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    text, image, delta = await frames_of(fabric_kit, handle)
    assert (text.frame_type, text.payload, text.encoding, text.mode) == ("output", b"Tides ", "utf8", "durable")
    assert (image.frame_type, image.payload, image.encoding) == ("image", b"\x00\xff", "binary")
    assert (delta.frame_type, delta.payload, delta.encoding) == ("delta", b'{"page":1,"text":"rise"}', "json")
    assert (delta.metadata_json, delta.correlation_id, delta.source) == ('{"model":"m"}', "c", "s")


async def test_summaries_are_patched_and_best_effort_frames_fade(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def count(ctx: Context) -> None:
        for done in range(100):
            await ctx.emit({"done": done + 1, "last": {"page": done}}, mode="summary")
            await ctx.emit(f"page {done}", mode="best_effort", ttl=10)

    handle = await fabric_kit.submit(count)
    await fabric_kit.run_until_idle(worker)
    assert await handle.summary() == {"done": 100, "last": {"page": 99}}
    seen = [frame.text for frame in await frames_of(fabric_kit, handle) if frame.mode == "best_effort"]
    assert seen[-1] == "page 99"
    assert len(seen) < 100


def bad_values(ctx: Context) -> list[tuple[str, Callable[[], object]]]:
    return [
        ("value", lambda: ctx.emit("x" * (limits.FRAME_PAYLOAD_MAX_BYTES + 1))),
        ("value", lambda: ctx.emit("\ud800")),
        ("value", lambda: ctx.emit(object())),
        ("value", lambda: ctx.emit([1], mode="summary")),
        ("frame_type", lambda: ctx.emit("x", type="")),
        ("mode", lambda: ctx.emit("x", mode="loud")),  # type: ignore[arg-type]
        ("ttl", lambda: ctx.emit("x", ttl=1)),
        ("ttl", lambda: ctx.emit("x", mode="best_effort", ttl=-1)),
        ("metadata", lambda: ctx.emit("x", metadata={"x": object()})),
        ("correlation_id", lambda: ctx.emit("x", correlation_id="\n")),
        ("source", lambda: ctx.emit("x", source="x" * 257)),
    ]


async def test_a_bad_frame_is_refused_in_the_handler_and_nothing_is_emitted(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    @worker.task
    async def speak(ctx: Context) -> list[str]:
        fields = []
        for _, emit in bad_values(ctx):
            with pytest.raises(InvalidInput) as caught:
                emit()
            fields.append(caught.value.field)
        return fields

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    assert await handle == [field for field, _ in bad_values(cast("Context", None))]
    assert await frames_of(fabric_kit, handle) == []


async def test_frames_of_one_turn_of_the_loop_go_together(fabric_kit: FabricKit, worker: Worker) -> None:
    store = Watched(fabric_kit.backend)
    together = asyncio.Barrier(3)

    @worker.task
    async def speak(ctx: Context) -> None:
        await together.wait()
        for at in range(5):
            await ctx.emit(str(at))

    handles = [await fabric_kit.submit(speak) for _ in range(3)]
    async with worker.working(store.port):
        for handle in handles:
            await handle.wait(10)
    assert sum(map(sum, store.calls)) == 15
    assert len(store.calls) <= 2
    for handle in handles:
        assert await texts_of(fabric_kit, handle) == ["0", "1", "2", "3", "4"]


async def test_a_slow_store_holds_up_the_handler_and_not_the_loop(fabric_kit: FabricKit, worker: Worker) -> None:
    store, emitted = Watched(fabric_kit.backend), []
    store.gate.clear()

    @worker.task
    async def speak(ctx: Context) -> None:
        for at in range(3_000):
            await ctx.emit(str(at))
            emitted.append(at)

    handle = await fabric_kit.submit(speak)
    async with worker.working(store.port):
        await eventually_async(lambda: len(emitted) >= 256, "it emits")
        await asyncio.sleep(0)
        assert len(emitted) < 1_000
        store.gate.set()
        await handle.wait(20)
    assert await texts_of(fabric_kit, handle) == [str(at) for at in range(3_000)]


async def test_who_never_waits_is_told_before_memory_runs_out(fabric_kit: FabricKit, worker: Worker) -> None:
    store = Watched(fabric_kit.backend)
    store.gate.clear()

    @worker.task
    async def flood(ctx: Context) -> str:
        unawaited: list[Any] = []
        try:
            unawaited.extend(ctx.emit("x") for _ in range(100_000))
        except InvalidInput as error:
            return str(error)
        finally:
            store.gate.set()
            await asyncio.gather(*unawaited)
        return "never told"

    handle = await fabric_kit.submit(flood)
    async with worker.working(store.port):
        assert "await ctx.emit(...)" in await handle.result(20)


@pytest.mark.parametrize("how", ["fails", "snoozes", "waits", "returns"])
async def test_all_is_there_before_the_end_is_sent(fabric_kit: FabricKit, worker: Worker, how: str) -> None:
    store = Watched(fabric_kit.backend)
    store.gate.clear()
    emitted = asyncio.Event()

    @worker.task(retry=0)
    async def speak(ctx: Context) -> None:
        for at in range(300):
            await ctx.emit(str(at))
        emitted.set()
        if how == "fails":
            raise Fail("enough")
        if how == "snoozes":
            raise Snooze("tired", for_=3_600)
        if how == "waits":
            await ctx.wait_for_signal("go")

    handle = await fabric_kit.submit(speak)
    async with worker.working(store.port):
        await emitted.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert await handle.status() == "active"
        store.gate.set()
        expected = {"fails": "failed", "snoozes": "delayed", "waits": "suspended", "returns": "completed"}[how]
        async for _ in handle.events():
            if await handle.status() == expected:
                break
    assert await texts_of(fabric_kit, handle) == [str(at) for at in range(300)]


async def test_a_store_that_was_away_gets_each_frame_once(fabric_kit: FabricKit, worker: Worker) -> None:
    store = Watched(fabric_kit.backend)
    store.failures = [BackendUnavailable("gone", sent=True)]

    @worker.task
    async def speak(ctx: Context) -> None:
        await asyncio.gather(*(ctx.emit(str(at)) for at in range(3)))

    handle = await fabric_kit.submit(speak)
    async with worker.working(store.port):
        await handle.wait(10)
    assert await texts_of(fabric_kit, handle) == ["0", "1", "2"]


async def test_a_resumed_pass_goes_on_in_the_same_stream(fabric_kit: FabricKit, worker: Worker) -> None:
    async def draft(ctx: Context) -> str:
        for word in ("a", "b"):
            await ctx.emit(word)
        return "ab"

    @worker.task
    async def speak(ctx: Context) -> None:
        await ctx.step("draft", draft, ctx)
        await ctx.wait_for_signal("go")
        await ctx.emit("c")

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    await handle.signal("go")
    await fabric_kit.run_until_idle(worker)
    frames = await frames_of(fabric_kit, handle)
    assert [frame.frame_type for frame in frames] == ["output", "output", "ff:pass", "ff:step", "output"]
    assert [frame.text for frame in frames] == ["a", "b", "", "", "c"], "marks have no text"
    assert [frame.step_run for frame in frames] == ["1.1", "1.1", None, None, None]


async def test_each_attempt_has_its_own_stream(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=ONE_RETRY)
    async def speak(ctx: Context) -> None:
        await ctx.emit(f"attempt {ctx.attempt_index}")
        if ctx.attempt_index == 0:
            raise OSError("no route")

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    assert await texts_of(fabric_kit, handle, 0) == ["attempt 0"]
    assert await texts_of(fabric_kit, handle, 1) == ["attempt 1"]


@pytest.mark.parametrize(("cause", "told"), [("cancel", Stop.CANCELLED), ("expire", Stop.LEASE_LOST)])
async def test_an_attempt_that_is_over_is_told_and_adds_nothing(
    fabric_kit: FabricKit, worker: Worker, cause: str, told: Stop
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    stops: list[Stop | None] = []

    @worker.task(retry=0)
    async def speak(ctx: Context) -> None:
        await ctx.emit("before")
        begun.set()
        await ended.wait()
        try:
            while True:
                await ctx.emit("after")
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            stops.append(ctx._link.stop)
            raise

    handle = await fabric_kit.submit(speak)
    await worker.start(fabric_kit.backend)
    await begun.wait()
    await (handle.cancel() if cause == "cancel" else fabric_kit.backend.revoke_lease(revocation(handle)))
    ended.set()
    await eventually_async(lambda: stops, "it is told")
    await worker.stop()
    assert stops == [told]
    assert "after" not in await texts_of(fabric_kit, handle)


def revocation(handle: Handle[Any]) -> c.RevokeLeaseArgs:
    return c.RevokeLeaseArgs(execution_id=handle.id, reason="tests")


async def test_nothing_is_emitted_after_a_suspension(fabric_kit: FabricKit, worker: Worker) -> None:
    caught: list[str] = []

    @worker.task
    async def speak(ctx: Context) -> None:
        try:
            await ctx.wait_for_signal("go")
        except Suspended:
            with pytest.raises(Suspended):
                await ctx.emit("too late")
            caught.append("suspended")
            raise

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    assert caught == ["suspended"]
    assert await frames_of(fabric_kit, handle) == []


async def test_what_a_handler_left_behind_emits_nothing(fabric_kit: FabricKit, worker: Worker) -> None:
    left: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    @worker.task
    async def speak(ctx: Context) -> None:
        async def later() -> None:
            await ended.wait()
            await ctx.emit("too late")

        left.append(asyncio.create_task(later()))
        await ctx.emit("in time")

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    ended.set()
    with pytest.raises(Interrupted):
        await left[0]
    assert await texts_of(fabric_kit, handle) == ["in time"]


async def test_threads_emit_without_awaiting(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    def speak(ctx: Context) -> str:
        for at in range(1_000):
            ctx.emit(str(at))
        with pytest.raises(InvalidInput):
            ctx.emit("x" * (limits.FRAME_PAYLOAD_MAX_BYTES + 1))
        return "said"

    handle = await fabric_kit.submit(speak)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "said"
    assert await texts_of(fabric_kit, handle) == [str(at) for at in range(1_000)]


async def test_processes_emit_through_the_worker(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(emits, 500)
    await fabric_kit.run_until_idle(cpu_worker)
    assert await handle == 500
    frames = await frames_of(fabric_kit, handle)
    assert [frame.text for frame in frames if frame.mode == "durable"] == [str(at) for at in range(500)]
    assert await handle.summary() == {"done": 500}


async def test_a_summary_that_the_store_refuses_fails_the_attempt(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=0)
    async def grow(ctx: Context) -> None:
        for at in range(100):
            await ctx.emit({str(at): "x" * 60_000}, mode="summary")

    handle = await fabric_kit.submit(grow)
    await fabric_kit.run_until_idle(worker)
    snapshot = await handle.describe()
    assert snapshot.public_state == "failed"
    assert "retention_limit_exceeded" in (snapshot.failure_reason or "")

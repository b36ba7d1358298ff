"""handle.stream(): what an execution emits, over its attempts and waits, until it has ended, for many readers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from flowfabric import Context, Fabric, Fail, Handle, RetryPolicy, StreamItem, SyncFabric, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.streaming import Attempts
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import ExecutionNotFound, InvalidInput
from flowfabric.testing import FabricKit
from tests.servers import eventually_async, kill9

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

WITHIN_S = 20
TWO_RETRIES = RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=0))

worker = Worker()


@dataclass
class Delta:
    page: int
    text: str


@worker.task
async def speak(ctx: Context, words: list[str]) -> int:
    for word in words:
        await ctx.emit(word)
    return len(words)


@worker.task(retry=TWO_RETRIES)
async def stutter(ctx: Context) -> None:
    """The first attempt says two words, the second none, the third three."""
    for at in range((2, 0, 3)[ctx.attempt_index]):
        await ctx.emit(f"{ctx.attempt_index}.{at}")
    if ctx.attempt_index < 2:
        raise OSError("no route")


@worker.task(retry=0)
async def two_parts(ctx: Context) -> None:
    await ctx.step("first", say, ctx, "first")
    await ctx.wait_for_signal("go")
    await ctx.emit("second")


async def say(ctx: Context, word: str) -> None:
    await ctx.emit(word)


async def read(handle: Handle[Any], **options: Any) -> list[StreamItem]:
    async with asyncio.timeout(WITHIN_S):
        return [item async for item in handle.stream(**options)]


async def words(handle: Handle[Any], **options: Any) -> list[str]:
    return ["RESET" if item.is_reset else item.text for item in await read(handle, **options)]


def reading(handle: Handle[Any], **options: Any) -> asyncio.Task[list[str]]:
    return asyncio.create_task(words(handle, **options))


async def test_readers_from_the_start_late_and_again_see_the_same(fabric_kit: FabricKit) -> None:
    said = [f"w{at} " for at in range(2_000)]
    handle = await fabric_kit.submit(speak, said)
    early = reading(handle)
    await fabric_kit.run_until_idle(worker)
    assert await early == said
    assert await words(handle) == said
    items = await read(handle)
    assert await words(handle, after=items[999].cursor) == said[1_000:]
    assert await words(handle, after=items[-1].cursor) == []


async def test_items_have_values_types_and_times(fabric_kit: FabricKit) -> None:
    worker = Worker()

    @worker.task
    async def mixed(ctx: Context) -> None:
        await ctx.emit("tide")
        await ctx.emit(b"\xff")
        await ctx.emit(Delta(2, "ebb"), type="delta")
        await ctx.emit({"done": 1}, mode="summary")
        await ctx.emit("soon gone", mode="best_effort")

    handle = await fabric_kit.submit(mixed)
    await fabric_kit.run_until_idle(worker)
    items = await read(handle)
    assert [item.value for item in items] == ["tide", b"\xff", {"page": 2, "text": "ebb"}, {"done": 1}, "soon gone"]
    assert [item.type for item in items] == ["output", "output", "delta", "output", "output"]
    assert items[2].read(Delta) == Delta(2, "ebb")
    assert items[2].text == '{"page":2,"text":"ebb"}'
    assert {item.at for item in items} == {fabric_kit.now}
    assert [item.frame.mode for item in items if item.frame][3:] == ["summary", "best_effort"]
    assert "soon gone" not in await words(handle, live=False)
    with pytest.raises(InvalidInput, match=r"value\["):
        items[2].read(dict[str, str])


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ("latest", ["0.0", "0.1", "RESET", "2.0", "2.1", "2.2"]),
        ("all", ["0.0", "0.1", "2.0", "2.1", "2.2"]),
    ],
)
async def test_a_retry_resets_who_watches_the_latest(
    fabric_kit: FabricKit, attempts: Attempts, expected: list[str]
) -> None:
    handle = await fabric_kit.submit(stutter)
    watching = reading(handle, attempts=attempts)
    await eventually_async(lambda: tails_of(fabric_kit), "it follows")
    await fabric_kit.run_until_idle(worker)
    assert await watching == expected


async def test_who_comes_late_sees_the_latest_attempt_or_all(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(stutter)
    await fabric_kit.run_until_idle(worker)
    assert await words(handle) == ["2.0", "2.1", "2.2"]
    items = await read(handle, attempts="all")
    assert [(item.attempt_index, item.text) for item in items] == [
        (0, "0.0"), (0, "0.1"), (2, "2.0"), (2, "2.1"), (2, "2.2"),
    ]  # fmt: skip
    assert await words(handle, after=items[0].cursor) == ["RESET", "2.0", "2.1", "2.2"]
    assert await words(handle, after=items[0].cursor, attempts="all") == ["0.1", "2.0", "2.1", "2.2"]
    reset = (await read(handle, after=items[0].cursor))[0]
    assert (reset.type, reset.value, reset.text, reset.at, reset.attempt_index) == ("reset", None, "", None, 2)
    assert await words(handle, after=reset.cursor) == ["2.0", "2.1", "2.2"]


async def test_it_goes_on_over_a_suspension(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(two_parts)
    watching = reading(handle)
    await fabric_kit.run_until_idle(worker)
    assert not watching.done()
    await handle.signal("go")
    await fabric_kit.run_until_idle(worker)
    assert await watching == ["first", "second"]


async def test_a_lost_worker_shows_as_a_reset(fabric_kit: FabricKit) -> None:
    worker, begun = Worker(), asyncio.Event()

    @worker.task(retry=TWO_RETRIES)
    async def endless(ctx: Context) -> None:
        await ctx.emit(f"attempt {ctx.attempt_index}")
        begun.set()
        if ctx.attempt_index == 0:
            await asyncio.Event().wait()

    handle = await fabric_kit.submit(endless)
    watching = reading(handle)
    await fabric_kit.start_worker(worker)
    await begun.wait()
    await eventually_async(lambda: tails_of(fabric_kit), "it follows")
    await fabric_kit.kill_worker(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert await watching == ["attempt 0", "RESET", "attempt 1"]
    assert await words(handle, attempts="all") == ["attempt 0", "attempt 1"]


@pytest.mark.parametrize("when", ["before", "while"])
async def test_an_execution_that_is_cancelled_unclaimed_ends_it(fabric_kit: FabricKit, when: str) -> None:
    handle = await fabric_kit.submit(speak, ["a"])
    watching = reading(handle) if when == "while" else None
    if watching:
        await eventually_async(lambda: tails_of(fabric_kit), "it follows")
    await handle.cancel()
    assert await (watching or words(handle)) == []


async def test_a_failure_ends_it_and_says_nothing_more(fabric_kit: FabricKit) -> None:
    worker = Worker()

    @worker.task(retry=0)
    async def fails(ctx: Context) -> None:
        await ctx.emit("half")
        raise Fail("enough")

    handle = await fabric_kit.submit(fails)
    watching = reading(handle)
    await fabric_kit.run_until_idle(worker)
    assert await watching == ["half"]


async def test_after_a_replay_it_has_more_to_show(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(speak, ["a"])
    await fabric_kit.run_until_idle(worker)
    before = await read(handle)
    await handle.replay()
    await fabric_kit.run_until_idle(worker)
    assert await words(handle, after=before[-1].cursor) == ["RESET", "a"]
    assert await words(handle, attempts="all") == ["a", "a"]


async def test_many_readers_share_one_read_and_a_slow_one_holds_up_nobody(fabric_kit: FabricKit) -> None:
    said = [f"w{at}" for at in range(5_000)]
    handle = await fabric_kit.submit(speak, said)
    slow = handle.stream()
    first = asyncio.create_task(anext(slow))
    readers = [reading(handle) for _ in range(20)]
    await fabric_kit.run_until_idle(worker)
    assert await asyncio.gather(*readers) == [said] * 20
    assert cast("ValkeyBackend", fabric_kit._store)._frame_tails.connections <= 1
    async with asyncio.timeout(WITHIN_S), aclosing(slow):
        assert [(await first).text, *[item.text async for item in slow]] == said


async def test_leaving_early_leaves_nothing_behind(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(two_parts)
    await fabric_kit.run_until_idle(worker)
    async with aclosing(handle.stream()) as items:
        assert (await anext(items)).text == "first"
    assert not tails_of(fabric_kit)


async def test_an_unknown_execution_is_refused(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(speak, ["a"])
    unknown = fabric_kit.handle(handle.id[:-12] + "0" * 12)
    for attempts in ("latest", "all"):
        with pytest.raises(ExecutionNotFound):
            await words(unknown, attempts=attempts)
    with pytest.raises(ExecutionNotFound):
        await unknown.summary()


@pytest.mark.parametrize("cursor", ["", "0", "1713100800150-0", "0:start", "-1:0-0", "a:0-0", 7])
async def test_a_bad_cursor_is_refused(fabric_kit: FabricKit, cursor: Any) -> None:
    handle = await fabric_kit.submit(speak, ["a"])
    with pytest.raises(InvalidInput, match="after"):
        await words(handle, after=cursor)


async def test_a_bad_choice_of_attempts_is_refused(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(speak, ["a"])
    with pytest.raises(InvalidInput, match="attempts"):
        await words(handle, attempts="some")


async def test_without_summary_frames_there_is_no_summary(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(speak, ["a"])
    assert await handle.summary() is None
    await fabric_kit.run_until_idle(worker)
    assert await handle.summary() is None


async def test_code_without_a_loop_reads_it_as_an_iterator(tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}"

    def script() -> tuple[list[str], list[str], object]:
        with SyncFabric.connect(url) as fabric:
            handle = fabric.submit(speak, ["a", "b", "c"])
            items = list(handle.stream())
            rest = [item.text for item in handle.stream(after=items[0].cursor)]
            return [item.text for item in items], rest, handle.summary()

    async with asyncio.timeout(WITHIN_S), worker.working(url):
        assert await asyncio.to_thread(script) == (["a", "b", "c"], ["b", "c"], None)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_killed_server_loses_doubles_and_disorders_nothing(tmp_path: Path, times: int) -> None:
    worker, url, frames = Worker(), f"embedded://{tmp_path}", 400 * times

    @worker.task
    async def count(ctx: Context) -> None:
        for number in range(frames):
            await ctx.emit(str(number))
            if number % 10 == 0:
                await asyncio.sleep(0.001)

    async with asyncio.timeout(3 * WITHIN_S), Fabric.connect(url) as fabric, worker.working(url):
        handle, seen = await fabric.submit(count), []
        async for item in handle.stream():
            seen.append(item.text)
            if len(seen) % 400 == 200:
                info = await cast("ValkeyBackend", fabric.backend).client.execute("INFO", "server", repeatable=True)
                await asyncio.to_thread(kill9, int(cast("bytes", info).split(b"process_id:")[1].split()[0]))
        assert seen == [str(number) for number in range(frames)]
        assert await words(handle) == seen


def tails_of(kit: FabricKit) -> dict[str, int]:
    return cast("ValkeyBackend", kit._store)._frame_tails._followed

"""Output that stands: a stream ends with what one undisturbed run would have shown, whatever was skipped or redone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import Context, Handle, RetryPolicy, Snooze, StreamItem, Worker
from flowfabric.core.policy import FixedBackoff
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

WITHIN_S = 20
RETRIES = RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=0))

worker = Worker()


async def say(ctx: Context, *words: str) -> str:
    for word in words:
        await ctx.emit(word)
        await ctx.emit({word: len(word)}, mode="summary")
    return "".join(words)


@worker.task(retry=RETRIES)
async def draft(ctx: Context) -> None:
    """The first attempt fails after its first step, the second inside of its second step."""
    await ctx.emit("begin ")
    await ctx.step("first", say, ctx, "one ", "two ")
    await ctx.emit("between ")
    if ctx.attempt_index == 0:
        raise OSError("no route")
    await ctx.step("second", stutter, ctx)
    await ctx.emit("end")


async def stutter(ctx: Context) -> None:
    await ctx.emit("three ")
    if ctx.attempt_index == 1:
        raise OSError("cut")
    await ctx.emit("four ")


DRAFT = "begin one two between three four end"


@worker.task(retry=0)
async def approved(ctx: Context) -> None:
    await ctx.emit("draft: ")
    await ctx.step("draft", say, ctx, "tides ", "rise ")
    await ctx.emit("asked ")
    await ctx.wait_for_signal("go")
    await ctx.emit("sent ")
    await ctx.step("send", say, ctx, "really ")
    await ctx.wait_for_signal("go")
    await ctx.emit("end")


APPROVED = "draft: tides rise asked sent really end"


async def items_of(handle: Handle[Any], **options: Any) -> list[StreamItem]:
    async with asyncio.timeout(WITHIN_S):
        return [item async for item in handle.stream(**options)]


def durable(items: list[StreamItem]) -> list[StreamItem]:
    return [item for item in items if item.frame is None or item.frame.mode == "durable"]


def text_of(items: list[StreamItem]) -> str:
    """What a reader has on its screen."""
    text = ""
    for item in durable(items):
        text = "" if item.is_reset else text + item.text
    return text


async def test_a_later_attempt_keeps_the_output_of_the_steps_that_it_skips(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(draft)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(worker)
    seen = await live
    assert "".join(item.text for item in durable(seen)) == DRAFT, "it came once"
    assert not any(item.is_reset for item in seen)
    assert text_of(await items_of(handle)) == DRAFT
    assert await handle.summary() == {"one ": 4, "two ": 4}


async def test_a_resumed_reader_shows_the_rest_from_every_place(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(draft)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(worker)
    for items in (await live, await items_of(handle)):
        for at, item in enumerate(items):
            rest = await items_of(handle, after=item.cursor)
            assert text_of(items[: at + 1] + rest) == DRAFT, item.cursor


async def test_a_wait_shows_nothing_twice_and_resets_nobody(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(approved)
    live = asyncio.create_task(items_of(handle))
    for _ in range(2):
        await fabric_kit.run_until_idle(worker)
        await handle.signal("go")
    await fabric_kit.run_until_idle(worker)
    seen = await live
    assert "".join(item.text for item in durable(seen)) == APPROVED
    assert not any(item.is_reset for item in seen)
    late = await items_of(handle)
    assert "".join(item.text for item in durable(late)) == APPROVED
    for items in (seen, late):
        for at, item in enumerate(items):
            rest = await items_of(handle, after=item.cursor)
            assert text_of(items[: at + 1] + rest) == APPROVED, item.cursor
    assert await handle.summary() == {"tides ": 6, "rise ": 5, "really ": 7}


async def test_every_attempt_is_still_readable_without_marks(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(draft)
    await fabric_kit.run_until_idle(worker)
    items = durable(await items_of(handle, attempts="all"))
    texts = ["".join(item.text for item in items if item.attempt_index == index) for index in range(3)]
    assert texts == ["begin one two between ", "begin between three ", "begin between three four end"]


async def test_a_pass_that_emits_something_else_resets_its_readers(fabric_kit: FabricKit) -> None:
    changing = Worker()
    passes = []

    @changing.task
    async def moody(ctx: Context) -> None:
        passes.append(1)
        await ctx.emit("hello ")
        await ctx.emit(f"pass {len(passes)}")
        if len(passes) == 1:
            raise Snooze(for_=1)

    handle = await fabric_kit.submit(moody)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(changing)
    await fabric_kit.advance(1)
    await fabric_kit.run_until_idle(changing)
    shown = ["RESET" if item.is_reset else item.text for item in await live]
    assert shown == ["hello ", "pass 1", "RESET", "hello ", "pass 2"]
    assert text_of(await items_of(handle)) == "hello pass 2"


async def test_an_attempt_that_emits_something_else_resets_its_readers(fabric_kit: FabricKit) -> None:
    changing = Worker()

    @changing.task(retry=RETRIES)
    async def moody(ctx: Context) -> None:
        await ctx.step("say", say, ctx, "hello ")
        await ctx.emit(f"attempt {ctx.attempt_index}")
        if ctx.attempt_index == 0:
            raise OSError("no route")

    handle = await fabric_kit.submit(moody)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(changing)
    shown = ["RESET" if item.is_reset else item.text for item in durable(await live)]
    assert shown == ["hello ", "attempt 0", "RESET", "hello ", "attempt 1"]


async def test_fleeting_frames_of_a_later_attempt_are_shown_at_once(fabric_kit: FabricKit) -> None:
    """They are not kept, so they are not compared, and need not wait for what is."""
    fleeting = Worker()
    shown = asyncio.Event()

    @fleeting.task(retry=RETRIES)
    async def measure(ctx: Context) -> None:
        if ctx.attempt_index == 0:
            await ctx.emit("text")
            raise OSError("no route")
        await ctx.emit("level", mode="best_effort")
        await shown.wait()
        await ctx.emit("text")

    async def watch() -> list[str]:
        seen = []
        async for item in handle.stream():
            seen.append("RESET" if item.is_reset else item.text)
            if item.text == "level":
                shown.set()
        return seen

    handle = await fabric_kit.submit(measure)
    watching = asyncio.create_task(watch())
    await fabric_kit.run_until_idle(fleeting)
    assert await watching == ["text", "level"]


async def test_a_pass_that_emits_less_shows_only_that(fabric_kit: FabricKit) -> None:
    shrinking = Worker()
    passes = []

    @shrinking.task
    async def brief(ctx: Context) -> None:
        passes.append(1)
        await ctx.emit("hello ")
        if len(passes) == 1:
            await ctx.emit("world")
            raise Snooze(for_=1)

    handle = await fabric_kit.submit(brief)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(shrinking)
    await fabric_kit.advance(1)
    await fabric_kit.run_until_idle(shrinking)
    assert text_of(await live) == text_of(await items_of(handle)) == "hello "


@pytest.mark.parametrize("count", [1_200, 6_000])
async def test_long_output_is_read_in_pages_and_stands(fabric_kit: FabricKit, count: int) -> None:
    """Of the longer one a reader does not remember everything, so that the later pass resets it."""
    long = Worker()
    said = [f"{at} " for at in range(count)]

    async def speak(ctx: Context) -> None:
        for word in said:
            await ctx.emit(word)

    @long.task
    async def lecture(ctx: Context) -> None:
        await ctx.emit("begin ")
        await ctx.step("speak", speak, ctx)
        await ctx.sleep(60)
        await ctx.emit("end")

    handle = await fabric_kit.submit(lecture)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(long)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(long)
    expected = f"begin {''.join(said)}end"
    seen, late = await live, await items_of(handle)
    assert text_of(seen) == text_of(late) == expected
    assert any(item.is_reset for item in seen) == (count > 4_000)
    for at in (0, 499, 500, 501, 1_000, len(late) - 2):
        assert text_of(late[: at + 1] + await items_of(handle, after=late[at].cursor)) == expected

"""Output of steps: it belongs to the step, whoever emits it, and stays when the step is skipped."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric import Context, Fail, Worker
from flowfabric.core import contracts as c
from flowfabric.errors import InvalidInput
from flowfabric.testing import FabricKit
from tests.integration.client.test_standing_output import RETRIES, items_of, say, text_of

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


async def test_output_of_failed_steps_stays_if_the_handler_recovered(fabric_kit: FabricKit) -> None:
    recovering = Worker()

    async def flaky(ctx: Context, is_last: bool) -> None:
        await ctx.emit("try ")
        if not is_last:
            raise OSError("again")
        await ctx.emit("done ")

    @recovering.task
    async def patient(ctx: Context) -> None:
        for is_last in (False, False, True):
            try:
                await ctx.step("flaky", flaky, ctx, is_last)
            except OSError:
                await ctx.emit("oh ")
        await ctx.sleep(1)
        await ctx.emit("end")

    handle = await fabric_kit.submit(patient)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(recovering)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(recovering)
    seen = await live
    assert text_of(seen) == text_of(await items_of(handle)) == "try oh try oh try done end"
    assert not any(item.is_reset for item in seen)


async def test_parallel_steps_keep_their_own_order(fabric_kit: FabricKit) -> None:
    parallel = Worker()

    async def count(ctx: Context, name: str) -> None:
        for at in range(5):
            await ctx.emit(f"{name}{at}")
            await asyncio.sleep(0)

    @parallel.task(retry=RETRIES)
    async def both(ctx: Context) -> None:
        await asyncio.gather(ctx.step("a", count, ctx, "a"), ctx.step("b", count, ctx, "b"))
        if ctx.attempt_index == 0:
            raise OSError("no route")

    handle = await fabric_kit.submit(both)
    await fabric_kit.run_until_idle(parallel)
    shown = [item.text for item in await items_of(handle)]
    assert len(shown) == 10
    for name in "ab":
        assert [each for each in shown if each[0] == name] == [f"{name}{at}" for at in range(5)]


async def test_threads_emit_for_their_steps_too(fabric_kit: FabricKit) -> None:
    threaded = Worker()

    def speak(ctx: Context, word: str) -> None:
        ctx.emit(word)

    @threaded.task(retry=RETRIES)
    def plain(ctx: Context) -> None:
        ctx.wait(ctx.step("speak", speak, ctx, "from a thread"))
        if ctx.attempt_index == 0:
            raise OSError("no route")

    handle = await fabric_kit.submit(plain)
    await fabric_kit.run_until_idle(threaded)
    assert text_of(await items_of(handle)) == "from a thread"


async def test_a_step_that_runs_again_replaces_its_output(fabric_kit: FabricKit) -> None:
    rerun = Worker()

    async def speak(ctx: Context, attempt: int) -> None:
        if attempt < 2:
            await ctx.emit(f"attempt {attempt} ")

    @rerun.task(retry=RETRIES, changed_steps="rerun")
    async def again(ctx: Context) -> None:
        await ctx.step("speak", speak, ctx, ctx.attempt_index)
        await ctx.emit("end")
        if ctx.attempt_index < 2:
            raise OSError("no route")

    handle = await fabric_kit.submit(again)
    live = asyncio.create_task(items_of(handle))
    await fabric_kit.run_until_idle(rerun)
    assert text_of(await live) == "end"


async def test_output_of_a_step_is_in_the_store_before_its_record(fabric_kit: FabricKit) -> None:
    """A step that is recorded is skipped, so frames that were lost then would never come again."""
    losing = Worker()

    @losing.task(retry=0)
    async def once(ctx: Context) -> int:
        await ctx.step("say", say, ctx, "one ")
        args = c.ReadFramesArgs(execution_id=ctx.execution_id, attempt_index=0)
        return len((await fabric_kit.backend.read_attempt_stream(args)).frames)

    handle = await fabric_kit.submit(once)
    await fabric_kit.run_until_idle(losing)
    assert await handle == 2


async def test_types_of_marks_are_reserved(fabric_kit: FabricKit) -> None:
    naming = Worker()

    @naming.task(retry=0)
    async def forge(ctx: Context, mode: str) -> None:
        try:
            await ctx.emit("x", type="ff:pass", mode=mode)  # type: ignore[arg-type]
        except InvalidInput as error:
            raise Fail(str(error)) from error

    for mode in ("durable", "best_effort"):
        handle = await fabric_kit.submit(forge, mode)
        await fabric_kit.run_until_idle(naming)
        with pytest.raises(Exception, match="must not begin with 'ff:'"):
            await handle


async def test_readers_that_have_seen_a_step_do_not_read_it_again(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Worker()
    asked: list[c.ReadFramesArgs] = []
    read = fabric_kit.backend.read_attempt_stream

    async def noted(args: c.ReadFramesArgs) -> c.StreamFrames:
        asked.append(args)
        return await read(args)

    async def speak(ctx: Context) -> None:
        for at in range(10):
            await ctx.emit(f"{at} ")

    @plain.task
    async def talk(ctx: Context) -> None:
        await ctx.step("speak", speak, ctx)
        await ctx.sleep(60)
        await ctx.emit("end")

    handle = await fabric_kit.submit(talk)
    reading = [asyncio.create_task(items_of(handle)) for _ in range(20)]
    await fabric_kit.run_until_idle(plain)
    monkeypatch.setattr(fabric_kit.backend, "read_attempt_stream", noted)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(plain)
    assert {text_of(items) for items in await asyncio.gather(*reading)} == {"0 1 2 3 4 5 6 7 8 9 end"}
    assert not asked


async def test_an_execution_that_is_retried_by_hand_keeps_the_output_of_its_steps(fabric_kit: FabricKit) -> None:
    mended = Worker()
    is_broken = [True]

    @mended.task(retry=0)
    async def fragile(ctx: Context) -> None:
        await ctx.emit("begin ")
        await ctx.step("say", say, ctx, "one ", "two ")
        if is_broken[0]:
            raise OSError("no route")
        await ctx.emit("end")

    handle = await fabric_kit.submit(fragile)
    await fabric_kit.run_until_idle(mended)
    before = await items_of(handle)
    assert text_of(before) == "begin one two "
    is_broken[0] = False
    await handle.retry()
    await fabric_kit.run_until_idle(mended)
    assert text_of(await items_of(handle)) == "begin one two end"
    assert text_of(before + await items_of(handle, after=before[-1].cursor)) == "begin one two end"
    assert await handle.summary() == {"one ": 4, "two ": 4}


class TestForks:
    """A fork skips the steps before it, and shows what they emitted in the execution that it was forked from."""

    @pytest.fixture
    def speaker(self) -> Worker:
        speaker = Worker()

        @speaker.task(name="speak")
        async def speak(ctx: Context, tone: str) -> str:
            await ctx.emit(f"{tone}: ")
            plan = await ctx.step("plan#1", say, ctx, "one ", "two ")
            await ctx.step("draft", say, ctx, f"{tone} draft of {plan}")
            return plan

        return speaker

    async def test_they_show_the_output_of_the_steps_that_they_skip(
        self, fabric_kit: FabricKit, speaker: Worker
    ) -> None:
        handle = await fabric_kit.submit("speak", "dry")
        await fabric_kit.run_until_idle(speaker)
        fork = await handle.fork("draft", input={"tone": "warm"})
        live = asyncio.create_task(items_of(fork))
        await fabric_kit.run_until_idle(speaker)
        shown = "warm: one two warm draft of one two "
        assert text_of(await live) == text_of(await items_of(fork)) == shown
        second = await fork.fork("draft", input={"tone": "cool"})
        await fabric_kit.run_until_idle(speaker)
        assert text_of(await items_of(second)) == shown.replace("warm", "cool")
        assert text_of(await items_of(handle)) == shown.replace("warm", "dry")

    async def test_a_changed_step_has_no_output(self, fabric_kit: FabricKit, speaker: Worker) -> None:
        """What it emitted was about another result."""
        handle = await fabric_kit.submit("speak", "dry")
        await fabric_kit.run_until_idle(speaker)
        fork = await handle.fork("draft", changed={"plan#1": "three "})
        await fabric_kit.run_until_idle(speaker)
        assert text_of(await items_of(fork)) == "dry: dry draft of three "

    async def test_output_of_a_deleted_execution_is_left_out(self, fabric_kit: FabricKit, speaker: Worker) -> None:
        handle = await fabric_kit.submit("speak", "dry")
        await fabric_kit.run_until_idle(speaker)
        await fabric_kit.advance(1)
        fork = await handle.fork("draft")
        await fabric_kit.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
        await fabric_kit.run_until_idle(speaker)
        assert text_of(await items_of(fork)) == "dry: dry draft of one two "

"""ctx.emit and handle.stream() mean the same on every topology."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from flowfabric import Context, Fabric, Handle, RetryPolicy, Worker
from flowfabric.core import contracts as c
from flowfabric.core.policy import FixedBackoff
from tests.conformance.driver import Driver
from tests.conformance.suspending import KID, SECRET
from tests.working import run_due_work

LANES = ("a", "b", "c", "d", "e")
ONE_RETRY = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0))
WITHIN_S = 30

worker = Worker(LANES, concurrency=20)


@worker.task
async def count(ctx: Context, frames: int) -> int:
    for number in range(frames):
        await ctx.emit(number)
        if number % 50 == 0:
            await asyncio.sleep(0)
    await ctx.emit({"frames": frames}, mode="summary")
    return frames


@worker.task(lane="a", retry=ONE_RETRY)
async def stumble(ctx: Context) -> None:
    await ctx.emit(f"attempt {ctx.attempt_index}")
    if ctx.attempt_index == 0:
        raise OSError("no route")


@worker.task(lane="c", retry=ONE_RETRY)
async def ask_twice(ctx: Context) -> None:
    await ctx.emit(f"attempt {ctx.attempt_index}")
    await ctx.step("question", ask_aloud, ctx)
    if ctx.attempt_index == 0:
        raise OSError("no route")
    await ctx.sleep(60)
    await ctx.emit("an answer")


@worker.task(lane="b")
async def ask(ctx: Context) -> None:
    await ctx.step("question", ask_aloud, ctx)
    await ctx.sleep(60)
    await ctx.emit("an answer")


async def ask_aloud(ctx: Context) -> None:
    await ctx.emit("a question")


async def values(handle: Handle[Any]) -> list[object]:
    return [item.value async for item in handle.stream() if item.frame is None or item.frame.mode == "durable"]


async def test_many_executions_in_many_partitions_are_read_while_they_emit(driver: Driver) -> None:
    fabric = Fabric(driver.backend)
    async with asyncio.timeout(WITHIN_S), worker.working(driver.backend):
        handles = [await fabric.submit(count.with_options(lane=lane), 300) for lane in LANES for _ in range(4)]
        found = await asyncio.gather(*(values(handle) for handle in handles for _ in range(2)))
        assert found == [list(range(300))] * 2 * len(handles)
        assert [await handle.summary() for handle in handles] == [{"frames": 300}] * len(handles)


async def test_a_retry_is_a_reset(driver: Driver) -> None:
    handle = await Fabric(driver.backend).submit(stumble)
    async with asyncio.timeout(WITHIN_S), worker.working(driver.backend), reading(driver, handle) as seen:
        await until(handle, "delayed")
        await run_due_work(driver.backend)
        assert await seen == ["attempt 0", None, "attempt 1"]


async def test_a_suspension_is_none(driver: Driver) -> None:
    await driver.backend.seed_waitpoint_hmac_secret(c.SeedWaitpointHmacSecretArgs(kid=KID, secret_hex=SECRET))
    handle = await Fabric(driver.backend).submit(ask)
    async with asyncio.timeout(WITHIN_S), worker.working(driver.backend), reading(driver, handle) as seen:
        await until(handle, "suspended")
        await handle.resume()
        assert await seen == ["a question", "an answer"]


async def test_output_of_a_step_stands_over_attempts_and_passes(driver: Driver) -> None:
    await driver.backend.seed_waitpoint_hmac_secret(c.SeedWaitpointHmacSecretArgs(kid=KID, secret_hex=SECRET))
    handle = await Fabric(driver.backend).submit(ask_twice)
    expected = ["attempt 1", "a question", "an answer"]
    async with asyncio.timeout(WITHIN_S), worker.working(driver.backend), reading(driver, handle) as seen:
        await until(handle, "delayed")
        await run_due_work(driver.backend)
        await until(handle, "suspended")
        await handle.resume()
        assert await seen == ["attempt 0", "a question", None, *expected]
        assert await values(handle) == expected


@asynccontextmanager
async def reading(driver: Driver, handle: Handle[None]) -> AsyncIterator[asyncio.Task[list[object]]]:
    """Somebody has begun to read."""
    task = asyncio.create_task(values(handle))
    await driver.probe.until_waiting()
    yield task


async def until(handle: Handle[None], state: str) -> None:
    async for _ in handle.events():
        if await handle.status() == state:
            return

"""Handlers that submit other executions, once, and wait for them without holding a worker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from flowfabric import Context, Fail, Worker
from flowfabric.client.failures import ExecutionCancelled, ExecutionFailed
from flowfabric.testing import FabricKit
from flowfabric.testing.open_work import StillOpen
from flowfabric.worker.durable.children import PARENT_TAG

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

alone = Worker(concurrency=1)  # a parent that held it while it waits would wait for ever


@alone.task
async def double(number: int) -> int:
    if number < 0:
        raise Fail("too small", retryable=False)
    return 2 * number


@alone.task
async def parent(ctx: Context, number: int) -> int:
    child = await ctx.submit(double, number)
    return await child + 1


@alone.task
async def patient(ctx: Context, number: int) -> int:
    child = await ctx.submit(double.with_options(delay=10), number)
    return await child + 1


@alone.task
async def many(ctx: Context, count: int) -> list[int]:
    handles = [await ctx.submit(double.with_options(lane=f"lane{number}"), number) for number in range(count)]
    return [await each for each in handles]


@alone.task
async def together(ctx: Context, count: int) -> list[int]:
    handles = await asyncio.gather(*(ctx.submit(double, number) for number in range(count)))
    return list(await asyncio.gather(*handles))


@alone.task
async def by_name(ctx: Context) -> int:
    child = await ctx.submit("double", 4, priority=7, tags={"team.a": "1"})
    return int(await child)


@alone.task
async def forgiving(ctx: Context) -> str:
    child = await ctx.submit(double, -1)
    try:
        return str(await child)
    except ExecutionFailed as failure:
        return str(failure.reason)


@alone.task
def in_a_thread(ctx: Context) -> int:
    child = ctx.wait(ctx.submit(double, 4))
    return ctx.wait(child.result())


@alone.task
async def impatient(ctx: Context) -> str:
    child = await ctx.submit(double.with_options(delay=3_600), 1)
    try:
        await child.result(timeout=60)
    except TimeoutError:
        await child.cancel()
    await ctx.sleep(60)
    state = await child.wait()
    return str(state)


@alone.task
async def sleeper(ctx: Context) -> str:
    await ctx.sleep(60)
    return "awake"


@alone.task
async def parent_of_sleeper(ctx: Context) -> str:
    return await (await ctx.submit(sleeper))


@alone.task
async def fire_and_forget(ctx: Context) -> str:
    return str((await ctx.submit(double, 1)).id)


@alone.task
async def in_a_step(ctx: Context) -> str:
    async def inside() -> None:
        await ctx.submit(double, 1)

    try:
        await ctx.step("inside", inside)
    except Exception as error:
        return str(error)
    return ""


async def _children(kit: FabricKit, parent_id: str) -> list[str]:
    return [str(each.execution_id) for each in (await kit.list(tags={PARENT_TAG: str(parent_id)})).executions]


async def test_a_parent_waits_for_its_child_without_holding_a_worker(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(parent, 20)
    await fabric_kit.run_until_idle(alone)
    assert await handle == 41
    assert len(await _children(fabric_kit, handle.id)) == 1
    assert len(await handle.attempts()) == 1


async def test_children_of_other_partitions_wake_their_parent(fabric_kit: FabricKit) -> None:
    lanes = Worker(lanes=["default", *(f"lane{number}" for number in range(5))], concurrency=1)
    lanes.add(double)
    lanes.add(many)
    handle = await fabric_kit.submit(many, 5)
    await fabric_kit.run_until_idle(lanes)
    assert await handle == [0, 2, 4, 6, 8]
    assert len(set(await _children(fabric_kit, handle.id))) == 5


async def test_children_can_be_submitted_and_awaited_together(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(together, 6)
    await fabric_kit.run_until_idle(alone)
    assert await handle == [0, 2, 4, 6, 8, 10]
    assert len(await _children(fabric_kit, handle.id)) == 6


async def test_a_child_can_be_submitted_by_name_with_options(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(by_name)
    await fabric_kit.run_until_idle(alone)
    assert await handle == 8
    (child,) = await _children(fabric_kit, handle.id)
    assert (await fabric_kit.handle(child).describe()).tags["team.a"] == "1"


async def test_a_child_by_name_has_the_options_that_its_workers_registered(fabric_kit: FabricKit) -> None:
    apart = Worker(lanes=["default", "apart"], concurrency=1)

    @apart.task(lane="apart")
    async def there() -> str:
        return "here"

    @apart.task
    async def asks(ctx: Context) -> str:
        return str(await (await ctx.submit("there")))

    await fabric_kit.start_worker(apart)
    handle = await fabric_kit.submit(asks)
    await fabric_kit.run_until_idle()
    assert await handle == "here"
    (child,) = await _children(fabric_kit, handle.id)
    assert (await fabric_kit.handle(child).describe()).lane_id == "apart"


async def test_the_failure_of_a_child_is_raised_where_it_is_awaited(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(forgiving)
    await fabric_kit.run_until_idle(alone)
    assert await handle == "too small"


async def test_a_handler_in_a_thread_submits_and_waits_too(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(in_a_thread)
    await fabric_kit.run_until_idle(alone)
    assert await handle == 8


async def test_a_wait_that_timed_out_times_out_on_every_pass(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(impatient)
    await fabric_kit.run_until_idle(alone)
    for _ in range(2):
        await fabric_kit.advance(60)
        await fabric_kit.run_until_idle(alone)
    assert await handle == "cancelled"


async def test_a_step_submits_nothing(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(in_a_step)
    await fabric_kit.run_until_idle(alone)
    assert "ctx.submit: must be called by the handler" in await handle


async def test_a_child_outlives_a_parent_that_is_cancelled(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(parent_of_sleeper)
    await fabric_kit.run_until_idle(alone)
    await handle.cancel()
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(alone)
    (child,) = await _children(fabric_kit, handle.id)
    assert await fabric_kit.handle(child) == "awake"
    with pytest.raises(ExecutionCancelled):
        await handle


async def test_a_replayed_parent_submits_a_new_child(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(fire_and_forget)
    await fabric_kit.run_until_idle(alone)
    first = await handle
    await handle.replay()
    await fabric_kit.run_until_idle(alone)
    assert await handle != first
    assert len(await _children(fabric_kit, handle.id)) == 2


@pytest.mark.parametrize("operation", ["record_step", "create_execution", "watch_execution", "suspend_execution"])
@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_anywhere_submits_once_and_loses_no_wakeup(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch, operation: str, after: bool
) -> None:
    """The worker dies just before, or just after, each of its calls."""
    handle = None
    for at in range(6):
        dying = Worker()
        dying.add(double)
        dying.add(patient)
        call, calls = getattr(fabric_kit._store, operation), 0

        async def call_and_die(args: Any, call: Any = call, at: int = at, dying: Worker = dying) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1 and not after:
                await fabric_kit.kill_worker(dying)
            answer = await call(args)
            if calls == at + 1 and after:
                await fabric_kit.kill_worker(dying)
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(fabric_kit._store, operation, call_and_die)
            handle = await fabric_kit.submit(patient, 20)
            await fabric_kit.start_worker(dying)
            with suppress(StillOpen):
                await fabric_kit.run_until_idle(timeout=5)
        for _ in range(2):  # its lease expires; then the child that it may have submitted only now is due
            await fabric_kit.advance(30)
            await fabric_kit.run_until_idle(alone)
        assert await handle == 41
        assert len(await _children(fabric_kit, handle.id)) == 1
        if calls <= at:  # the last round had no crash
            assert at > 0
            return


async def test_a_child_that_ends_while_its_parent_begins_to_wait_wakes_it(
    fabric_kit: FabricKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes before the suspension, and is kept by the waitpoint."""
    watch = fabric_kit._store.watch_execution

    async def watch_and_end(args: Any) -> Any:
        answer = await watch(args)
        await fabric_kit.handle(args.execution_id).cancel()
        await fabric_kit.apply_due()
        return answer

    monkeypatch.setattr(fabric_kit._store, "watch_execution", watch_and_end)
    handle = await fabric_kit.submit(patient, 20)
    await fabric_kit.run_until_idle(alone)
    assert "was cancelled" in str((await handle.describe()).failure_reason)

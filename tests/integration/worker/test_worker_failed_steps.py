"""Steps that fail: what a handler does about it is the same on every pass of the attempt, and a retry tries again."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from flowfabric import (
    Cancel,
    Context,
    ExecutionCancelled,
    Handle,
    RetryPolicy,
    Snooze,
    StepFailed,
    Worker,
)
from flowfabric.core import contracts as c
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import BackendUnavailable, InvalidInput
from flowfabric.testing import FabricKit
from flowfabric.worker.durable.failed_steps import FAILED_STEPS
from flowfabric.worker.durable.journal import RESERVED

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

AT_ONCE = RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=0))


class Declined(Exception):
    def __init__(self, code: int, *, by: str) -> None:
        super().__init__(f"declined by {by}")
        self.code = code
        self.bank = object()


class Calls:
    """A function that fails as often as it is told to, for each of its inputs."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.failing: dict[str, int] = {}

    def do(self, what: str) -> str:
        self.made[what] += 1
        if self.made[what] <= self.failing.get(what, 0):
            raise ValueError(f"{what} {self.made[what]}")
        return f"{what} {self.made[what]}"


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def worker() -> Worker:
    return Worker(worker_instance_id="worker-1")


async def run(kit: FabricKit, worker: Worker, task: Any) -> Handle[Any]:
    """An execution of the task, through as many sleeps as it has."""
    handle = await kit.submit(task)
    await kit.run_until_idle(worker)
    while await handle.status() == "suspended":
        await kit.sleep_through(handle)
        await kit.run_until_idle(worker)
    return handle


async def recorded(kit: FabricKit, handle: Handle[Any]) -> list[tuple[str, int]]:
    """Steps and failures by name and number."""
    steps = (await kit.backend.read_steps(c.ReadStepsArgs(execution_id=handle.id))).steps
    return [
        (each.name, each.occurrence)
        for each in steps
        if each.name.startswith(FAILED_STEPS) or not each.name.startswith(RESERVED)
    ]


async def test_every_pass_sees_the_failures_of_the_first(fabric_kit: FabricKit, worker: Worker, calls: Calls) -> None:
    calls.failing = {"send": 1}
    seen: list[list[str]] = []

    @worker.task
    async def handler(ctx: Context) -> None:
        said = []
        for _ in range(3):
            try:
                said.append(await ctx.step("send", calls.do, "send"))
            except ValueError as error:
                said.append(f"no: {error}")
        seen.append(said)
        await ctx.sleep(1)

    handle = await run(fabric_kit, worker, handler)
    assert await handle is None
    assert seen == [["no: send 1", "send 2", "send 3"]] * 2
    assert calls.made["send"] == 3
    assert await recorded(fabric_kit, handle) == [("send", 0), ("send", 1), (FAILED_STEPS + "send", 0)]


@pytest.mark.parametrize("goes_on_with", ["step", "wait"])
async def test_a_handler_that_went_on_from_a_failure_comes_to_its_wait_again(
    fabric_kit: FabricKit, worker: Worker, calls: Calls, goes_on_with: str
) -> None:
    calls.failing = {"charge": 1}

    @worker.task
    async def handler(ctx: Context) -> str:
        try:
            return await ctx.step("charge", calls.do, "charge")
        except ValueError:
            if goes_on_with == "step":
                await ctx.step("apologise", calls.do, "sorry")
            return str((await ctx.wait_for_signal("fixed")).payload)

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await handle.signal("fixed", "by hand")
    await fabric_kit.run_until_idle(worker)
    assert await handle == "by hand"
    assert calls.made["charge"] == 1


async def test_steps_of_one_name_keep_their_own_results_around_one_that_failed(
    fabric_kit: FabricKit, worker: Worker, calls: Calls
) -> None:
    calls.failing = {"a": 1}

    @worker.task
    async def collect(ctx: Context) -> list[str]:
        found = []
        for page in ("a", "b", "c"):
            try:
                found.append(await ctx.step("fetch", lambda: calls.do(page)))  # noqa: B023 - called at once
            except ValueError:
                continue
        await ctx.sleep(1)
        return found

    assert await (await run(fabric_kit, worker, collect)) == ["b 1", "c 1"]
    assert calls.made == {"a": 1, "b": 1, "c": 1}


async def test_a_step_of_the_longest_name_may_fail_ahead_of_a_wait(
    fabric_kit: FabricKit, worker: Worker, calls: Calls
) -> None:
    calls.failing = {"send": 1}

    @worker.task
    async def handler(ctx: Context) -> str:
        with pytest.raises(InvalidInput, match="name"):
            await ctx.step("n" * 247, calls.do, "no")
        try:
            return await ctx.step("n" * 246, calls.do, "send")
        except ValueError as error:
            await ctx.sleep(1)
            return f"no: {error}"

    assert await (await run(fabric_kit, worker, handler)) == "no: send 1"


# What a later attempt does.


async def test_a_failure_that_ends_the_attempt_is_not_recorded_and_tried_again(
    fabric_kit: FabricKit, worker: Worker, calls: Calls
) -> None:
    calls.failing = {"quick": 1}
    failed = asyncio.Event()

    @worker.task(retry=AT_ONCE, changed_steps="fail")
    async def handler(ctx: Context) -> list[Any]:
        async def quick() -> str:
            try:
                return calls.do("quick")
            finally:
                failed.set()

        async def slow() -> str:
            await failed.wait()
            await asyncio.sleep(0)
            return calls.do("slow")

        steps = [asyncio.ensure_future(ctx.step(each.__name__, each)) for each in (quick, slow)]
        await asyncio.wait(steps)
        if ctx.attempt_index == 0:
            seen.extend(await recorded(fabric_kit, handle))
        return await asyncio.gather(*steps)

    seen: list[tuple[str, int]] = []
    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["quick 2", "slow 1"]
    assert seen == [("ff:failed:quick", 0), ("slow", 0)], "a mark, which raises nothing"


async def test_a_retry_does_not_repeat_what_was_tried_again_with_success(
    fabric_kit: FabricKit, worker: Worker, calls: Calls
) -> None:
    calls.failing = {"charge": 2}

    @worker.task(retry=AT_ONCE)
    async def persistent(ctx: Context) -> str:
        said = ""
        while not said:
            try:
                said = await ctx.step("charge", calls.do, "charge")
            except ValueError:
                continue
        if ctx.attempt_index == 0:
            raise OSError("no route")
        await ctx.sleep(1)
        return said + await ctx.step("charge", calls.do, ", next")

    handle = await run(fabric_kit, worker, persistent)
    assert await handle == "charge 3, next 1"
    assert calls.made["charge"] == 3


async def test_steps_after_one_that_was_tried_in_vain_keep_their_results_in_a_retry(
    fabric_kit: FabricKit, worker: Worker, calls: Calls
) -> None:
    calls.failing = {"a": 2}

    @worker.task(retry=AT_ONCE)
    async def collect(ctx: Context) -> list[str]:
        found = []
        for page in ("a", "b", "c"):
            for _ in range(2):
                try:
                    found.append(await ctx.step("fetch", calls.do, page))
                    break
                except ValueError:
                    continue
        await ctx.sleep(1)
        if ctx.attempt_index == 0:
            raise OSError("no route")
        return found

    assert await (await run(fabric_kit, worker, collect)) == ["a 3", "b 1", "c 1"]
    assert calls.made == {"a": 3, "b": 1, "c": 1}


async def test_who_snoozes_after_a_failure_tries_again(fabric_kit: FabricKit, worker: Worker, calls: Calls) -> None:
    calls.failing = {"poll": 2}

    @worker.task
    async def handler(ctx: Context) -> str:
        await ctx.sleep(1)
        try:
            return await ctx.step("poll", calls.do, "poll")
        except ValueError:
            await ctx.step("note", calls.do, "note")
            raise Snooze(for_=60) from None

    handle = await run(fabric_kit, worker, handler)
    for _ in range(2):
        await fabric_kit.advance(61)
        await fabric_kit.run_until_idle(worker)
    assert await handle == "poll 3"


async def test_a_killed_worker_does_not_repeat_it_either(fabric_kit: FabricKit, worker: Worker, calls: Calls) -> None:
    calls.failing = {"charge": 1}

    @worker.task
    async def handler(ctx: Context) -> str:
        for _ in range(2):
            try:
                said = await ctx.step("charge", calls.do, "charge")
                break
            except ValueError:
                continue
        if ctx.attempt_index == 0:
            await fabric_kit.kill_worker(worker)
        return said

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "charge 2"
    assert calls.made["charge"] == 2


@pytest.mark.parametrize("failures_left", [1, 2])
async def test_a_retry_runs_a_step_again_whose_failure_was_recorded(
    fabric_kit: FabricKit, worker: Worker, calls: Calls, failures_left: int
) -> None:
    calls.failing = {"charge": failures_left}

    @worker.task(retry=AT_ONCE, changed_steps="fail")
    async def handler(ctx: Context) -> str:
        try:
            said = await ctx.step("charge", calls.do, "charge")
        except ValueError:
            await ctx.step("apologise", calls.do, "sorry")
            await ctx.sleep(1)
            raise
        await ctx.step("thank", calls.do, "thanks")
        await ctx.sleep(1)
        return said

    handle = await run(fabric_kit, worker, handler)
    assert await handle == f"charge {failures_left + 1}"
    assert calls.made == {"charge": failures_left + 1, "sorry": 1, "thanks": 1}


async def test_a_failure_with_other_inputs_is_as_none(fabric_kit: FabricKit, worker: Worker, calls: Calls) -> None:
    calls.failing = {"old": 1}
    inputs = ["old", "new"]

    @worker.task
    async def handler(ctx: Context) -> str:
        try:
            said = await ctx.step("charge", calls.do, inputs.pop(0))
        except ValueError:
            said = "failed"
        if said == "failed":
            await ctx.sleep(1)
        return said

    assert await (await run(fabric_kit, worker, handler)) == "new 1"


async def test_a_handler_need_not_come_to_a_step_that_failed_again(
    fabric_kit: FabricKit, worker: Worker, calls: Calls
) -> None:
    calls.failing = {"old": 1}
    versions = ["old", "new"]

    @worker.task(changed_steps="fail")
    async def handler(ctx: Context) -> str:
        if versions.pop(0) == "old":
            with pytest.raises(ValueError, match="old"):
                await ctx.step("old", calls.do, "old")
        await ctx.sleep(1)
        return await ctx.step("new", calls.do, "new")

    assert await (await run(fabric_kit, worker, handler)) == "new 1"


# What is raised again.


async def raised_twice(kit: FabricKit, worker: Worker, error: Exception) -> tuple[Exception, Exception]:
    """What a handler catches when a step raises this, and in the pass after."""
    seen: list[Exception] = []

    def fails() -> None:
        raise error

    @worker.task
    async def handler(ctx: Context) -> None:
        try:
            await ctx.step("x", fails)
        except Exception as caught:
            seen.append(caught)
        await ctx.sleep(1)

    assert await (await run(kit, worker, handler)) is None
    first, second = seen
    assert first is error
    assert second is not error
    return first, second


async def test_a_failure_is_raised_again_as_its_type(fabric_kit: FabricKit, worker: Worker) -> None:
    _, again = await raised_twice(fabric_kit, worker, Declined(51, by="the bank"))
    assert type(again) is Declined
    assert (str(again), again.code) == ("declined by the bank", 51)
    assert not hasattr(again, "bank"), "what JSON cannot keep is not there"


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a"),
        OSError("no route"),
        ValueError(),
        InvalidInput("size", 7, "must be 8"),
        BackendUnavailable("away", sent=False),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_a_failure_says_the_same_again(fabric_kit: FabricKit, worker: Worker, error: Exception) -> None:
    first, again = await raised_twice(fabric_kit, worker, error)
    assert type(again) is type(first)
    assert str(again) == str(first)
    assert vars(again) == vars(first)


async def test_a_failure_of_a_type_that_is_not_loaded_is_told_by_name(fabric_kit: FabricKit, worker: Worker) -> None:
    gone = type("Gone", (Exception,), {"__module__": "an.old.module"})
    _, again = await raised_twice(fabric_kit, worker, gone("for good"))
    assert isinstance(again, StepFailed)
    assert str(again) == "step x#0 failed with an.old.module.Gone: for good"
    assert (again.step, again.kind, again.message) == ("x#0", "an.old.module.Gone", "for good")


async def test_a_failure_that_cannot_be_made_again_is_told_by_name(fabric_kit: FabricKit, worker: Worker) -> None:
    _, again = await raised_twice(fabric_kit, worker, ExceptionGroup("both", [ValueError(1), ValueError(2)]))
    assert isinstance(again, StepFailed)
    assert "both (2 sub-exceptions)" in str(again)


async def test_what_a_step_says_to_the_worker_is_no_failure(fabric_kit: FabricKit, worker: Worker) -> None:
    passes: list[int] = []

    def fails() -> None:
        raise Cancel("enough")

    @worker.task
    async def handler(ctx: Context) -> None:
        passes.append(1)
        try:
            await ctx.step("x", fails)
        except Cancel:
            await ctx.sleep(1)
            raise

    handle = await run(fabric_kit, worker, handler)
    with pytest.raises(ExecutionCancelled):
        await handle
    assert await recorded(fabric_kit, handle) == []

"""Durable steps: what a handler has done is not done again, however often it is run from its top."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from flowfabric import Context, ExecutionFailed, Handle, RetryPolicy, Worker
from flowfabric.client.tasks.options import ChangedSteps
from flowfabric.core import contracts as c
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import InvalidInput
from flowfabric.testing import FabricKit
from tests.worker_tasks import asks_for_a_step, cpu_worker

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

AT_ONCE = RetryPolicy(max_retries=3, backoff=FixedBackoff(delay_ms=0))


@dataclass
class Plan:
    topic: str
    pages: tuple[int, ...]


class Deeds:
    """What was done to the world, counted."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.threads: set[str] = set()

    def do(self, what: str) -> str:
        self.done[what] += 1
        self.threads.add(threading.current_thread().name)
        return f"{what} {self.done[what]}"

    async def do_async(self, what: str) -> str:
        await asyncio.sleep(0)
        return self.do(what)


@pytest.fixture
def deeds() -> Deeds:
    return Deeds()


@pytest.fixture
def worker() -> Worker:
    return Worker(worker_instance_id="worker-1")


async def records_of(kit: FabricKit, handle: Handle[Any]) -> list[c.StepRecord]:
    return list((await kit.backend.read_steps(c.ReadStepsArgs(execution_id=handle.id))).steps)


async def test_a_step_is_done_once_over_waits_retries_and_a_killed_worker(
    fabric_kit: FabricKit, worker: Worker, deeds: Deeds
) -> None:
    passes: list[int] = []

    @worker.task(retry=AT_ONCE)
    async def research(ctx: Context) -> list[str]:
        passes.append(ctx.attempt_index)
        said = [await ctx.step("plan", deeds.do, "plan")]
        if len(passes) == 1:
            raise OSError("no route")
        said.append(await ctx.step("draft", deeds.do_async, "draft"))
        if len(passes) == 2:
            await fabric_kit.kill_worker(worker)
        await ctx.sleep(60)
        said.append(await ctx.step("post", deeds.do, "post"))
        return said

    handle = await fabric_kit.submit(research)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)  # the lease of the killed one runs out
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["plan 1", "draft 1", "post 1"]
    assert deeds.done == {"plan": 1, "draft": 1, "post": 1}
    assert passes == [0, 1, 2, 2], "the last attempt waited, and went on"


async def test_a_killed_worker_between_a_step_and_its_record_runs_it_again(
    fabric_kit: FabricKit, worker: Worker, deeds: Deeds
) -> None:
    @worker.task
    async def fragile(ctx: Context) -> str:
        async def dies() -> str:
            said = deeds.do("charge")
            if deeds.done["charge"] == 1:
                await fabric_kit.kill_worker(worker)
            return said

        return await ctx.step("charge", dies)

    handle = await fabric_kit.submit(fragile)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "charge 2", "at least once, as user code is run"


async def test_every_pass_sees_the_record_typed(fabric_kit: FabricKit, worker: Worker) -> None:
    seen: list[object] = []

    def plan(topic: str) -> Plan:
        return Plan(topic, [1, 2])  # type: ignore[arg-type]  # JSON has no tuples

    @worker.task
    async def typed(ctx: Context) -> None:
        seen.append(await ctx.step("plan", plan, "tides"))
        seen.append(await ctx.step("pages", lambda: (1, 2), returns=tuple[int, int]))
        seen.append(await ctx.step("plain", lambda: {"a": (1, 2)}))
        seen.append(await ctx.step("made", timedelta, 1))
        await ctx.sleep(1)

    handle = await fabric_kit.submit(typed)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    once = [Plan("tides", (1, 2)), (1, 2), {"a": [1, 2]}, timedelta(days=1)]
    assert seen == [*once, *once]


async def test_plain_functions_run_in_threads_with_the_handlers_context(
    fabric_kit: FabricKit, worker: Worker, deeds: Deeds
) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    @worker.task
    async def handler(ctx: Context) -> list[str]:
        name.set("mine")
        return [await ctx.step("name", name.get), await ctx.step("do", deeds.do, "it")]

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["mine", "it 1"]
    assert all(each.startswith("flowfabric-handler") for each in deeds.threads)


async def test_steps_go_beside_each_other(fabric_kit: FabricKit, worker: Worker, deeds: Deeds) -> None:
    together = threading.Barrier(3)

    def fetch(page: int) -> str:
        together.wait(30)
        return deeds.do(f"page {page}")

    @worker.task
    async def gathering(ctx: Context) -> list[str]:
        pages = await asyncio.gather(*(ctx.step("fetch", fetch, page) for page in range(3)))
        async with asyncio.TaskGroup() as group:
            notes = [group.create_task(ctx.step("note", deeds.do_async, f"note {each}")) for each in range(2)]
        await ctx.sleep(1)
        return [*pages, *(note.result() for note in notes)]

    handle = await fabric_kit.submit(gathering)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["page 0 1", "page 1 1", "page 2 1", "note 0 1", "note 1 1"]


async def test_what_a_step_raises_is_the_handlers_and_a_repetition_is_the_same_step(
    fabric_kit: FabricKit, worker: Worker, deeds: Deeds
) -> None:
    def flaky(what: str) -> str:
        said = deeds.do(what)
        if deeds.done[what] == 1:
            raise ConnectionError("try again")
        return said

    @worker.task
    async def persistent(ctx: Context) -> str:
        said = ""
        while not said:
            try:
                said = await ctx.step("charge", lambda: flaky("charge"))  # another function each time
            except ConnectionError:
                continue
        await ctx.sleep(1)
        return said + await ctx.step("charge", deeds.do, ", next")

    handle = await fabric_kit.submit(persistent)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle == "charge 2, next 1"
    assert [(each.name, each.occurrence) for each in await records_of(fabric_kit, handle)] == [
        ("charge", 0), ("ff:failed:charge", 0), ("charge", 1),
    ]  # fmt: skip


async def test_another_step_of_the_name_of_one_that_failed_is_another_step(
    fabric_kit: FabricKit, worker: Worker
) -> None:
    calls: list[str] = []

    def fetch(page: str) -> str:
        calls.append(page)
        if page == "a" and calls.count("a") == 1:
            raise LookupError(page)
        return page.upper()

    @worker.task
    async def collect(ctx: Context) -> list[str]:
        found = []
        for page in ("a", "b", "c"):
            try:
                found.append(await ctx.step("fetch", fetch, page))
            except LookupError:
                continue
        await ctx.sleep(1)
        return found

    handle = await fabric_kit.submit(collect)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["B", "C"], "nobody has another's result"
    assert calls == ["a", "b", "c"]


async def test_a_result_that_cannot_be_recorded_names_the_step(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(retry=AT_ONCE)
    async def large(ctx: Context) -> None:
        await ctx.step("dump", lambda: "x" * 262_143)

    @worker.task(retry=AT_ONCE)
    async def odd(ctx: Context) -> None:
        await ctx.step("client", object)

    handles = [await fabric_kit.submit(large), await fabric_kit.submit(odd)]
    await fabric_kit.run_until_idle(worker)
    for handle, message in zip(handles, ("step 'dump'.*at most 262144 bytes", "step 'client'.*JSON form"), strict=True):
        with pytest.raises(ExecutionFailed, match=message):
            await handle
        snapshot = await handle.describe()
        assert (snapshot.failure_category, snapshot.total_attempt_count) == ("invalid_result", 1)


async def test_time_and_chance_are_the_same_on_every_pass(fabric_kit: FabricKit, worker: Worker) -> None:
    seen: list[Any] = []
    began = fabric_kit.now

    @worker.task
    async def handler(ctx: Context) -> None:
        seen.append((await ctx.now(), await ctx.random(), await ctx.random()))
        await ctx.sleep(3600)
        seen.append(await ctx.now())

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    first, again, later = seen
    assert first == again
    assert first[0] == began
    assert 0 <= first[1] < 1
    assert first[1] != first[2]
    assert later - first[0] == timedelta(hours=1)


async def test_a_replay_begins_without_records(fabric_kit: FabricKit, worker: Worker, deeds: Deeds) -> None:
    @worker.task
    async def handler(ctx: Context) -> list[str]:
        said = await ctx.step("do", deeds.do, "it")
        desk = await ctx.waitpoint("desk")
        answer = await ctx.wait_for_signal("go", at=desk)
        return [said, answer.payload]

    handle = await fabric_kit.submit(handler)
    for number in (1, 2):
        await fabric_kit.run_until_idle(worker)
        await handle.signal("go", f"go {number}")
        await fabric_kit.run_until_idle(worker)
        assert await handle == [f"it {number}", f"go {number}"]
        if number == 1:
            await handle.replay()


# Threads, processes, and what a step may not do.


async def test_handlers_in_threads_have_steps(fabric_kit: FabricKit, worker: Worker, deeds: Deeds) -> None:
    @worker.task
    def handler(ctx: Context) -> list[str]:
        said = ctx.wait(ctx.step("do", deeds.do, "it"))
        ctx.wait(ctx.sleep(1))
        return [said, ctx.wait(ctx.step("do", deeds.do_async, "more"))]

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["it 1", "more 1"]


async def test_a_process_has_no_steps(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(asks_for_a_step)
    await fabric_kit.run_until_idle(cpu_worker)
    with pytest.raises(ExecutionFailed, match="a CPU handler has no connection"):
        await handle


@pytest.mark.parametrize("name", ["ff:now", "", "two\nlines", "x" * 257])
async def test_names_that_cannot_be_recorded_are_refused(fabric_kit: FabricKit, worker: Worker, name: str) -> None:
    @worker.task
    async def handler(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match="name"):
            await ctx.step(name, int)
        with pytest.raises(InvalidInput, match="was"):
            await ctx.step("fine", int, was=name)

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle is None


async def test_a_step_has_no_records_of_its_own(fabric_kit: FabricKit, worker: Worker) -> None:
    refused: list[str] = []

    @worker.task
    async def handler(ctx: Context) -> None:
        async def nested() -> None:
            for call in (lambda: ctx.step("inner", int), ctx.now, lambda: ctx.wait_for_signal("x")):
                with pytest.raises(InvalidInput, match="recorded as a whole") as error:
                    await call()
                refused.append(error.value.field)
            ctx.progress(50)  # what is no record is fine

        await ctx.step("outer", nested)
        await ctx.step("inner", int)

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle is None
    assert refused == ["ctx.step", "ctx.now", "ctx.wait_for_signal"]


async def test_a_coroutine_in_place_of_a_function_is_refused(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task
    async def handler(ctx: Context) -> None:
        with pytest.raises(InvalidInput, match="arguments follow it"):
            await ctx.step("x", asyncio.sleep(0))  # type: ignore[call-overload]

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert await handle is None


# What changes between versions.


class Versions:
    """Two versions of a handler, the second one on a worker that comes when the first has recorded its steps."""

    def __init__(self, kit: FabricKit, deeds: Deeds, choice: ChangedSteps = "keep") -> None:
        self.kit, self.deeds = kit, deeds
        self.old, self.new = Worker(worker_instance_id="old"), Worker(worker_instance_id="new")

        @self.old.task(name="publish")
        async def before(ctx: Context) -> list[str]:
            said = [await ctx.step("plan", deeds.do, "plan"), await ctx.step("draft", deeds.do, "draft")]
            await ctx.sleep(1)
            return said

        self.before = before
        self.options: dict[str, Any] = {"name": "publish", "retry": AT_ONCE, "changed_steps": choice}

    async def run(self, tag: str | None = None) -> Handle[Any]:
        handle = await self.kit.submit(self.before)
        await self.kit.run_until_idle(self.old)
        if tag is not None:
            await handle.change(tags={"flowfabric.changed_steps": tag})
        await self.kit.sleep_through(handle)
        await self.kit.run_until_idle(self.new)
        return handle


async def test_the_record_of_a_step_with_other_inputs_is_kept_and_warned_of(
    fabric_kit: FabricKit, deeds: Deeds, caplog: pytest.LogCaptureFixture
) -> None:
    versions = Versions(fabric_kit, deeds)

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        return [await ctx.step("plan", deeds.do, "better plan"), await ctx.step("draft", deeds.do, "draft")]

    with caplog.at_level(logging.WARNING, "flowfabric.worker"):
        assert await (await versions.run()) == ["plan 1", "draft 1"]
    (line,) = caplog.messages
    assert "step plan#0" in line
    assert "other inputs" in line


@pytest.mark.parametrize(("choice", "tag"), [("rerun", None), ("keep", "rerun"), ("fail", "rerun")])
async def test_a_step_with_other_inputs_can_be_run_again(
    fabric_kit: FabricKit, deeds: Deeds, choice: ChangedSteps, tag: str | None
) -> None:
    versions = Versions(fabric_kit, deeds, choice)

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        said = [await ctx.step("plan", deeds.do, "better"), await ctx.step("draft", deeds.do, "draft")]
        await ctx.sleep(1)
        await ctx.sleep(1)
        return said

    handle = await versions.run(tag)
    await fabric_kit.sleep_through(handle)
    await fabric_kit.run_until_idle(versions.new)
    assert await handle == ["better 1", "draft 1"], "and the new record counts from then on"
    assert [each.name for each in await records_of(fabric_kit, handle)][:2] == ["plan", "draft"]


@pytest.mark.parametrize(("choice", "tag"), [("fail", None), ("keep", "fail")])
async def test_a_step_with_other_inputs_can_fail_the_execution(
    fabric_kit: FabricKit, deeds: Deeds, choice: ChangedSteps, tag: str | None
) -> None:
    versions = Versions(fabric_kit, deeds, choice)

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        async with asyncio.TaskGroup() as group:
            said = group.create_task(ctx.step("plan", deeds.do, "better"))
        return [said.result()]

    handle = await versions.run(tag)
    with pytest.raises(ExecutionFailed, match="step plan#0 was recorded with other inputs; changed_steps is 'fail'"):
        await handle
    assert (await handle.describe()).failure_category == "step_changed"
    assert deeds.done["better"] == 0


async def test_a_choice_that_is_none_fails_clearly(fabric_kit: FabricKit, deeds: Deeds) -> None:
    versions = Versions(fabric_kit, deeds)

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> str:
        return await ctx.step("plan", deeds.do, "better")

    handle = await versions.run("maybe")
    with pytest.raises(ExecutionFailed, match=r"flowfabric\.changed_steps: must be one of safe, keep, rerun, fail"):
        await handle


async def test_a_renamed_step_is_found_under_the_name_it_had(fabric_kit: FabricKit, deeds: Deeds) -> None:
    versions = Versions(fabric_kit, deeds, "fail")

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        outline = await ctx.step("outline", deeds.do, "plan", was="plan")
        return [outline, await ctx.step("draft", deeds.do, "draft")]

    assert await (await versions.run()) == ["plan 1", "draft 1"]


async def test_with_fail_a_name_that_has_changed_fails_the_execution(fabric_kit: FabricKit, deeds: Deeds) -> None:
    versions = Versions(fabric_kit, deeds, "fail")

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        return [await ctx.step("outline", deeds.do, "outline"), await ctx.step("draft", deeds.do, "draft")]

    handle = await versions.run()
    with pytest.raises(ExecutionFailed, match="step outline#0 has no record, while step 'plan' is recorded"):
        await handle
    assert (await handle.describe()).failure_category == "step_changed"


async def test_otherwise_a_new_name_is_a_new_step(fabric_kit: FabricKit, deeds: Deeds) -> None:
    versions = Versions(fabric_kit, deeds)

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        return [await ctx.step("outline", deeds.do, "outline"), await ctx.step("draft", deeds.do, "draft")]

    assert await (await versions.run()) == ["outline 1", "draft 1"]


async def test_with_fail_steps_beside_each_other_may_be_recorded_in_any_order(
    fabric_kit: FabricKit, worker: Worker, deeds: Deeds
) -> None:
    @worker.task(changed_steps="fail")
    async def handler(ctx: Context) -> list[str]:
        async def slow() -> str:
            if not deeds.done["slow"]:
                deeds.do("slow")
                await fabric_kit.kill_worker(worker)
            return deeds.do("slow")

        async def branch(name: str, call: Any) -> str:
            said: str = await ctx.step(name, call)
            return said

        await ctx.step("first", deeds.do, "first")
        return await asyncio.gather(branch("slow", slow), branch("quick", lambda: deeds.do("quick")))  # type: ignore[return-value]

    handle = await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    await fabric_kit.advance(60)
    await fabric_kit.run_until_idle(worker)
    assert await handle == [f"{each} {deeds.done[each]}" for each in ("slow", "quick")]


async def test_a_record_that_cannot_be_read_any_more_fails_clearly_or_is_made_again(
    fabric_kit: FabricKit, deeds: Deeds
) -> None:
    versions = Versions(fabric_kit, deeds)

    @versions.new.task(**versions.options)
    async def after(ctx: Context) -> list[str]:
        return [str(await ctx.step("plan", lambda _: 7, "plan", returns=int))]

    handle = await versions.run()
    with pytest.raises(ExecutionFailed, match="step plan#0 cannot be read as recorded"):
        await handle
    assert await (await versions.run("rerun")) == ["7"]

"""`handle.fork()`: try another way from a step on, without doing again what came before it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowfabric import Context, SyncFabric, Worker
from flowfabric.errors import Conflict, InvalidInput
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

done: Counter[str] = Counter()


def think(what: str) -> str:
    done[what] += 1
    return f"{what} {done[what]}"


@pytest.fixture
def worker() -> Worker:
    done.clear()
    made = Worker(worker_instance_id="worker-1")

    @made.task(name="write")
    async def write(ctx: Context, topic: str, tone: str = "dry") -> list[str]:
        plan = await ctx.step("plan", think, f"plan {topic}")
        said = (await ctx.wait_for_signal("ok", type=str)).payload
        draft = await ctx.step("draft", think, f"draft {tone} of {plan}")
        more = (await ctx.wait_for_signal("more", type=str)).payload
        return [plan, said, draft, more, await ctx.step("print", think, "print")]

    return made


async def written(kit: FabricKit, worker: Worker) -> Any:
    handle = await kit.submit("write", "tides")
    await kit.run_until_idle(worker)
    for name, answer in (("ok", "yes"), ("more", "no")):
        await handle.signal(name, answer)
        await kit.run_until_idle(worker)
    return handle


async def test_a_fork_begins_with_the_steps_and_answers_before_the_step(fabric_kit: FabricKit, worker: Worker) -> None:
    handle = await written(fabric_kit, worker)
    done.clear()
    fork = await handle.fork("draft", input={"topic": "tides", "tone": "warm"})
    await fabric_kit.run_until_idle(worker)
    assert await fork.status() == "suspended", "an answer to the old draft is none to the new one"
    assert done == {"draft warm of plan tides 1": 1}
    await fork.signal("more", "maybe")
    await fabric_kit.run_until_idle(worker)
    assert await fork == ["plan tides 1", "yes", "draft warm of plan tides 1 1", "maybe", "print 1"]
    assert (await handle.result())[2] == "draft dry of plan tides 1 1"
    assert (await fork.describe()).tags == {"flowfabric.forked_from": str(handle.id)}


async def test_a_fork_from_the_last_step_has_the_latest_answer(fabric_kit: FabricKit, worker: Worker) -> None:
    handle = await written(fabric_kit, worker)
    done.clear()
    fork = await handle.fork(("print", 0))
    await fabric_kit.run_until_idle(worker)
    assert (await fork.result())[3:] == ["no", "print 1"]
    assert done == {"print": 1}


async def test_a_fork_of_all_records_does_nothing_again(fabric_kit: FabricKit, worker: Worker) -> None:
    handle = await written(fabric_kit, worker)
    done.clear()
    fork = await handle.fork()
    await fabric_kit.run_until_idle(worker)
    assert await fork.result() == await handle.result()
    assert done == {}


async def test_a_recorded_result_can_be_another_one(fabric_kit: FabricKit, worker: Worker) -> None:
    handle = await written(fabric_kit, worker)
    fork = await handle.fork("draft", changed={"plan": "a better plan"})
    await fabric_kit.run_until_idle(worker)
    await fork.signal("more", "yes")
    await fabric_kit.run_until_idle(worker)
    assert (await fork.result())[:3] == ["a better plan", "yes", "draft dry of a better plan 1"]


async def test_a_suspended_execution_can_be_forked(fabric_kit: FabricKit, worker: Worker) -> None:
    handle = await fabric_kit.submit("write", "tides")
    await fabric_kit.run_until_idle(worker)
    fork = await handle.fork()
    await fabric_kit.run_until_idle(worker)
    assert (await handle.status(), await fork.status()) == ("suspended", "suspended")
    assert done == {"plan tides": 1}


async def test_bad_input_makes_no_fork(fabric_kit: FabricKit, worker: Worker) -> None:
    handle = await written(fabric_kit, worker)
    for given, problem in (
        ({"from_step": "nothing"}, "plan#0, draft#0, print#0"),
        ({"from_step": 3}, "name and occurrence"),
        ({"from_step": "draft", "changed": {"print": 1}}, "recorded before from_step"),
        ({"input": "tides"}, "mapping by name"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            await handle.fork(**given)
    assert len((await fabric_kit.list()).executions) == 1


async def test_a_fork_of_a_member_has_the_results_that_it_was_given(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(name="first")
    async def first() -> str:
        return "from first"

    @worker.task(name="second")
    async def second(ctx: Context, given: str) -> str:
        return await ctx.step("say", think, given)

    async with fabric_kit.flow("two") as flow:
        node = flow.add(second, flow.add(first))
    await fabric_kit.run_until_idle(worker)
    fork = await flow.handle.node(node).fork("say")
    await fabric_kit.run_until_idle(worker)
    assert await fork == "from first 2"


async def test_the_output_of_a_fork_has_that_of_the_steps_before(fabric_kit: FabricKit, worker: Worker) -> None:
    @worker.task(name="talk")
    async def talk(ctx: Context, word: str = "dry") -> None:
        async def say(text: str) -> None:
            ctx.emit(text)

        await ctx.step("plan", say, "plan ")
        await ctx.step("draft", say, f"{word} draft")

    handle = await fabric_kit.submit("talk")
    await fabric_kit.run_until_idle(worker)
    fork = await handle.fork("draft", input=["warm"])
    await fabric_kit.run_until_idle(worker)
    assert await text_of(handle) == "plan dry draft"
    assert await text_of(fork) == "plan warm draft"


async def text_of(handle: Any) -> str:
    text = ""
    async for item in handle.stream():
        text = "" if item.is_reset else text + (item.text or "")
    return text


async def test_a_running_execution_is_not_forked(fabric_kit: FabricKit) -> None:
    worker = Worker(worker_instance_id="worker-1")
    refused: list[str] = []

    @worker.task
    async def handler(ctx: Context) -> None:
        try:
            await fabric_kit.handle(ctx.execution_id).fork()
        except Conflict as error:
            refused.append(str(error))

    await fabric_kit.submit(handler)
    await fabric_kit.run_until_idle(worker)
    assert "fork it when it waits or has ended" in refused[0]


def test_a_sync_handle_forks_too(tmp_path: Any) -> None:
    with SyncFabric.connect(f"embedded://{tmp_path}") as fabric:
        handle = fabric.submit("write", "tides")
        fork = handle.fork(input=["winds"])
        assert fork.describe().tags == {"flowfabric.forked_from": str(handle.id)}

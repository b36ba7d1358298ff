"""`handle.retry()`: nothing that a failed execution has done is done again; `replay` starts from nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from flowfabric import Context, ExecutionFailed, Worker
from flowfabric.errors import Conflict
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


class World:
    """What was done to the world, counted; `broken` makes the last deed fail."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.broken = True

    def do(self, what: str) -> str:
        self.done[what] += 1
        return what

    def ship(self) -> str:
        if self.broken:
            raise RuntimeError("no truck")
        return self.do("ship")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def worker(world: World) -> Worker:
    made = Worker(worker_instance_id="worker-1")

    @made.task(name="order")
    async def order(ctx: Context) -> list[str]:
        paid = await ctx.step("charge", world.do, "charge")
        answer = await ctx.wait_for_signal("packed", type=str)
        return [paid, answer.payload, await ctx.step("ship", world.ship)]

    return made


async def test_steps_and_answers_are_kept(fabric_kit: FabricKit, worker: Worker, world: World) -> None:
    handle = await fabric_kit.submit("order")
    await fabric_kit.run_until_idle(worker)
    await handle.signal("packed", "in a box")
    await fabric_kit.run_until_idle(worker)
    with pytest.raises(ExecutionFailed, match="no truck"):
        await handle
    world.broken = False
    await handle.retry()
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["charge", "in a box", "ship"]
    assert world.done == {"charge": 1, "ship": 1}
    with pytest.raises(Conflict, match="replay a completed one"):
        await handle.retry()


async def test_a_wait_that_was_cancelled_begins_again(fabric_kit: FabricKit, worker: Worker, world: World) -> None:
    world.broken = False
    handle = await fabric_kit.submit("order")
    await fabric_kit.run_until_idle(worker)
    await handle.cancel("wrong click")
    await handle.retry()
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    await handle.signal("packed", "in a bag")
    await fabric_kit.run_until_idle(worker)
    assert await handle == ["charge", "in a bag", "ship"]
    assert world.done == {"charge": 1, "ship": 1}


async def test_a_replay_starts_from_nothing(fabric_kit: FabricKit, worker: Worker, world: World) -> None:
    handle = await fabric_kit.submit("order")
    await fabric_kit.run_until_idle(worker)
    await handle.signal("packed", "in a box")
    await fabric_kit.run_until_idle(worker)
    await handle.replay()
    await fabric_kit.run_until_idle(worker)
    assert await handle.status() == "suspended"
    assert world.done["charge"] == 2

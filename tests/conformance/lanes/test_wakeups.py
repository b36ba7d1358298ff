"""listen_for_work and announce_work: workers hear where there is work, and that they must look when they were deaf."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.backends.ports import EngineBackend, WorkListener
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, PartitionFamily, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.errors import BackendUnavailable, InvalidCapabilities, InvalidInput
from tests.conformance.driver import BACKOFF, LANE, TTL, Driver, Subject
from tests.stores.probe import Probe

pytestmark = pytest.mark.every_store

OTHER = LaneId("other")
MARKER = LaneId("marker")
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu", "large")))

Heard = frozenset[tuple[LaneId, Partition]]


def at(driver: Driver, lane: LaneId = LANE) -> tuple[LaneId, Partition]:
    return lane, lane_partitions(lane, driver.backend.partitions)[0]


@asynccontextmanager
async def listening(backend: EngineBackend, *lanes: LaneId, capabilities: tuple[str, ...] = ()) -> AsyncIterator[Any]:
    """A listener that has looked everywhere once, as everybody must."""
    async with backend.listen_for_work(lanes or (LANE,), capabilities) as listener:
        assert await heard(listener) == frozenset()
        yield listener


async def heard(listener: WorkListener) -> Heard:
    async with asyncio.timeout(20):
        return await listener.wait()


async def until(listener: WorkListener, wanted: tuple[LaneId, Partition]) -> Heard:
    """Everything that was heard until this was."""
    found: Heard = frozenset()
    while wanted not in found:
        found |= await heard(listener)
    return found


async def test_the_first_wait_returns_at_once_and_says_look_everywhere(driver: Driver) -> None:
    await driver.create()
    async with driver.backend.listen_for_work([LANE]) as listener:
        assert await heard(listener) == frozenset()


async def test_new_work_is_heard_where_it_is(driver: Driver) -> None:
    async with listening(driver.backend, LANE, OTHER) as listener:
        await driver.create()
        assert await heard(listener) == {at(driver)}
        await driver.create(lane_id=OTHER)
        assert await heard(listener) == {at(driver, OTHER)}


async def test_what_was_announced_between_two_waits_is_heard_together(driver: Driver) -> None:
    async with listening(driver.backend, LANE, OTHER) as first, listening(driver.backend, LANE, OTHER) as second:
        x = await driver.create()
        await driver.run(x)
        await driver.delay(x, driver.clock.now_ms)
        await driver.create(lane_id=OTHER)
        assert await until(second, at(driver, OTHER)) >= {at(driver, OTHER)}
        assert await until(first, at(driver, OTHER)) == {at(driver), at(driver, OTHER)}


async def test_only_the_first_of_a_queue_is_announced(driver: Driver) -> None:
    async with listening(driver.backend, LANE, MARKER) as listener:
        await driver.create()
        assert await heard(listener) == {at(driver)}
        await driver.create()
        await driver.create(lane_id=MARKER)
        assert await until(listener, at(driver, MARKER)) == {at(driver, MARKER)}


async def test_a_batch_announces_a_queue_that_was_empty(driver: Driver) -> None:
    batch = [
        c.CreateExecutionArgs(
            execution_id=driver.mint(lane), namespace="tests", lane_id=lane, execution_kind="kind"  # type: ignore[arg-type]
        )
        for lane in (LANE, OTHER)
        for _ in range(20)
    ]  # fmt: skip
    async with listening(driver.backend, LANE, OTHER) as listener:
        await driver.backend.submit_executions(batch)
        found: Heard = frozenset()
        while len(found) < 2:
            found |= await heard(listener)
        assert found == {at(driver), at(driver, OTHER)}


async def test_lanes_of_others_are_not_heard(driver: Driver) -> None:
    async with listening(driver.backend, OTHER) as listener:
        await driver.create()
        await driver.create(lane_id=OTHER)
        assert await heard(listener) == {at(driver, OTHER)}


async def test_work_is_heard_by_those_who_can_run_it(driver: Driver) -> None:
    async with (
        listening(driver.backend, LANE, MARKER, capabilities=("cpu", "gpu")) as lacking,
        listening(driver.backend, LANE, MARKER, capabilities=("cpu", "gpu", "large")) as capable,
    ):
        await driver.create(policy=GPU)
        assert await heard(capable) == {at(driver)}
        await driver.create(lane_id=MARKER)
        assert await until(lacking, at(driver, MARKER)) == {at(driver, MARKER)}


WAYS_INTO_THE_QUEUE: dict[str, tuple[Situation, Callable[[Driver, Subject], Awaitable[object]]]] = {
    "promote": (Situation.DELAYED, lambda d, x: _later(d, BACKOFF, lambda: d.promote(x))),
    "unblock": (Situation.BLOCKED_BY_BUDGET, lambda d, x: d.unblock(x)),
    "replay": (Situation.COMPLETED, lambda d, x: d.replay(x)),
    "delay until now": (Situation.ACTIVE, lambda d, x: d.delay(x, d.clock.now_ms)),
    "lost lease": (Situation.ACTIVE, lambda d, x: _later(d, TTL, lambda: _due(d, x))),
    "due delay": (Situation.RETRY_BACKOFF, lambda d, x: _later(d, BACKOFF, lambda: _due(d, x))),
}


async def _later(driver: Driver, ms: int, call: Callable[[], Awaitable[object]]) -> object:
    await driver.clock.advance(ms)
    return await call()


async def _due(driver: Driver, x: Subject) -> object:
    partition = Partition(PartitionFamily.FLOW, x.execution_id.partition_index)
    return await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))


@pytest.mark.parametrize("way", WAYS_INTO_THE_QUEUE)
async def test_every_way_into_the_queue_is_heard(driver: Driver, way: str) -> None:
    situation, go = WAYS_INTO_THE_QUEUE[way]
    x = await driver.reach(situation)
    async with listening(driver.backend) as listener:
        await go(driver, x)
        assert await heard(listener) == {at(driver)}


async def set_lane(driver: Driver, state: str) -> None:
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))  # type: ignore[arg-type]


async def test_a_lane_that_is_open_again_is_announced(driver: Driver) -> None:
    await set_lane(driver, "paused")
    await driver.create()
    await driver.create(policy=GPU)
    async with listening(driver.backend) as listener, listening(driver.backend, capabilities=("gpu", "large")) as both:
        await set_lane(driver, "active")
        assert await heard(listener) == {at(driver)}
        assert await heard(both) == {at(driver)}


async def test_work_can_be_announced_again(driver: Driver) -> None:
    await driver.create()
    await driver.create(policy=GPU)
    await driver.create(lane_id=OTHER)
    async with listening(driver.backend, LANE, OTHER) as listener:
        assert await driver.backend.announce_work(at(driver)[1]) == 2
        assert await heard(listener) == {at(driver)}


@pytest.mark.parametrize(("state", "announced"), [("paused", 0), ("disabled", 0), ("draining", 1), ("active", 1)])
async def test_a_lane_that_starts_nothing_is_not_announced(driver: Driver, state: str, announced: int) -> None:
    await driver.create()
    await set_lane(driver, state)
    assert await driver.backend.announce_work(at(driver)[1]) == announced


async def test_an_empty_partition_has_nothing_to_announce(driver: Driver) -> None:
    assert await driver.backend.announce_work(at(driver)[1]) == 0


async def test_only_partitions_of_executions_are_announced(driver: Driver) -> None:
    for partition in (Partition(PartitionFamily.BUDGET, 0), Partition(PartitionFamily.FLOW, 256)):
        with pytest.raises(InvalidInput, match="partition"):
            await driver.backend.announce_work(partition)


async def test_who_was_deaf_is_told_to_look_everywhere_and_hears_again(driver: Driver) -> None:
    async with listening(driver.backend) as first, listening(driver.backend) as second:
        for _ in range(3):
            await driver.probe.cut()
            assert await heard(first) == frozenset()
            assert await heard(second) == frozenset()
        await driver.create()
        assert await heard(first) == {at(driver)}
        assert await heard(second) == {at(driver)}


async def test_a_wait_that_is_cancelled_loses_nothing(driver: Driver) -> None:
    async with listening(driver.backend) as listener:
        task = asyncio.create_task(listener.wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await driver.create()
        assert await heard(listener) == {at(driver)}


async def test_bad_lanes_and_capabilities_are_refused(driver: Driver) -> None:
    for lanes in ((), "default", [""]):
        with pytest.raises(InvalidInput):
            async with driver.backend.listen_for_work(lanes):  # type: ignore[arg-type]
                pass
    with pytest.raises(InvalidCapabilities):
        async with driver.backend.listen_for_work([LANE], ["a b"]):
            pass


async def test_closing_the_store_ends_every_wait(probe: Probe) -> None:
    backend = await probe.another()
    async with listening(backend) as listener:
        task = asyncio.create_task(listener.wait())
        await backend.close()
        with pytest.raises(BackendUnavailable):
            await task
    with pytest.raises(BackendUnavailable):
        async with backend.listen_for_work([LANE]):
            pass

"""Claims that wait, and workers that listen for what is handed to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from flowfabric.backends.ports import WorkListener
from flowfabric.backends.valkey.library.calls import flat_to_dict
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, LaneId, Namespace, WorkerInstanceId
from flowfabric.core.partition import Partition
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import PublicState
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Subject, home
from tests.valkey.driver import Driver

MARKER = LaneId("marker")
OTHER_INSTANCE = WorkerInstanceId("worker-2")
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
BINARY = bytes(range(256))

Heard = frozenset[tuple[LaneId, Partition]]


class Listening:
    """A worker that listens, and what came for its claims."""

    def __init__(self, listener: WorkListener, handed: asyncio.Queue[tuple[str, bytes]]) -> None:
        self._listener = listener
        self._handed = handed

    async def message(self) -> tuple[str, bytes]:
        async with asyncio.timeout(20):
            return await self._handed.get()

    async def works(self, parked: b.ParkedClaim) -> list[b.ClaimedWork]:
        key, message = await self.message()
        assert key == parked.key
        return parked.read(message)

    async def heard_until(self, *wanted: tuple[LaneId, Partition]) -> Heard:
        found: Heard = frozenset()
        async with asyncio.timeout(20):
            while not found.issuperset(wanted):
                found |= await self._listener.wait()
        return found

    @property
    def has_nothing(self) -> bool:
        return self._handed.empty()


@asynccontextmanager
async def listening(driver: Driver, instance: WorkerInstanceId = INSTANCE, *lanes: LaneId) -> AsyncIterator[Listening]:
    """A worker that hears of its lanes, and of what comes for its parked claims."""
    handed: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
    put: Callable[[str, bytes], None] = lambda key, message: handed.put_nowait((key, message))  # noqa: E731
    lanes = lanes or (LANE, MARKER)
    async with driver.backend.listen_for_work(lanes, worker_instance_id=instance, on_handed=put) as listener:
        assert await listener.wait() == frozenset()
        yield Listening(listener, handed)


async def ask(driver: Driver, count: int = 4, park: int | None = 4, **changes: Any) -> b.FinishExecutionsResult:
    claim = {
        "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lease_ttl_ms": TTL, "count": count,
        "park": park, **changes,
    }  # fmt: skip
    partition = home(driver, claim["lane_id"])
    args = b.FinishExecutionsArgs(partition=partition, claim=b.ClaimExecutionsArgs(**claim))
    return await driver.backend.finish_executions(args)


async def park(driver: Driver, count: int = 4, **changes: Any) -> b.ParkedClaim:
    result = await ask(driver, count=count, park=count, **changes)
    assert result.claimed == []
    assert result.parked is not None
    return result.parked


async def submit(driver: Driver, count: int = 1, **fields: Any) -> list[ExecutionId]:
    lane = fields.get("lane_id", LANE)
    batch = [
        c.CreateExecutionArgs(
            **{
                "execution_id": driver.mint(lane),
                "namespace": Namespace("tests"),
                "lane_id": LANE,
                "execution_kind": "kind",
                "input_payload": b"%d" % number,
                **fields,
            }
        )
        for number in range(count)
    ]
    outcomes = await driver.backend.submit_executions(batch)
    assert all(isinstance(outcome, c.ExecutionCreated) for outcome in outcomes), outcomes
    return [args.execution_id for args in batch]


async def waiting(driver: Driver) -> int:
    """How many claims wait in the lane."""
    key = f"ff:idx:{home(driver).tag}:lane:{LANE}:parked"
    count = await driver.backend.client.execute("HLEN", key, key=key)
    assert isinstance(count, int)
    return count


async def record(driver: Driver, execution_id: ExecutionId) -> dict[str, str]:
    key = f"ff:exec:{execution_id.tag}:{execution_id}:core"
    return flat_to_dict(await driver.backend.client.execute("HGETALL", key, key=key))


async def events(driver: Driver, execution_id: ExecutionId) -> list[str]:
    return [event.event for event in (await driver.backend.history(execution_id)).events]


async def state(driver: Driver, execution_id: ExecutionId) -> PublicState:
    return (await driver.info(Subject(execution_id))).public_state


def told(works: list[b.ClaimedWork]) -> list[Any]:
    """All that a claim says, in values that can be compared."""
    return [(work.claim, work.execution_kind, work.input_payload, work.payload_encoding) for work in works]


def without_ids(work: b.ClaimedWork) -> dict[str, Any]:
    found = msgspec.structs.asdict(work)
    return {name: found[name] for name in found.keys() - {"execution_id", "fence", "handles"}}


async def nothing_but_the_marker_is_heard(near: Driver, worker: Listening) -> None:
    """What was handed over was not announced."""
    await submit(near, lane_id=MARKER)
    assert await worker.heard_until((MARKER, home(near, MARKER))) == {(MARKER, home(near, MARKER))}

"""A load for tests that take servers away under it: lives lived as fast as they go, with what the store answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.wire.cluster import key_slot
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError
from tests.event_log import read_lines
from tests.servers import eventually_async

TASKS = 8
DEADLINE_S = 30.0
_AT_ONCE = 200


def lanes_where(suits: Callable[[int], bool], partitions: PartitionConfig, count: int) -> list[LaneId]:
    """Lanes in as many partitions whose slots suit."""
    found: dict[str, LaneId] = {}
    for number in range(10_000):
        lane = LaneId(f"lane-{number}")
        tag = ExecutionId.for_lane(lane, partitions).tag
        if suits(key_slot(tag)):
            found.setdefault(tag, lane)
        if len(found) == count:
            return list(found.values())
    raise AssertionError("no such lanes")


class Load:
    """What was asked, what was answered, and what went wrong."""

    def __init__(self, backend: ValkeyBackend, lanes: Sequence[LaneId]) -> None:
        self.backend = backend
        self.lanes = lanes
        self.created: set[ExecutionId] = set()
        self.completed: set[ExecutionId] = set()
        self.troubles: list[tuple[str, ExecutionId, FlowFabricError]] = []
        self.enough = False

    async def live(self, offset: int) -> None:
        turn = offset
        while not self.enough:
            turn += 1
            await self._one_life(self.lanes[turn % len(self.lanes)])

    async def _one_life(self, lane: LaneId) -> None:
        execution_id = ExecutionId.for_lane(lane, self.backend.partitions)
        step = "create"
        try:
            await self.backend.create_execution(create_args(execution_id, lane))
            self.created.add(execution_id)
            step = "claim"
            claimed = await self.backend.issue_grant_and_claim(claim_args(execution_id, lane))
            step = "complete"
            done = c.CompleteExecutionArgs(execution_id=execution_id, fence=claimed.fence, result_payload=b"r")
            await self.backend.complete_execution(done)
            self.completed.add(execution_id)
        except FlowFabricError as error:
            self.troubles.append((step, execution_id, error))

    async def until_more(self, count: int, tags: set[str]) -> None:
        """Wait for so many more lives lived in these partitions."""
        goal = self.completed_in(tags) + count
        await eventually_async(lambda: self.completed_in(tags) >= goal, f"{count} more lives", DEADLINE_S)

    def completed_in(self, tags: set[str]) -> int:
        return sum(execution_id.tag in tags for execution_id in self.completed)


@asynccontextmanager
async def under_load(backend: ValkeyBackend, lanes: Sequence[LaneId]) -> AsyncIterator[Load]:
    load = Load(backend, lanes)
    lives = [asyncio.create_task(load.live(number)) for number in range(TASKS)]
    try:
        yield load
    finally:
        load.enough = True
        await asyncio.gather(*lives)


def create_args(execution_id: ExecutionId, lane: LaneId) -> c.CreateExecutionArgs:
    return c.CreateExecutionArgs(
        execution_id=execution_id, namespace=Namespace("load"), lane_id=lane, execution_kind="k", input_payload=b"in"
    )


def claim_args(execution_id: ExecutionId, lane: LaneId) -> c.IssueGrantAndClaimArgs:
    return c.IssueGrantAndClaimArgs(
        execution_id=execution_id,
        worker_id=WorkerId("w"),
        worker_instance_id=WorkerInstanceId("w-1"),
        lane_id=lane,
        lease_id=LeaseId.new(),
        lease_ttl_ms=60_000,
        attempt_id=AttemptId.new(),
    )


async def one_life(backend: ValkeyBackend) -> None:
    """Create, claim and complete one execution; whatever goes wrong is raised."""
    load = Load(backend, [LaneId("default")])
    await load._one_life(load.lanes[0])
    for _, _, error in load.troubles:
        raise error


async def states_of(backend: ValkeyBackend, ids: set[ExecutionId]) -> dict[ExecutionId, PublicState | None]:
    listed, found = sorted(ids), []
    for start in range(0, len(listed), _AT_ONCE):
        batch = listed[start : start + _AT_ONCE]
        found += await asyncio.gather(*(backend.get_execution_state(execution_id) for execution_id in batch))
    return dict(zip(listed, found, strict=True))


async def doubled(backend: ValkeyBackend, tags: set[str]) -> list[tuple[str, str]]:
    """Transitions that the partitions' event logs hold more than once for one execution."""
    seen: Counter[tuple[str, str]] = Counter()
    for tag in tags:
        for line in await read_lines(backend.client, tag):
            seen[line["execution_id"], line["event"]] += 1
    assert seen, "there are no events"
    return [what for what, times in seen.items() if times > 1]

"""kill -9 of the embedded server under load: whatever was answered is there afterwards, and nothing is doubled (G1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric import open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError
from tests.servers import kill9
from tests.soaking import examples

LANE = LaneId("default")
BEFORE_THE_KILL = 40


class Load:
    """Lives lived as fast as they go, with what the store answered."""

    def __init__(self, backend: EngineBackend) -> None:
        self.backend = backend
        self.created: set[ExecutionId] = set()
        self.completed: set[ExecutionId] = set()
        self.enough = asyncio.Event()

    async def live(self) -> None:
        while not self.enough.is_set() or len(self.completed) < BEFORE_THE_KILL:
            try:
                await self._one_life()
            except FlowFabricError:
                continue  # the outcome of this call is unknown, which is allowed; what was answered is not

    async def _one_life(self) -> None:
        execution_id = ExecutionId.for_lane(LANE, self.backend.partitions)
        await self.backend.create_execution(
            c.CreateExecutionArgs(
                execution_id=execution_id, namespace=Namespace("crash"), lane_id=LANE, execution_kind="k"
            )
        )
        self.created.add(execution_id)
        claimed = await self.backend.issue_grant_and_claim(
            c.IssueGrantAndClaimArgs(
                execution_id=execution_id,
                worker_id=WorkerId("w"),
                worker_instance_id=WorkerInstanceId("w-1"),
                lane_id=LANE,
                lease_id=LeaseId.new(),
                lease_ttl_ms=60_000,
                attempt_id=AttemptId.new(),
            )
        )
        done = c.CompleteExecutionArgs(execution_id=execution_id, fence=claimed.fence, result_payload=b"r")
        await self.backend.complete_execution(done)
        self.completed.add(execution_id)
        if len(self.completed) >= BEFORE_THE_KILL:
            self.enough.set()


@pytest.mark.parametrize("round_", range(examples(2, soak=25)))
async def test_what_was_answered_survives_a_kill(tmp_path: Path, round_: int) -> None:
    url = f"embedded://{tmp_path}"
    backend = await open_backend(url)
    load = Load(backend)
    lives = [asyncio.create_task(load.live()) for _ in range(8)]
    await load.enough.wait()
    member = await EmbeddedServer.join(tmp_path)
    await asyncio.to_thread(kill9, member.pid)  # type: ignore[arg-type]
    await asyncio.gather(*lives)

    for execution_id in load.created:
        assert await backend.get_execution_state(execution_id) is not None
    for execution_id in load.completed:
        assert await backend.get_execution_state(execution_id) is PublicState.COMPLETED
        assert len(await backend.list_attempts(execution_id)) == 1
    assert await backend.create_execution(_another(backend)), "the store goes on after the crash"
    await member.leave()
    await backend.close()

    reopened = await open_backend(url)
    for execution_id in load.completed:
        assert await reopened.get_execution_result(execution_id) == c.ExecutionResult(payload=b"r")
    await reopened.close()


def _another(backend: EngineBackend) -> c.CreateExecutionArgs:
    return c.CreateExecutionArgs(
        execution_id=ExecutionId.for_lane(LANE, backend.partitions),
        namespace=Namespace("crash"),
        lane_id=LANE,
        execution_kind="k",
    )

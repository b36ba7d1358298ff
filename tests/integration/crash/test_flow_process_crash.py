"""kill -9 of workers, engines and the server while flows run: all of them complete, and no member does so twice."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flowfabric import open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, LaneId, Namespace
from flowfabric.errors import FlowFabricError
from tests.integration.crash.test_embedded_crash import server_pid
from tests.servers import kill9
from tests.soaking import SOAK, examples
from tests.worker_processes import ROOT, WorkerProcess
from tests.worker_tasks import nap

LANE = LaneId("default")
FLOWS = 20 if SOAK else 8
WIDTH = 5
KILLS = 8 if SOAK else 4
PAUSE_S = 0.5  # between the killings
LEASE_TTL_MS = 1_000
WITHIN_S = 120


class Processes:
    """A worker, an engine and the server, each a process that is killed and replaced."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._url = f"embedded://{directory}"
        self._worker = self._start_worker()
        self._engine = self._start_engine()

    def _start_worker(self) -> WorkerProcess:
        return WorkerProcess(self._url, lease_ttl_ms=LEASE_TTL_MS, concurrency=8)

    def _start_engine(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "flowfabric.cli", "engine", "--url", self._url]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def kill_one(self, rng: random.Random) -> None:
        match rng.choice(["worker", "engine", "server"]):
            case "worker":
                await asyncio.to_thread(self._worker.kill)
                self._worker = self._start_worker()
            case "engine":
                self._stop_engine()
                self._engine = self._start_engine()
            case "server":
                await asyncio.to_thread(kill9, server_pid(self._directory))

    def _stop_engine(self) -> None:
        self._engine.send_signal(signal.SIGKILL)
        self._engine.wait()

    def stop(self) -> None:
        self._worker.kill()
        self._stop_engine()


def diamond(backend: EngineBackend) -> c.SubmitFlowArgs:
    """One, several, one: where the lane's stand-alone executions live, so that one log tells all."""
    flow_id = FlowId.for_lane(LANE, backend.partitions)
    ids = [ExecutionId.for_flow(flow_id, backend.partitions) for _ in range(WIDTH + 2)]
    pairs = [(ids[0], each) for each in ids[1:-1]] + [(each, ids[-1]) for each in ids[1:-1]]
    return c.SubmitFlowArgs(
        flow_id=flow_id,
        namespace=Namespace("crash"),
        members=tuple(
            c.CreateExecutionArgs(
                execution_id=execution_id,
                namespace=Namespace("crash"),
                lane_id=LANE,
                execution_kind=nap.name,
                input_payload=nap.encode_arguments(20),
                payload_encoding="json",
            )
            for execution_id in ids
        ),
        edges=tuple(
            c.FlowEdge(edge_id=EdgeId.new(), upstream_execution_id=up, downstream_execution_id=down)
            for up, down in pairs
        ),
    )


async def submit(backend: EngineBackend, args: c.SubmitFlowArgs) -> None:
    """Until it is answered: the same flow again is the same flow."""
    while True:
        try:
            await backend.submit_flow(args)
        except FlowFabricError as error:
            if not error.retryable:
                raise
        else:
            return


async def ended(backend: EngineBackend, flow_id: FlowId) -> c.FlowState:
    while True:
        try:
            state = await backend.wait_for_flow(flow_id, timeout_ms=WITHIN_S * 1000)
        except FlowFabricError as error:
            if not error.retryable:
                raise
        else:
            assert state is not None
            return state


@pytest.mark.parametrize("seed", range(examples(1, soak=12)))
async def test_flows_complete_whoever_is_killed(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    backend = await open_backend(f"embedded://{tmp_path}")
    processes = Processes(tmp_path)
    flows = [diamond(backend) for _ in range(FLOWS)]
    try:
        async with asyncio.timeout(WITHIN_S):
            for number, args in enumerate(flows):
                await submit(backend, args)
                if number % (FLOWS // KILLS) == 0:
                    await asyncio.sleep(PAUSE_S)
                    await processes.kill_one(rng)
            states = [await ended(backend, args.flow_id) for args in flows]
    finally:
        await asyncio.to_thread(processes.stop)
    assert set(states) == {c.FlowState.COMPLETED}
    page = await backend.read_events(c.ReadEventsArgs(events=("completed",), limit=1_000))  # type: ignore[arg-type]
    assert not page.more
    completions = Counter(event.execution_id for event in page.events)
    assert completions == dict.fromkeys((member.execution_id for args in flows for member in args.members), 1)
    await backend.close()

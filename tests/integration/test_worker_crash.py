"""kill -9 of worker processes under load: everything is done, and completed exactly once in the event log."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

from flowfabric import Engine, open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.states import PublicState
from tests.soaking import SOAK
from tests.worker_processes import WorkerProcess
from tests.worker_tasks import nap

LANE = LaneId("default")
WORKERS = 3
LEASE_TTL_MS = 1_000
EXECUTIONS = 5_000 if SOAK else 400
NAP_MS = 30 if SOAK else 20
READ_EVERY = 50  # executions: before the log forgets
PAUSE_S = 1.0 if SOAK else 0.3  # between the killings
DEADLINE_S = 600 if SOAK else 120


class Fleet:
    """Worker processes of which one is killed, and replaced, again and again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.workers = [self._start() for _ in range(WORKERS)]
        self.killed = 0

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self._url, lease_ttl_ms=LEASE_TTL_MS, concurrency=4)

    async def rage(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            at = random.randrange(WORKERS)
            await asyncio.to_thread(self.workers[at].kill)
            self.workers[at] = self._start()
            self.killed += 1

    def stop(self) -> None:
        for worker in self.workers:
            worker.kill()


async def test_every_execution_is_completed_once_whoever_dies(tmp_path: Path) -> None:
    url = f"embedded://{tmp_path}"
    backend = await open_backend(url)
    fleet = Fleet(url)
    completions = Completions(backend)
    raging: asyncio.Task[None] | None = None
    try:
        async with Engine(backend), asyncio.timeout(DEADLINE_S):
            for worker in fleet.workers:
                await worker.says("ready")
            ids = await _submit(backend, EXECUTIONS)
            raging = asyncio.create_task(fleet.rage())
            for at, execution_id in enumerate(ids):
                state = await backend.wait_for_execution(execution_id, timeout_ms=DEADLINE_S * 1000)
                assert state is PublicState.COMPLETED
                if at % READ_EVERY == 0:
                    await completions.catch_up()
    finally:
        if raging is not None:
            raging.cancel()
            await asyncio.gather(raging, return_exceptions=True)
        await asyncio.to_thread(fleet.stop)
    assert fleet.killed > 0
    await completions.catch_up()
    assert completions.counts == dict.fromkeys(ids, 1)
    await backend.close()


async def _submit(backend: EngineBackend, count: int) -> list[ExecutionId]:
    batch = [
        c.CreateExecutionArgs(
            execution_id=ExecutionId.for_lane(LANE, backend.partitions),
            namespace=Namespace("crash"),
            lane_id=LANE,
            execution_kind=nap.name,
            input_payload=nap.encode_arguments(random.randrange(NAP_MS)),
            payload_encoding="json",
            policy=nap.options.policy,
        )
        for _ in range(count)
    ]
    outcomes = await backend.submit_executions(batch)
    assert all(isinstance(outcome, c.ExecutionCreated) for outcome in outcomes)
    return [args.execution_id for args in batch]


class Completions:
    """How often each execution was completed, by the event log, read while it grows: it keeps only the last lines."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._cursor: str | None = None
        self.counts: Counter[ExecutionId] = Counter()

    async def catch_up(self) -> None:
        more = True
        while more:
            args = c.ReadEventsArgs(events=("completed",), cursor=self._cursor, limit=1_000)
            page = await self._backend.read_events(args)
            assert not page.truncated, "some lines were gone before they were read"
            self.counts.update(event.execution_id for event in page.events)
            self._cursor, more = page.cursor, page.more

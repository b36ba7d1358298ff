"""kill -9 of worker processes under load: everything is done, completed exactly once, and taken over from the dead."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from flowfabric import Engine, open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.partition import lane_partitions
from flowfabric.core.states import PublicState
from tests.soaking import SOAK, tell
from tests.worker_processes import WorkerProcess
from tests.worker_tasks import nap

LANE = LaneId("default")
WORKERS = 3
LEASE_TTL_MS = 1_000
EXECUTIONS = 5_000 if SOAK else 400
NAP_MS = 30 if SOAK else 40
READ_EVERY = 50  # executions: before the log forgets
PAUSE_S = 1.0 if SOAK else 0.3  # between the killings
DEADLINE_S = 600 if SOAK else 120
STARTS = ("claimed", "reclaimed", "resumed")


class Held(NamedTuple):
    """An execution that a worker had when it was killed."""

    execution_id: ExecutionId
    lease_epoch: int
    killed_at_ms: int  # by the store's clock, just before


class Fleet:
    """Worker processes of which one is killed, and replaced, again and again; one that is ready is always left."""

    def __init__(self, url: str, backend: EngineBackend) -> None:
        self._url = url
        self._backend = backend
        self._ready: dict[WorkerProcess, asyncio.Task[None]] = {}
        self.workers = [self._start() for _ in range(WORKERS)]
        self._enough = False
        self.held: list[Held] = []
        self.killed = 0

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(self._url, lease_ttl_ms=LEASE_TTL_MS, concurrency=4)
        self._ready[worker] = asyncio.create_task(worker.says("ready"))
        return worker

    async def ready(self) -> None:
        await asyncio.gather(*self._ready.values())

    @asynccontextmanager
    async def dying(self) -> AsyncIterator[None]:
        """Kill now and then; the last one killed is replaced, too."""
        killing = asyncio.create_task(self._rage())
        try:
            yield
        finally:
            self._enough = True
            await killing

    async def _rage(self) -> None:
        while not self._enough:
            await asyncio.sleep(PAUSE_S)
            victim = random.choice(self.workers)
            if any(self._ready[each].done() for each in self.workers if each is not victim):
                await self._kill(victim)

    async def _kill(self, victim: WorkerProcess) -> None:
        killed_at_ms = await _store_time(self._backend)
        victim.signal(signal.SIGKILL)
        await self._bury(victim)
        self.killed += 1
        self.held += await self._held_by(victim, killed_at_ms)
        self.workers[self.workers.index(victim)] = self._start()

    async def _bury(self, victim: WorkerProcess) -> None:
        """Who listened to it first: only one may read what it said."""
        await asyncio.gather(self._ready.pop(victim), return_exceptions=True)
        await asyncio.to_thread(victim.kill)

    async def _held_by(self, victim: WorkerProcess, killed_at_ms: int) -> list[Held]:
        """What runs for the dead, while its leases last."""
        page = await self._backend.list_executions(c.ListExecutionsArgs(public_state=PublicState.ACTIVE, limit=1_000))
        found = await asyncio.gather(*(self._backend.describe_execution(x.execution_id) for x in page.executions))
        leases = [(x.execution_id, x.current_lease) for x in found if x is not None and x.current_lease is not None]
        return [
            Held(execution_id, lease.lease_epoch, killed_at_ms)
            for execution_id, lease in leases
            if f"-{victim.process.pid}-" in lease.worker_instance_id
        ]

    async def stop(self) -> None:
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
            await self._bury(worker)


async def test_every_execution_is_completed_once_whoever_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"embedded://{tmp_path}"
    backend = await open_backend(url)
    fleet, log = Fleet(url, backend), Log(backend)
    try:
        async with Engine(backend), asyncio.timeout(DEADLINE_S):
            await fleet.ready()
            ids = await _submit(backend, EXECUTIONS)
            async with fleet.dying():
                for at, execution_id in enumerate(ids):
                    state = await backend.wait_for_execution(execution_id, timeout_ms=DEADLINE_S * 1000)
                    assert state is PublicState.COMPLETED
                    if at % READ_EVERY == 0:
                        await log.catch_up()
    finally:
        await fleet.stop()
    await log.catch_up()
    await backend.close()
    assert fleet.killed > 0
    assert log.completions == dict.fromkeys(ids, 1)
    assert log.takeovers > 0, "no worker was killed at work"
    taken_over_in = sorted(log.started_after(held) - held.killed_at_ms for held in fleet.held if log.is_lost(held))
    if taken_over_in:  # on a busy machine leases expire before they can be listed
        tell(capsys, _summary(fleet.killed, taken_over_in))


def _summary(killed: int, taken_over_in: list[int]) -> str:
    middle, most = taken_over_in[len(taken_over_in) // 2], taken_over_in[-1]
    return (
        f"{killed} workers killed, {len(taken_over_in)} executions taken over from them; from the kill to the next "
        f"claim with leases of {LEASE_TTL_MS} ms: median {middle} ms, at most {most} ms"
    )


async def _store_time(backend: EngineBackend) -> int:
    (partition,) = lane_partitions(LANE, backend.partitions)
    return (await backend.next_due(partition)).now_ms


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


class Log:
    """Who started when and was completed how often, by the event log, read while it grows: it keeps the last lines."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._cursor: str | None = None
        self.completions: Counter[ExecutionId] = Counter()
        self._starts: dict[tuple[ExecutionId, int], int] = {}  # by lease epoch
        self._ends: set[tuple[ExecutionId, int]] = set()

    async def catch_up(self) -> None:
        more = True
        while more:
            args = c.ReadEventsArgs(events=("completed", *STARTS), cursor=self._cursor, limit=1_000)  # type: ignore[arg-type]
            page = await self._backend.read_events(args)
            assert not page.truncated, "some lines were gone before they were read"
            for event in page.events:
                self._note(event)
            self._cursor, more = page.cursor, page.more

    @property
    def takeovers(self) -> int:
        """Claims after the first one: handlers do not fail here, so each follows a lost lease."""
        return sum(epoch > 1 for _, epoch in self._starts)

    def is_lost(self, held: Held) -> bool:
        """Unless the last that the dead had sent was its completion."""
        return (held.execution_id, held.lease_epoch) not in self._ends

    def started_after(self, held: Held) -> int:
        """When it was claimed after that: a claim has the next epoch."""
        return self._starts[held.execution_id, held.lease_epoch + 1]

    def _note(self, event: c.Event) -> None:
        if event.event == "completed":
            self.completions[event.execution_id] += 1  # type: ignore[index]
            self._ends.add((event.execution_id, event.lease_epoch))  # type: ignore[arg-type]
        else:
            self._starts[event.execution_id, event.lease_epoch] = event.at_ms  # type: ignore[index]

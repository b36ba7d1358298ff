"""Workers, engines and the store are killed and stand still at random: when nothing runs, no limit holds anything.

Each process is one of its own. Stores write what they acknowledge to the disk, and come back with it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from flowfabric import Engine, Fabric
from flowfabric.client.handle import Handle
from flowfabric.core import contracts as c
from flowfabric.core.states import PublicState
from flowfabric.engine import EngineSettings
from flowfabric.errors import FlowFabricError
from tests.integration.crash.test_embedded_crash import server_pid
from tests.servers import TestServer, kill9, start_one_node_cluster, start_standalone, start_three_node_cluster
from tests.soaking import examples, tell
from tests.worker_processes import ROOT, WorkerProcess
from tests.worker_tasks import nap, reserving_nap

TOPOLOGIES = ("embedded", "standalone", "cluster", "three_nodes")
FAULTS_S = examples(28, soak=1_200) / len(TOPOLOGIES)  # of all topologies together
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
WORKERS, ENGINES = 3, 2
LEASE_TTL_MS = 1_000
OFFER_OUTLASTED_S = 7.0
AT_ONCE = 30  # executions that are open
LEFT_WITHIN_S = 60  # no leak lasts longer
ENDED_WITHIN_S = 120

T = TypeVar("T")


class Store(Protocol):
    """Servers that are killed and come back, or stand still for a while."""

    url: str

    def pids(self) -> list[int]: ...

    def kill(self, chance: random.Random) -> None: ...


class EmbeddedStore:
    """Its keeper starts it again."""

    def __init__(self, directory: Path) -> None:
        self.url, self._directory = f"embedded://{directory}", directory

    def pids(self) -> list[int]:
        return [server_pid(self._directory)]

    def kill(self, chance: random.Random) -> None:
        with suppress(ProcessLookupError, FileNotFoundError, ValueError):  # it is just being started
            kill9(server_pid(self._directory))


class ServerStore:
    """One server, or the nodes of a cluster."""

    def __init__(self, url: str, nodes: list[TestServer]) -> None:
        self.url, self._nodes = url, nodes

    def pids(self) -> list[int]:
        return [node.pid for node in self._nodes]

    def kill(self, chance: random.Random) -> None:
        node = chance.choice(self._nodes)
        node.kill()
        node.start()


@contextmanager
def store_of(topology: str, directory: Path) -> Iterator[Store]:
    with ExitStack() as stack:
        match topology:
            case "embedded":
                yield EmbeddedStore(directory)
            case "standalone":
                server = stack.enter_context(start_standalone(*DURABLE))
                yield ServerStore(server.url, [server])
            case _:
                start = start_one_node_cluster if topology == "cluster" else start_three_node_cluster
                cluster = stack.enter_context(start(*DURABLE))
                yield ServerStore(cluster.url, cluster.nodes)


class Processes:
    """Workers and engines, and what happens to them and to their store."""

    def __init__(self, store: Store, fabric: Fabric, chance: random.Random) -> None:
        self.store, self._fabric, self.chance, self.happened = store, fabric, chance, Counter[str]()
        self.workers = [self._worker() for _ in range(WORKERS)]
        self.engines = [self._engine() for _ in range(ENGINES)]
        self._frozen: set[asyncio.Task[None]] = set()

    def _worker(self) -> WorkerProcess:
        return WorkerProcess(self.store.url, lease_ttl_ms=LEASE_TTL_MS, concurrency=8)

    def _engine(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "flowfabric.cli", "engine", "--url", self.store.url]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def happen(self) -> None:
        """One fault of any kind."""
        worker, engine = self.chance.randrange(WORKERS), self.chance.randrange(ENGINES)
        faults: dict[str, Callable[[], Awaitable[Any]]] = {
            "worker killed": lambda: asyncio.to_thread(self._kill_worker, worker),
            "worker frozen": lambda: self._freeze(self.workers[worker].process.pid, self._long()),
            "engine killed": lambda: asyncio.to_thread(self._kill_engine, engine),
            "engine frozen": lambda: self._freeze(self.engines[engine].pid, self._long()),
            "store killed": lambda: asyncio.to_thread(self.store.kill, self.chance),
            "store frozen": self._freeze_store,
            "connections cut": self._cut,
        }
        weights = (2, 4, 1, 1, 1, 1, 1)
        (name,) = self.chance.choices(list(faults), weights)
        self.happened[name] += 1
        await faults[name]()

    def _long(self) -> float:
        """Mostly short; now and then longer than an offer lasts."""
        return self.chance.choice([0.3, 1.5, OFFER_OUTLASTED_S])

    async def _freeze_store(self) -> None:
        with suppress(FileNotFoundError, ValueError):
            await self._freeze(self.chance.choice(self.store.pids()), self.chance.uniform(0.2, 1.5))

    async def _cut(self) -> None:
        """All but our own, listeners included."""
        with suppress(FlowFabricError):
            for node in await self._fabric.backend.client.primaries():  # type: ignore[attr-defined]
                for kind in ("normal", "pubsub"):
                    await node.execute("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    async def _freeze(self, pid: int, seconds: float) -> None:
        """It goes on by itself, while other things happen."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            task = asyncio.create_task(self._thaw(pid, seconds))
            self._frozen.add(task)
            task.add_done_callback(self._frozen.discard)

    async def _thaw(self, pid: int, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _kill_worker(self, at: int) -> None:
        self.workers[at].kill()
        self.workers[at] = self._worker()

    def _kill_engine(self, at: int) -> None:
        self.engines[at].kill()
        self.engines[at].wait()
        self.engines[at] = self._engine()

    async def thaw(self) -> None:
        await asyncio.gather(*self._frozen)

    def stop(self) -> None:
        for pid in (*(each.process.pid for each in self.workers), *(each.pid for each in self.engines)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for worker in self.workers:
            worker.kill()
        for engine in self.engines:
            engine.kill()
            engine.wait()


class Load:
    """Executions with limits of every kind, as many open as there may be."""

    def __init__(self, fabric: Fabric, chance: random.Random) -> None:
        self.fabric, self.chance = fabric, chance
        self.open: set[Handle[Any]] = set()
        self.submitted = self.ended = 0

    async def begin(self) -> None:
        self.narrow = await self.fabric.quotas.create(max_concurrent=1)
        self.of_kind = await self.fabric.quotas.create(max_concurrent=2, key_by=c.QuotaKey.EXECUTION_KIND)
        self.rate = await self.fabric.quotas.create(rate=1_000_000, window=3_600, max_concurrent=3)
        self.budget = await self.fabric.budgets.create({"tokens": 10**9})

    async def fill_up(self) -> None:
        """Submit what is missing; some are cancelled, in whatever state they are."""
        while len(self.open) < AT_ONCE:
            kind = self.chance.choice([nap, reserving_nap])
            options = kind.with_options(
                retry=100,
                quotas=self.chance.sample([self.narrow, self.of_kind, self.rate], self.chance.randint(1, 2)),
                budgets=[self.budget] if kind is reserving_nap else [],
                concurrency_key=self.chance.choice([None, None, "a"]),
            )
            self.open.add(await again(partial(self.fabric.submit, options, 30)))
            self.submitted += 1
            if self.chance.random() < 0.1:
                with suppress(FlowFabricError):
                    await self.chance.choice(list(self.open)).cancel("at random")

    async def see(self) -> None:
        """Which of the open ones have ended."""
        for handle in list(self.open):
            read = partial(self.fabric.backend.get_execution_state, handle.id)
            state = await again(read)
            if state in (PublicState.COMPLETED, PublicState.FAILED, PublicState.CANCELLED):
                self.open.discard(handle)
                self.ended += 1


async def again(call: Callable[[], Awaitable[T]]) -> T:
    """Until the store has answered."""
    while True:
        try:
            return await call()
        except FlowFabricError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.05)


async def held(fabric: Fabric) -> dict[str, list[str]]:
    """Everything that a limit, or a worker, has in the store: empty when nothing runs and nobody waits."""
    client = fabric.backend.client  # type: ignore[attr-defined]
    names: list[str] = []
    for node in await client.primaries():
        names += [key.decode() for key in await node.execute("KEYS", "ff:*")]
    kinds = {
        "slots": lambda name: ":admitted_set" in name,
        "reservations": lambda name: name.startswith("ff:budget:") and name.endswith((":reserved", ":holders")),
        "holds": lambda name: ":holds:" in name,
        "parked": lambda name: name.endswith(":parked"),
        "owed": lambda name: name.startswith("ff:part:") and name.endswith((":handovers", ":offers", ":permits")),
        "keys": lambda name: ":key_active:" in name,
    }
    found = {kind: [name for name in names if is_one(name)] for kind, is_one in kinds.items()}
    return {kind: of_kind for kind, of_kind in found.items() if of_kind}


async def until_nothing_is_held(fabric: Fabric) -> float:
    """How long it took; the engine here looks more often, so that the test need not wait for it."""
    began = time.monotonic()
    left: dict[str, list[str]] = {}
    settings = EngineSettings(reconcile_ms=500, look_ms=100, quick_look_ms=50)
    async with Engine(fabric.backend, settings):
        while time.monotonic() < began + LEFT_WITHIN_S:
            left = await held(fabric)
            if not left:
                return time.monotonic() - began
            await asyncio.sleep(0.1)
    raise AssertionError(f"still held {LEFT_WITHIN_S} s after the last run: {left}")


@asynccontextmanager
async def processes_of(store: Store, fabric: Fabric, chance: random.Random) -> AsyncIterator[Processes]:
    processes = Processes(store, fabric, chance)
    try:
        yield processes
    finally:
        await asyncio.to_thread(processes.stop)


@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_nothing_is_held_when_nothing_runs_whoever_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], topology: str
) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    with store_of(topology, tmp_path) as store:
        async with Fabric.connect(store.url) as fabric:
            load = Load(fabric, chance)
            await load.begin()
            async with processes_of(store, fabric, chance) as processes:
                ends_at = time.monotonic() + FAULTS_S
                while time.monotonic() < ends_at:
                    await load.fill_up()
                    await processes.happen()
                    await asyncio.sleep(chance.uniform(0, 0.6))
                    await load.see()
                await processes.thaw()
                async with asyncio.timeout(ENDED_WITHIN_S):
                    while load.open:
                        await load.see()
                        await asyncio.sleep(0.05)
            took = await until_nothing_is_held(fabric)
    faults = ", ".join(f"{count} x {name}" for name, count in sorted(processes.happened.items()))
    tell(capsys, f"{topology}, seed {seed}: {load.ended} executions; {faults}; nothing held {took:.1f} s later")
    assert load.ended == load.submitted > 0

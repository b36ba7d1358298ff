"""Several engines on one store: they divide the work, and what one leaves behind the others do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, Namespace
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.states import PublicState
from flowfabric.engine import Engine, EngineSettings
from tests.conformance.driver import LANE
from tests.servers import eventually_async, kill9
from tests.valkey.probe import open_clean

PARTITIONS = 32
TTL_MS = 600
SETTINGS = EngineSettings(share_ttl_ms=TTL_MS, look_ms=100, quick_look_ms=20, jitter_pct=0)

_OTHER_ENGINE = f"""
import asyncio, sys
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.config import Settings
from flowfabric.engine import Engine, EngineSettings

async def main():
    backend = await ValkeyBackend.open(Settings(url=sys.argv[1]), bundle(manual_clock=True))
    async with Engine(backend, {SETTINGS!r}, replica_id="other"):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await backend.close()

asyncio.run(main())
"""


@pytest.fixture
async def backend(embedded_url: str) -> AsyncIterator[ValkeyBackend]:
    """A store whose time runs, with an execution in each of some partitions."""
    opened = await open_clean(embedded_url)
    await opened.client.execute("FCALL", "ff_test_clock", 0, "")
    for index in range(PARTITIONS):
        await create(opened, index)
    yield opened
    await opened.close()


@contextmanager
def other_engine(url: str) -> Iterator[subprocess.Popen[str]]:
    """An engine in a process of its own."""
    command = [sys.executable, "-c", _OTHER_ENGINE, url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def delayed(backend: ValkeyBackend, index: int, delay_ms: int) -> ExecutionId:
    """One that an engine has to promote. On a busy machine a short delay is over before the execution is written."""
    while True:
        created = await create(backend, index, delay_ms)
        if created.public_state is PublicState.DELAYED:
            return created.execution_id
        delay_ms *= 2


async def create(backend: ValkeyBackend, index: int, delay_ms: int = 0) -> c.ExecutionCreated:
    execution_id = ExecutionId(f"{{fp:{index}}}:{ExecutionId.for_lane(LANE, backend.partitions).uuid}")
    now = (await backend.next_due(Partition(PartitionFamily.FLOW, index))).now_ms
    created = await backend.create_execution(
        c.CreateExecutionArgs(
            execution_id=execution_id,
            namespace=Namespace("tests"),
            lane_id=LANE,
            execution_kind="kind",
            delay_until=now + delay_ms if delay_ms else None,
        )
    )
    assert isinstance(created, c.ExecutionCreated)
    return created


def owned(engine: Engine) -> int:
    return engine.status().partitions_owned


def done(engine: Engine) -> int:
    return engine.status().service("due_work").items


async def promoted(backend: ValkeyBackend, execution_id: ExecutionId) -> None:
    async for event in backend.tail_events(execution_id):
        if event.event == c.EventKind.PROMOTED:
            return


async def all_promoted(backend: ValkeyBackend, ids: list[ExecutionId]) -> None:
    async with asyncio.timeout(30):
        await asyncio.gather(*(promoted(backend, each) for each in ids))


async def test_two_engines_divide_the_partitions(backend: ValkeyBackend) -> None:
    async with Engine(backend, SETTINGS) as one, Engine(backend, SETTINGS) as two:
        await eventually_async(lambda: len(one.status().replicas) == len(two.status().replicas) == 2, "they have met")
        await eventually_async(lambda: owned(one) + owned(two) == PARTITIONS, "everything has an owner")
        assert min(owned(one), owned(two)) > 0
        ids = [await delayed(backend, index, delay_ms=100) for index in range(PARTITIONS)]
        await all_promoted(backend, ids)
        await eventually_async(lambda: done(one) + done(two) == PARTITIONS, "everything is counted")
        assert min(done(one), done(two)) > 0


async def test_an_engine_that_stops_gives_its_share_back_at_once(backend: ValkeyBackend) -> None:
    patient = EngineSettings(share_ttl_ms=60_000, look_ms=100, quick_look_ms=20)
    leaving = Engine(backend, patient, replica_id="leaving")
    leaving.start()
    async with Engine(backend, patient, replica_id="staying") as staying:
        await eventually_async(lambda: 0 < owned(staying) < PARTITIONS, "it has a share")
        await leaving.stop()
        shares = await backend.hold_share(c.HoldShareArgs(replica_id="observer", ttl_ms=100))
        assert shares.replicas == ("observer", "staying")


async def test_a_killed_engine_is_replaced(backend: ValkeyBackend, embedded_url: str) -> None:
    async with Engine(backend, SETTINGS, replica_id="survivor") as survivor:
        with other_engine(embedded_url) as other:
            await eventually_async(lambda: 0 < owned(survivor) < PARTITIONS, "the other has a share")
            await asyncio.to_thread(kill9, other.pid)
            ids = [await delayed(backend, index, delay_ms=50) for index in range(PARTITIONS)]
            await all_promoted(backend, ids)
        assert survivor.status().replicas == ("survivor",)
        assert owned(survivor) == PARTITIONS


async def test_an_engine_that_could_not_give_a_sign_of_life_comes_back(backend: ValkeyBackend) -> None:
    async with Engine(backend, SETTINGS, replica_id="one") as one:
        await eventually_async(lambda: owned(one) == PARTITIONS, "it has everything")
        await backend.hold_share(c.HoldShareArgs(replica_id="one", ttl_ms=100, leave=True))
        async with Engine(backend, SETTINGS, replica_id="two") as two:
            await eventually_async(lambda: len(one.status().replicas) == len(two.status().replicas) == 2, "they met")
            await eventually_async(lambda: owned(one) + owned(two) == PARTITIONS, "everything has one owner")

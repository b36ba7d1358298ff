"""A concurrency quota under load: never more than it allows, hardly ever less, and no slot is lost with its worker.

Sampled all the time while work waits, in the store: what runs there, and what the quota has given away.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import pytest

from flowfabric import Engine, Fabric, Worker, named
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import lane_partitions
from flowfabric.core.states import PublicState
from flowfabric.engine import EngineSettings
from tests.soaking import examples, tell
from tests.worker_processes import worker_process
from tests.worker_tasks import nap

SLOTS = 10
EXECUTIONS = examples(1_000, soak=10_000)
DEADLINE_S = 600


class Watch:
    """What was running at each sampled moment."""

    def __init__(self, fabric: Fabric, quota_policy_id: str, lane: str) -> None:
        self._fabric = fabric
        self._quota = quota_policy_id
        (partition,) = lane_partitions(LaneId(lane), fabric.backend.partitions)
        self._key = f"ff:idx:{partition.tag}:lane:{lane}:active"
        self.active: list[int] = []
        self.admitted: list[int] = []

    async def sample(self) -> None:
        client = self._fabric.backend.client  # type: ignore[attr-defined]
        self.active.append(await client.execute("ZCARD", self._key, key=self._key))
        self.admitted.append((await self._fabric.quotas.status(self._quota)).running)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.sample()
            while not is_so():
                await asyncio.sleep(0.005)
                await self.sample()

    def check(self) -> None:
        assert max(self.active) <= SLOTS
        assert max(self.admitted) <= SLOTS
        assert median(self.active) == SLOTS, self.active  # a busy machine may starve some moments, not half of them

    def __str__(self) -> str:
        return f"{mean(self.active):.2f} of {SLOTS} run on average of {len(self.active)} samples"


@pytest.mark.parametrize("workers", [1, 3])
async def test_a_quota_of_ten_keeps_ten_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: int
) -> None:
    fleet = [Worker(lanes=["short"], concurrency=32) for _ in range(workers)]
    inside = most = 0

    async def short() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.005)
        inside -= 1

    for each in fleet:
        each.task(short, name="short")  # type: ignore[call-overload]
    async with Fabric.connect(f"embedded://{tmp_path}") as fabric, Engine(fabric.backend):
        quota = await fabric.quotas.create(max_concurrent=SLOTS, lane="short")
        await fabric.submit_many(named("short", lane="short").call() for _ in range(EXECUTIONS))
        watch = Watch(fabric, quota, "short")
        for each in fleet:
            await each.start(f"embedded://{tmp_path}")
        async with asyncio.timeout(DEADLINE_S):
            while (done := sum(each.stats.completed for each in fleet)) < EXECUTIONS:
                if SLOTS < done < EXECUTIONS - 2 * SLOTS:  # begun, and work waits
                    await watch.sample()
                await asyncio.sleep(0.005)
        for each in fleet:
            await each.stop()
        assert most <= SLOTS
        watch.check()
        tell(capsys, f"{workers} workers: {watch}")
        assert (await fabric.quotas.status(quota)).running == 0


async def test_slots_of_killed_workers_come_back_with_the_reclaim(tmp_path: Path) -> None:
    url, settings = f"embedded://{tmp_path}", EngineSettings(look_ms=100, quick_look_ms=50)
    async with Fabric.connect(url) as fabric, Engine(fabric.backend, settings):
        quota = await fabric.quotas.create(max_concurrent=SLOTS, lane="default")
        watch = Watch(fabric, quota, "default")
        handles = [await fabric.submit(nap.with_options(retry=100), 100) for _ in range(examples(60, soak=600))]
        for _ in range(examples(2, soak=10)):
            with worker_process(url, lease_ttl_ms=500, concurrency=16) as dying:
                await dying.says("ready")
                await watch.until(lambda: watch.active[-1] == SLOTS)
                dying.signal(signal.SIGKILL)
        with worker_process(url, lease_ttl_ms=5_000, concurrency=16) as last:
            await last.says("ready")
            async with asyncio.timeout(DEADLINE_S):
                ends = [await each.wait() for each in handles]
        assert set(ends) == {PublicState.COMPLETED}
        assert max(*watch.active, *watch.admitted) <= SLOTS
        await watch.until(lambda: watch.admitted[-1] == 0)

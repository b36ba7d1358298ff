"""Work that needs capabilities, in a lane whose queue a scheduler of the Rust line reads."""

from __future__ import annotations

import pytest

from flowfabric import Engine, Fabric, Worker
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId, WorkerId, WorkerInstanceId
from tests.rust_line.conftest import LANE
from tests.rust_line.worker import Keys, Refused
from tests.rust_line.worker import Worker as RustWorker
from tests.servers import eventually_async

PATIENCE = 30


def queue(rust: RustWorker, name: str = "eligible") -> list[str]:
    return [each.decode() for each in rust.client.zrange(f"ff:idx:{rust.tags[0]}:lane:{LANE}:{name}", 0, -1)]


async def claims(backend: ValkeyBackend, *capabilities: str, count: int = 10) -> list[str]:
    """What a worker of ours gets."""
    found = await backend.claim_executions(
        b.ClaimExecutionsArgs(
            lane_id=LaneId(LANE),
            worker_id=WorkerId("ours"),
            worker_instance_id=WorkerInstanceId("ours-1"),
            worker_capabilities=frozenset(capabilities),
            lease_ttl_ms=30_000,
            count=count,
        )
    )
    return [work.claim.execution_id for work in found]


async def test_it_is_granted_to_a_scheduler_that_reads_one_queue(fabric: Fabric, rust: RustWorker) -> None:
    await fabric.configure_lane(LANE, shared_queue=True)
    handle = await fabric.submit("draw", lane=LANE, capabilities={"gpu"})
    keys = Keys(handle.id, LANE)
    with pytest.raises(Refused) as refused:
        rust.grant(keys)
    assert (refused.value.code, refused.value.details) == ("capability_mismatch", ("gpu",))
    rust.capabilities = "cpu,gpu"
    task = rust.claim_next()
    assert task is not None
    task.complete(b"1")
    assert await handle.result(timeout=PATIENCE) == 1
    assert queue(rust) == []


async def test_without_the_setting_it_stands_in_a_queue_of_its_own(fabric: Fabric, rust: RustWorker) -> None:
    handle = await fabric.submit("draw", lane=LANE, capabilities={"gpu"})
    rust.capabilities = "gpu"
    assert rust.claim_next() is None
    assert queue(rust, "eligible:gpu") == [handle.id]


async def test_workers_of_ours_get_what_they_can_run_past_what_they_cannot(
    fabric: Fabric, backend: ValkeyBackend, rust: RustWorker
) -> None:
    await fabric.configure_lane(LANE, shared_queue=True)
    drawn = [(await fabric.submit("draw", lane=LANE, capabilities={"gpu"}, priority=1)).id for _ in range(300)]
    plain = (await fabric.submit("write", lane=LANE)).id
    assert await claims(backend) == [plain]
    assert await claims(backend) == []
    assert await claims(backend, "gpu", count=2) == drawn[:2]
    assert queue(rust) == drawn[2:]


async def test_what_waits_moves_when_the_setting_changes(
    fabric: Fabric, backend: ValkeyBackend, rust: RustWorker
) -> None:
    handles = [await fabric.submit("draw", lane=LANE, capabilities={"gpu"}) for _ in range(250)]
    plain = await fabric.submit("write", lane=LANE)
    ids = [handle.id for handle in handles]
    await fabric.configure_lane(LANE, shared_queue=True)
    assert (queue(rust), queue(rust, "eligible:gpu")) == ([*ids, plain.id], [])
    assert rust.client.exists(f"ff:idx:{rust.tags[0]}:lane:{LANE}:capability_sets") == 0
    assert (await fabric.describe_lane(LANE)).shared_queue
    await fabric.configure_lane(LANE)
    assert (queue(rust), queue(rust, "eligible:gpu")) == ([plain.id], ids)
    assert await claims(backend, "gpu", count=1) == ids[:1]


async def test_what_an_incapable_scheduler_parks_comes_back_for_those_we_do_not_know(
    fabric: Fabric, backend: ValkeyBackend, rust: RustWorker
) -> None:
    """Workers of the Rust line are in no registry of ours, so nobody can tell that one of them is capable."""
    await fabric.configure_lane(LANE, shared_queue=True)
    handle = await fabric.submit("draw", lane=LANE, capabilities={"gpu"})
    assert rust.claim_next() is None
    assert queue(rust, "blocked:route") == [handle.id]
    rust.client.zadd(f"ff:idx:{rust.tags[0]}:lane:{LANE}:blocked:route", {handle.id: 1})
    async with Engine(backend):
        await eventually_async(lambda: queue(rust) == [handle.id], "it is back in the queue")
    rust.capabilities = "gpu"
    assert rust.claim_next() is not None


async def test_a_worker_of_ours_with_the_capability_runs_it_at_once(fabric: Fabric) -> None:
    await fabric.configure_lane(LANE, shared_queue=True)
    worker = Worker(lanes=[LANE], capabilities={"gpu"})

    @worker.task(lane=LANE, capabilities={"gpu"})
    async def draw() -> str:
        return "drawn"

    async with worker.working(fabric.backend):
        assert await (await fabric.submit(draw)).result(timeout=PATIENCE) == "drawn"

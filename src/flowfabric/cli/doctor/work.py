"""Checks of engines, workers and waiting executions."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from flowfabric.cli.commands.executions import explained
from flowfabric.cli.doctor.checks import Check, fail, ok, warn
from flowfabric.cli.parsing import span_text
from flowfabric.cli.show.paging import all_workers
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.rules.unknown_tasks import sentence, waits_for_task
from flowfabric.core.states import LaneState, PublicState

_OLD_MS: Final = 60_000
_LOOKED_AT: Final = 1_000


async def check_work(fabric: Fabric) -> list[Check]:
    in_use = len(await fabric.backend.partitions_in_use())
    counts, workers = await fabric.counts(), await all_workers(fabric)
    return [
        _partitions(fabric, in_use),
        await _engine(fabric, is_in_use=in_use > 0),
        _workers(workers),
        *[check for each in counts if (check := await _lane(fabric, each, workers)) is not None],
        *await _unknown_tasks(fabric, counts, workers),
        await _oldest(fabric, counts),
    ]


def _partitions(fabric: Fabric, in_use: int) -> Check:
    config = fabric.backend.partitions
    shards = f"{config.lane_shards} shard{'s' * (config.lane_shards != 1)} a lane"
    return ok("partitions", f"{config.num_flow_partitions}, {in_use} in use, {shards}")


async def _engine(fabric: Fabric, *, is_in_use: bool) -> Check:
    # A replica that leaves gets the list of those that stay.
    args = c.HoldShareArgs(replica_id=f"doctor:{uuid4().hex[:12]}", ttl_ms=1_000, leave=True)
    replicas = (await fabric.backend.hold_share(args)).replicas
    if replicas:
        return ok("engine", f"{len(replicas)} alive: {', '.join(replicas)}")
    found, advice = "none is alive: delays, timeouts and expired leases are not handled", "start `flowfabric engine`"
    return fail("engine", found, advice) if is_in_use else warn("engine", found, advice)


def _workers(workers: list[c.WorkerInfo]) -> Check:
    if not workers:
        return warn("workers", "none is alive", "start `flowfabric worker MODULE`")
    slots = sum(worker.slots for worker in workers)
    return ok("workers", f"{len(workers)} alive with {slots} slots")


async def _lane(fabric: Fabric, counts: c.LaneCounts, workers: list[c.WorkerInfo]) -> Check | None:
    """Whether waiting executions of a lane can start; None when none waits."""
    waiting = counts.counts.get(PublicState.WAITING, 0)
    if not waiting:
        return None
    name, lane = f"lane {counts.lane_id}", counts.lane_id
    state = (await fabric.describe_lane(lane)).state
    if state is not LaneState.ACTIVE:
        return warn(name, f"{waiting} waiting, the lane is {state}", f"`flowfabric lanes resume {lane}`")
    serving = sum(lane in worker.lanes for worker in workers)
    if not serving:
        return fail(name, f"{waiting} waiting, no worker serves it", f"start a worker with lanes=[{str(lane)!r}]")
    return ok(name, f"{waiting} waiting for {serving} worker{'s' * (serving != 1)}")


async def _unknown_tasks(fabric: Fabric, counts: list[c.LaneCounts], workers: list[c.WorkerInfo]) -> list[Check]:
    """Tasks of waiting executions that no live worker has; the oldest executions of each lane are looked at."""
    found: list[Check] = []
    for each in counts:
        if not each.counts.get(PublicState.WAITING, 0):
            continue
        page = await fabric.list(
            lane=each.lane_id, state=PublicState.WAITING, order=c.ListOrder.OLDEST, limit=_LOOKED_AT
        )
        kinds = {one.execution_kind for one in page.executions if waits_for_task(one, workers)}
        advice = "start a worker with this task, or cancel them"
        found += [fail(f"task {kind}", sentence(kind, each.lane_id, workers), advice) for kind in sorted(kinds)]
    return found


async def _oldest(fabric: Fabric, counts: list[c.LaneCounts]) -> Check:
    ages = {each.lane_id: each.oldest_waiting_ms for each in counts if each.oldest_waiting_ms is not None}
    if not ages:
        return ok("waiting", "no execution is waiting")
    lane = max(ages, key=lambda each: ages[each])
    found = f"the oldest execution of lane {lane} has waited for {span_text(ages[lane])}"
    if ages[lane] < _OLD_MS:
        return ok("waiting", found)
    page = await fabric.list(lane=lane, state=PublicState.WAITING, order=c.ListOrder.OLDEST, limit=1)
    for oldest in page.executions:
        reason = await explained(fabric, oldest.execution_id)
        return warn(
            "waiting",
            f"{found}: {oldest.execution_id.short} {reason}",
            f"`flowfabric show {oldest.execution_id.short}`",
        )
    return warn("waiting", found, f"`flowfabric ls --state waiting --lane {lane} --oldest-first`")

"""A primary of the cluster is killed, or hands over, under load: the client goes on, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from flowfabric import Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import PublicState
from flowfabric.errors import BackendUnavailable, Conflict, NotFound
from tests.load import Load, doubled, lanes_where, one_life, states_of, under_load
from tests.servers import TestCluster, TestServer, eventually_async, start_three_node_cluster
from tests.soaking import examples
from tests.valkey.invariants import check_store

Record = Callable[[str, object], None]
Fact = tuple[str, ExecutionId]  # "created" or "completed"

LANES_A_NODE = 4
LIVES = 60


async def opened(cluster: TestCluster) -> ValkeyBackend:
    return await ValkeyBackend.open(Settings(url=cluster.url, retry_budget_ms=20_000, lane_shards=1))


def lanes_on(cluster: TestCluster, node: TestServer) -> list[LaneId]:
    return lanes_where(lambda slot: cluster.owner(slot) is node, PartitionConfig(), LANES_A_NODE)


def tags_of(lanes: list[LaneId]) -> set[str]:
    return {ExecutionId.for_lane(lane, PartitionConfig()).tag for lane in lanes}


@pytest.mark.parametrize("round_", range(examples(1, soak=20)))
async def test_a_killed_primary_is_replaced_and_nothing_replicated_is_lost(
    round_: int, record_property: Record
) -> None:
    with start_three_node_cluster(replicas=1) as cluster:
        backend = await opened(cluster)
        victim = cluster.primaries()[0]
        threatened = lanes_on(cluster, victim)
        others = [lane for node in cluster.primaries()[1:] for lane in lanes_on(cluster, node)]
        tags = tags_of(threatened)
        async with under_load(backend, threatened + others) as load:
            await load.until_more(LIVES, tags)
            safe = await replicated(load, min(tags))
            await load.until_more(LIVES, tags)
            await asyncio.to_thread(victim.kill)
            killed_at = time.monotonic()
            newcomer = asyncio.create_task(opened(cluster))  # opens in the middle of the failover
            await load.until_more(LIVES, tags)
            record_property("recovery_s", round(time.monotonic() - killed_at, 2))
        lost = await what_is_lost(load)
        report(load, lost, record_property)
        assert not lost & safe
        await check_what_is_left(load, lost, tags)
        check_library(cluster)
        await one_life(await newcomer)
        await (await newcomer).close()
        await backend.close()


async def test_what_the_replica_never_got_is_lost_and_nothing_else(record_property: Record) -> None:
    with start_three_node_cluster(replicas=1) as cluster:
        backend = await opened(cluster)
        victim = cluster.primaries()[0]
        lanes = lanes_on(cluster, victim)
        tags = tags_of(lanes)
        async with under_load(backend, lanes) as load:
            await load.until_more(LIVES, tags)
            safe = await replicated(load, min(tags))
            with cut_off(cluster.replica_of(victim), victim):
                await load.until_more(LIVES, tags)
                await asyncio.to_thread(victim.kill)
            await load.until_more(LIVES, tags)
        lost = await what_is_lost(load)
        report(load, lost, record_property)
        assert len(lost) >= LIVES
        assert not lost & safe
        await check_what_is_left(load, lost, tags)
        await backend.close()


async def test_a_primary_that_hands_over_loses_nothing_and_no_call_fails() -> None:
    with start_three_node_cluster(replicas=1) as cluster:
        backend = await opened(cluster)
        primary = cluster.primaries()[0]
        lanes = lanes_on(cluster, primary)
        async with under_load(backend, lanes) as load:
            await load.until_more(LIVES, tags_of(lanes))
            replica = cluster.replica_of(primary)
            await asyncio.to_thread(replica.call, "CLUSTER", "FAILOVER")
            await eventually_async(lambda: replica in cluster.primaries(), "the replica has taken over")
            await load.until_more(LIVES, tags_of(lanes))
        assert load.troubles == []
        assert not await what_is_lost(load)
        await check_what_is_left(load, set(), tags_of(lanes))
        check_library(cluster)
        await backend.close()


async def replicated(load: Load, tag: str) -> set[Fact]:
    """What was answered by now and is on the replica: WAIT speaks of all that its own connection wrote before."""
    answered = facts(load)
    assert await load.backend.client.execute("WAIT", 1, 5_000, key=tag) == 1
    return answered


def facts(load: Load) -> set[Fact]:
    created = {("created", execution_id) for execution_id in load.created}
    return created | {("completed", execution_id) for execution_id in load.completed}


async def what_is_lost(load: Load) -> set[Fact]:
    """Answered, but not there: executions without a record, and endings that are not recorded."""
    states = await states_of(load.backend, load.created)
    there = {("created", execution_id) for execution_id, state in states.items() if state is not None}
    there |= {("completed", execution_id) for execution_id, state in states.items() if state is PublicState.COMPLETED}
    return facts(load) - there


def report(load: Load, lost: set[Fact], record_property: Record) -> None:
    record_property("answered", len(facts(load)))
    record_property("lost", len(lost))
    record_property("failed_calls", len(load.troubles))
    print(f"{len(lost)} of {len(facts(load))} answers lost, {len(load.troubles)} calls failed")


@contextmanager
def cut_off(replica: TestServer, primary: TestServer) -> Iterator[None]:
    """The replica gets nothing any more; at the end it wakes up to find that its primary is gone."""
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        primary.call("CLIENT", "KILL", "TYPE", "replica")
        yield
    finally:
        os.kill(replica.pid, signal.SIGCONT)


async def check_what_is_left(load: Load, lost: set[Fact], threatened: set[str]) -> None:
    """Only the lost server's partitions suffered, every failed call is explained, nothing is doubled or half done."""
    assert {execution_id.tag for _, execution_id in lost} <= threatened
    for step, execution_id, error in load.troubles:
        assert is_explained(step, error), (step, error)
        assert execution_id.tag in threatened
    await check_store(load.backend.client)
    assert await doubled(load.backend, {execution_id.tag for execution_id in load.created}) == []
    done = [execution_id for kind, execution_id in facts(load) - lost if kind == "completed"]
    attempts = await asyncio.gather(*(load.backend.list_attempts(execution_id) for execution_id in done))
    assert {len(listed) for listed in attempts} == {1}


def is_explained(step: str, error: Exception) -> bool:
    """A claim must not be sent twice, so its loss is reported; and what replication lost is not found any more."""
    if isinstance(error, BackendUnavailable):
        return step == "claim" and error.details["sent"] is True
    return isinstance(error, NotFound | Conflict)


def check_library(cluster: TestCluster) -> None:
    versions = [node.call("FCALL", "ff_version", 0) for node in cluster.primaries()]
    assert versions == [str(LIBRARY_VERSION).encode()] * 3

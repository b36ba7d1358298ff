"""Slots move to other nodes under load: no call fails, nothing is lost or doubled, and no function sees half a slot."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import hiredis
import pytest

from flowfabric import Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION, bundle
from flowfabric.backends.valkey.library.calls import key_list
from flowfabric.backends.valkey.library.contract import FunctionSpec
from flowfabric.backends.valkey.wire.cluster import key_slot
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import PublicState
from tests.load import Load, doubled, lanes_where, states_of, under_load
from tests.servers import (
    TestCluster,
    TestServer,
    begin_migration,
    eventually_async,
    give_slot,
    move_keys,
    move_slot_atomically,
    start_empty_node,
    start_three_node_cluster,
)
from tests.valkey.invariants import check_store

LIVES = 40
# Those that call another function get its keys.
WITH_KEYS = [spec for spec in bundle().functions.values() if any(not key.derived and not key.rest for key in spec.keys)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with start_three_node_cluster(replicas=1) as running:
        yield running


@pytest.fixture
async def backend(cluster: TestCluster) -> AsyncIterator[ValkeyBackend]:
    opened = await ValkeyBackend.open(Settings(url=cluster.url, lane_shards=1))
    yield opened
    await opened.client.execute_on_primaries("FLUSHALL")
    await opened.close()


@pytest.fixture
def lanes() -> list[LaneId]:
    """The first is in the partition that moves."""
    return lanes_where(lambda _: True, PartitionConfig(), 4)


def slot_of(lane: LaneId) -> tuple[str, int]:
    tag = ExecutionId.for_lane(lane, PartitionConfig()).tag
    return tag, key_slot(tag)


async def test_a_slot_that_moves_atomically_is_not_noticed(
    cluster: TestCluster, backend: ValkeyBackend, lanes: list[LaneId]
) -> None:
    tag, slot = slot_of(lanes[0])
    async with under_load(backend, lanes) as load:
        for _ in range(3):
            source = cluster.owner(slot)
            await load.until_more(LIVES, {tag})
            await asyncio.to_thread(move_slot_atomically, cluster, slot, cluster.other_than(source))
            assert source.call("CLUSTER", "COUNTKEYSINSLOT", slot) == 0
            await load.until_more(LIVES, {tag})
    await check_all_went_well(load)


async def test_a_node_that_joins_gets_the_library_with_its_first_slot(
    cluster: TestCluster, backend: ValkeyBackend, lanes: list[LaneId]
) -> None:
    tag, slot = slot_of(lanes[0])
    source = cluster.owner(slot)
    with start_empty_node(cluster) as newcomer:
        assert newcomer.call("FUNCTION", "LIST") == []
        async with under_load(backend, lanes) as load:
            await load.until_more(LIVES, {tag})
            await asyncio.to_thread(move_slot_atomically, cluster, slot, newcomer)
            await load.until_more(LIVES, {tag})
            assert newcomer.call("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()
            await asyncio.to_thread(move_slot_atomically, cluster, slot, source)
            await load.until_more(LIVES, {tag})
        await check_all_went_well(load)


async def test_a_slot_that_moves_key_by_key_is_waited_for(
    cluster: TestCluster, backend: ValkeyBackend, lanes: list[LaneId]
) -> None:
    tag, slot = slot_of(lanes[0])
    source = cluster.owner(slot)
    target = cluster.other_than(source)
    async with under_load(backend, lanes) as load:
        await load.until_more(LIVES, {tag})
        refused = tryagains(cluster)
        begin_migration(slot, source, target)
        await eventually_async(lambda: tryagains(cluster) > refused, "a call was told to try again")
        await backend.client.execute("PING", key=tag)  # all earlier answers of that node have come, too
        lived = load.completed_in({tag})
        assert await asyncio.to_thread(move_keys, slot, source, target) > LIVES
        assert load.completed_in({tag}) == lived, "a function ran on half of a partition"
        give_slot(cluster, slot, target)
        await load.until_more(LIVES, {tag})
    await check_all_went_well(load)


@pytest.mark.parametrize("moved", [False, True], ids=["before its keys move", "after its keys moved"])
async def test_no_function_runs_while_keys_may_be_on_two_nodes(
    cluster: TestCluster, backend: ValkeyBackend, lanes: list[LaneId], moved: bool
) -> None:
    tag, slot = slot_of(lanes[0])
    source = cluster.owner(slot)
    target = cluster.other_than(source)
    named = names(tag)
    for key in named.values():
        source.call("SET", key, "x")
    begin_migration(slot, source, target)
    if moved:
        move_keys(slot, source, target)
    here, there = ("ASK", "TRYAGAIN") if moved else ("TRYAGAIN", "TRYAGAIN")
    for spec in WITH_KEYS:
        keys = key_list(spec, {key.name: named[key.name] for key in spec.keys if not key.derived})
        assert prefix(source, spec, keys) == here, spec.operation
        assert prefix(target, spec, keys, asking=True) == there, spec.operation
    move_keys(slot, source, target)
    give_slot(cluster, slot, target)


def names(tag: str) -> dict[str, str]:
    """A key for every name that a caller gives."""
    given = {key.name for spec in WITH_KEYS for key in spec.keys if not key.derived}
    return {name: f"ff:test:{tag}:{name}" for name in given}


def prefix(node: TestServer, spec: FunctionSpec, keys: list[str], *, asking: bool = False) -> str:
    """The first word of the error that a call gets, on this very node."""
    commands = [["ASKING"]] * asking + [["FCALL", spec.function, str(len(keys)), *keys]]
    reader, replies = hiredis.Reader(), []  # type: ignore[var-annotated]
    with socket.create_connection((node.host, node.port), timeout=5) as connection:
        for command in commands:
            connection.sendall(hiredis.pack_command(tuple(command)))  # type: ignore[arg-type]
        while len(replies) < len(commands):
            reader.feed(connection.recv(65_536))
            while (reply := reader.gets()) is not False:
                replies.append(reply)
    return str(replies[-1]).partition(" ")[0]


def tryagains(cluster: TestCluster) -> int:
    lines = b"".join(node.call("INFO", "errorstats") for node in cluster.primaries()).decode().splitlines()
    return sum(int(line.rpartition("=")[2]) for line in lines if line.startswith("errorstat_TRYAGAIN:"))


async def check_all_went_well(load: Load) -> None:
    """Every call was answered, every answer is true, and every index fits."""
    assert load.troubles == []
    assert load.completed == load.created
    states = await states_of(load.backend, load.created)
    assert set(states.values()) == {PublicState.COMPLETED}
    assert await doubled(load.backend, {execution_id.tag for execution_id in load.created}) == []
    await check_store(load.backend.client)

"""What is checked when a store is opened: version, partitions, address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from flowfabric import Settings, open_backend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.wire.connection import check_server
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import BackendUnavailable, InvalidInput, PartitionMismatch, UnsupportedServer
from tests.servers import TestCluster, TestServer, free_port, start_one_node_cluster, start_standalone


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with start_standalone() as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with start_one_node_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def _empty(server: TestServer) -> None:
    server.call("FLUSHALL")


async def test_the_first_to_open_records_the_partition_counts(server: TestServer) -> None:
    backend = await open_backend(server.url, Settings(num_flow_partitions=8))
    assert backend.partitions == PartitionConfig(num_flow_partitions=8)
    assert server.call("HGET", "ff:config:partitions", "num_flow_partitions") == b"8"
    await backend.close()


async def test_other_partition_counts_are_refused_and_change_nothing(server: TestServer) -> None:
    first = await open_backend(server.url, Settings(num_flow_partitions=8))
    await first.close()
    before = server.call("HGETALL", "ff:config:partitions")
    with pytest.raises(
        PartitionMismatch, match=r"set up with 8, the settings say 16.*FLOWFABRIC_NUM_FLOW_PARTITIONS=8"
    ):
        await open_backend(server.url, Settings(num_flow_partitions=16))
    assert server.call("HGETALL", "ff:config:partitions") == before


async def shards_of(url: str, settings: Settings | None = None) -> int:
    backend = await open_backend(url, settings or Settings())
    await backend.close()
    return backend.partitions.lane_shards


async def test_the_shards_of_a_lane_are_recorded_and_taken_over_by_those_who_name_none(server: TestServer) -> None:
    assert await shards_of(server.url, Settings(lane_shards=4)) == 4
    assert server.call("HGET", "ff:config:partitions", "lane_shards") == b"4"
    # Written first, so that nobody who comes in between takes the record for one that knows no shards.
    assert server.call("HKEYS", "ff:config:partitions")[0] == b"lane_shards"
    assert await shards_of(server.url) == 4
    assert await shards_of(server.url, Settings(lane_shards=4)) == 4


async def test_other_lane_shards_are_refused_and_change_nothing(server: TestServer) -> None:
    assert await shards_of(server.url) == 1
    before = server.call("HGETALL", "ff:config:partitions")
    with pytest.raises(
        PartitionMismatch, match=r"set up with 1, the settings say 4.*FLOWFABRIC_LANE_SHARDS=1"
    ) as caught:
        await open_backend(server.url, Settings(lane_shards=4))
    assert caught.value.details["field"] == "lane_shards"
    assert server.call("HGETALL", "ff:config:partitions") == before


async def test_a_record_that_names_no_lane_shards_means_one(server: TestServer) -> None:
    counts = ("num_flow_partitions", 256, "num_budget_partitions", 32, "num_quota_partitions", 32)
    server.call("HSET", "ff:config:partitions", *counts)
    assert await shards_of(server.url) == 1
    assert await shards_of(server.url, Settings(lane_shards=1)) == 1
    with pytest.raises(PartitionMismatch, match="lane_shards: the store was set up with 1"):
        await open_backend(server.url, Settings(lane_shards=2))
    assert server.call("HKEYS", "ff:config:partitions")[3:] == [b"layout"], "and it is ours from now on"


@pytest.mark.parametrize("recorded", ["many", "0", "257"])
async def test_a_record_with_unusable_lane_shards_is_refused(server: TestServer, recorded: str) -> None:
    server.call("HSET", "ff:config:partitions", "lane_shards", recorded)
    with pytest.raises(PartitionMismatch, match="lane_shards"):
        await open_backend(server.url)


async def test_more_shards_than_partitions_are_refused_before_anything_is_written(server: TestServer) -> None:
    with pytest.raises(InvalidInput, match=r"lane_shards.*at most num_flow_partitions, which is 8"):
        await open_backend(server.url, Settings(num_flow_partitions=8, lane_shards=9))
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize(("partitions", "shards"), [(256, 8), (5, 5)])
async def test_a_lane_has_eight_shards_in_a_cluster_unless_there_are_fewer_partitions(
    cluster: TestCluster, partitions: int, shards: int
) -> None:
    cluster.nodes[0].call("FLUSHALL")
    assert await shards_of(cluster.url, Settings(num_flow_partitions=partitions)) == shards
    assert await shards_of(cluster.url, Settings(num_flow_partitions=partitions, lane_shards=shards)) == shards


async def test_of_many_that_open_an_empty_store_at_once_one_decides(server: TestServer) -> None:
    counts = [1, 2, 3, 4] * 3
    openings = (open_backend(server.url, Settings(lane_shards=count)) for count in counts)
    opened = await asyncio.gather(*openings, return_exceptions=True)
    recorded = int(server.call("HGET", "ff:config:partitions", "lane_shards"))
    for count, outcome in zip(counts, opened, strict=True):
        if count == recorded:
            assert isinstance(outcome, ValkeyBackend)
            await outcome.close()
        else:
            assert isinstance(outcome, PartitionMismatch)


async def test_a_redis_address_opens_the_same_store(server: TestServer) -> None:
    backend = await open_backend(f"redis://{server.host}:{server.port}")
    assert backend.partitions.num_flow_partitions == 256
    await backend.close()


@pytest.mark.parametrize(("server_name", "version"), [("valkey", "7.1.9"), ("redis", "6.2.14"), ("keydb", "9.9.9")])
def test_an_old_or_unknown_server_is_refused(server_name: str, version: str) -> None:
    with pytest.raises(UnsupportedServer, match=r"redis 7\.0 or valkey 7\.2"):
        check_server("somewhere", server_name, version)


@pytest.mark.parametrize(("server_name", "version"), [("redis", "7.0.0"), ("valkey", "9.1.2"), ("valkey", "7.2.0")])
def test_a_new_enough_server_is_accepted(server_name: str, version: str) -> None:
    check_server("somewhere", server_name, version)


async def test_nobody_there_is_said_with_the_address() -> None:
    port = free_port()
    with pytest.raises(BackendUnavailable, match=str(port)):
        await open_backend(f"valkey://127.0.0.1:{port}", Settings(retry_budget_ms=50, connect_timeout_ms=100))


async def test_an_unknown_scheme_says_which_there_are() -> None:
    with pytest.raises(InvalidInput, match="embedded"):
        await open_backend("mysql://localhost")

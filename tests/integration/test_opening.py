"""What is checked when a store is opened: version, partitions, address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flowfabric import Settings, open_backend
from flowfabric.backends.valkey.connection import check_server
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import BackendUnavailable, InvalidInput, PartitionMismatch, UnsupportedServer
from tests.servers import TestServer, free_port, start_standalone


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with start_standalone() as running:
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

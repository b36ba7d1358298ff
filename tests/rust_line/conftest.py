"""A fabric with both: a store with our library, our client on it, and a connection of the Rust line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import valkey

from flowfabric import Fabric, Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.secrets import ensure_secret
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import lane_partitions
from tests.rust_line.worker import Worker
from tests.servers import TestServer, start_standalone

SECRET = "5e" * 32
LANE = "agents"


@pytest.fixture(scope="session")
def shared_server() -> Iterator[TestServer]:
    with start_standalone() as running:
        yield running


@pytest.fixture
async def fabric(shared_server: TestServer) -> AsyncIterator[Fabric]:
    shared_server.call("FLUSHALL")
    settings = Settings(url=shared_server.url, num_flow_partitions=8, waitpoint_secret=SECRET)
    async with Fabric.connect(settings) as connected:
        await ensure_secret(connected.backend, settings)
        yield connected


@pytest.fixture
def backend(fabric: Fabric) -> ValkeyBackend:
    assert isinstance(fabric.backend, ValkeyBackend)
    return fabric.backend


@pytest.fixture
def rust(shared_server: TestServer, backend: ValkeyBackend) -> Iterator[Worker]:
    """A worker of the Rust line for the lane, without capabilities."""
    shards = lane_partitions(LaneId(LANE), backend.partitions)
    with valkey.Valkey(host=shared_server.host, port=shared_server.port) as connected:
        yield Worker(connected, LANE, [shard.tag for shard in shards])

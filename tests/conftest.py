"""The servers of a test run, and the stores on them. Every test finds an empty store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import valkey
from hypothesis import HealthCheck, settings

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.config import Settings
from flowfabric.core.partition import PartitionConfig
from flowfabric.testing import ManualClock
from tests.conformance.batched import BatchedBackend
from tests.conformance.over_http import OverHttp
from tests.http_server import stop_servers
from tests.servers import (
    TestCluster,
    TestServer,
    start_one_node_cluster,
    start_standalone,
    start_three_node_cluster,
)

pytest_plugins = ["tests.secrets_in_logs", "tests.suites"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.hookimpl(optionalhook=True)  # whoever runs one test may do without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Many tests wait for something most of their time: one process more than there are processors."""
    return (os.cpu_count() or 1) + 1


# Where the conformance suites run: one server, one-node and three-node clusters, and the batch surface.
TOPOLOGIES = ("embedded", "batched", "cluster", "three_nodes", "http")


@pytest.fixture(scope="session")
def wire_server() -> Iterator[TestServer]:
    """A plain server with the released library, for callers that know only FCALL."""
    with start_standalone() as server:
        server.call("FUNCTION", "LOAD", bundle().text)
        yield server


@pytest.fixture(scope="session")
def wire_cluster() -> Iterator[TestCluster]:
    with start_one_node_cluster() as cluster:
        cluster.nodes[0].call("FUNCTION", "LOAD", bundle().text)
        yield cluster


@pytest.fixture(params=["standalone", "cluster"])
def wire(request: pytest.FixtureRequest) -> Iterator[valkey.Valkey]:
    """Another program's connection, to a standalone server and to a one-node cluster that refuses cross-slot keys."""
    if request.param == "standalone":
        port = request.getfixturevalue("wire_server").port
    else:
        port = request.getfixturevalue("wire_cluster").nodes[0].port
    client = valkey.Valkey(port=port)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(scope="session")
def embedded_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("embedded")
    server = asyncio.run(EmbeddedServer.join(directory))
    yield f"embedded://{directory}"
    asyncio.run(server.leave())


@pytest.fixture(scope="session")
def cluster_url() -> Iterator[str]:
    with start_one_node_cluster() as cluster:
        yield cluster.url


@pytest.fixture(scope="session")
def three_nodes_url() -> Iterator[str]:
    with start_three_node_cluster() as cluster:
        yield cluster.url


@pytest.fixture(scope="session")
def batched_url(embedded_url: str) -> str:
    return embedded_url


@pytest.fixture(scope="session")
def http_url(embedded_url: str) -> Iterator[str]:
    yield embedded_url
    stop_servers()


@pytest.fixture(params=TOPOLOGIES)
def topology(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def store_url(request: pytest.FixtureRequest, topology: str) -> str:
    url: str = request.getfixturevalue(f"{topology}_url")
    return url


def kind_of(topology: str) -> type[ValkeyBackend]:
    return {"batched": BatchedBackend, "http": OverHttp}.get(topology, ValkeyBackend)


async def open_clean(url: str, kind: type[ValkeyBackend] = ValkeyBackend) -> ValkeyBackend:
    """An empty store whose library has the manual clock, with one partition a lane on every topology."""
    backend = await kind.open(Settings(url=url), bundle(manual_clock=True))
    await backend.client.execute_on_primaries("FLUSHALL")
    backend.partitions = PartitionConfig()  # the store's record went with the rest
    return backend


@pytest.fixture
def lane_shards() -> int:
    """In how many partitions a lane lives; a module or class that needs several overrides it."""
    return 1


@pytest.fixture
async def backend(store_url: str, topology: str, lane_shards: int) -> AsyncIterator[ValkeyBackend]:
    opened = await open_clean(store_url, kind_of(topology))
    if lane_shards > 1:
        await opened.close()
        settings = Settings(url=store_url, lane_shards=lane_shards)
        opened = await kind_of(topology).open(settings, bundle(manual_clock=True))
    yield opened
    await opened.close()


@pytest.fixture
async def clock(backend: ValkeyBackend) -> ManualClock:
    return await ManualClock.start(backend.client)

"""The stores of a test run. Every test finds an empty store; servers are started when a test first asks for one.

Nothing heavy is imported here: a test of plain functions starts at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import valkey

    from flowfabric.backends.ports import EngineBackend
    from tests.servers import TestCluster, TestServer
    from tests.stores.kinds import Stores
    from tests.stores.probe import Clock, Probe, Store

pytest_plugins = ["tests.secrets_in_logs", "tests.suites"]

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # in the background of a shell; programs of tests would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # whoever runs one test may do without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Many tests wait for something most of their time: one process more than there are processors."""
    return (os.cpu_count() or 1) + 1


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """How long an example takes says more about the machine than about the code."""
    if "hypothesis" in module_path.read_text():
        from hypothesis import HealthCheck, settings

        settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("patient")


@pytest.fixture(scope="session")
def wire_server() -> Iterator[TestServer]:
    """A plain server with the released library, for callers that know only FCALL."""
    from flowfabric.backends.valkey.library.bundle import bundle
    from tests.servers import start_standalone

    with start_standalone() as server:
        server.call("FUNCTION", "LOAD", bundle().text)
        yield server


@pytest.fixture(scope="session")
def wire_cluster() -> Iterator[TestCluster]:
    from flowfabric.backends.valkey.library.bundle import bundle
    from tests.servers import start_one_node_cluster

    with start_one_node_cluster() as cluster:
        cluster.nodes[0].call("FUNCTION", "LOAD", bundle().text)
        yield cluster


@pytest.fixture(params=["standalone", "cluster"])
def wire(request: pytest.FixtureRequest) -> Iterator[valkey.Valkey]:
    """Another program's connection, to a standalone server and to a one-node cluster that refuses cross-slot keys."""
    import valkey

    if request.param == "standalone":
        port = request.getfixturevalue("wire_server").port
    else:
        port = request.getfixturevalue("wire_cluster").nodes[0].port
    client = valkey.Valkey(port=port)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    from tests.stores.kinds import Stores

    opened = Stores(tmp_path_factory.mktemp("stores"))
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def embedded_url(stores: Stores) -> str:
    return stores.url("embedded")


@pytest.fixture(scope="session")
def cluster_url(stores: Stores) -> str:
    return stores.url("cluster")


@pytest.fixture(scope="session")
def three_nodes_url(stores: Stores) -> str:
    return stores.url("three_nodes")


@pytest.fixture
def topology() -> str:
    """The kind of store; suites that run on several give a fixture of this name with parameters."""
    return "embedded"


@pytest.fixture
def store(stores: Stores, topology: str) -> Store:
    return stores.get(topology)


@pytest.fixture
def store_url(stores: Stores, topology: str) -> str:
    return stores.url(topology)


@pytest.fixture
def lane_shards() -> int:
    """In how many partitions a lane lives; a module or class that needs several overrides it."""
    return 1


@pytest.fixture
async def probe(request: pytest.FixtureRequest, store: Store, lane_shards: int) -> AsyncIterator[Probe]:
    """The store of this test, empty. Its time stands still for a test that has its clock."""
    opened = await store.open(lane_shards=lane_shards, holds_clock="clock" in request.fixturenames)
    yield opened
    await opened.close()


@pytest.fixture
def backend(probe: Probe) -> EngineBackend:
    return probe.backend


@pytest.fixture
def clock(probe: Probe) -> Clock:
    return probe.clock

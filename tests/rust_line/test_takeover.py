"""A store of the Rust original is refused and left as it is; a library that it put in the place of ours is put back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import valkey

from flowfabric import Settings, open_backend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION
from flowfabric.backends.valkey.library.layout import LAYOUT
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import FlowFabricError, Unavailable
from tests.load import one_life
from tests.rust_line import original
from tests.servers import TestCluster, TestServer, start_standalone, start_three_node_cluster

Write = Callable[[valkey.Valkey], None]


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with start_standalone() as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with start_three_node_cluster() as running:
        yield running


@pytest.fixture
def client(server: TestServer) -> Iterator[valkey.Valkey]:
    with valkey.Valkey(host=server.host, port=server.port) as connected:
        connected.flushall()
        connected.execute_command("FUNCTION", "FLUSH")
        yield connected


def load_library(client: valkey.Valkey) -> None:
    client.execute_command("FUNCTION", "LOAD", "REPLACE", original.LIBRARY)


def records_without_an_index(client: valkey.Valkey) -> None:
    client.hset(f"ff:exec:{original.TAG}:{original.WAITING}:core", mapping=original.core(original.WAITING))


STORES: dict[str, tuple[tuple[Write, ...], str]] = {
    "a server that worked": (
        (original.write_counts, original.write_secrets, load_library, original.write_records, original.write_flow),
        "all_executions is a set",
    ),
    "records": ((original.write_counts, original.write_records), "all_executions is a set"),
    "a flow without members": ((original.write_counts, original.write_flow), "flow_index is a set"),
    "records without counts": ((original.write_records,), "all_executions is a set"),
    "records without an index": ((records_without_an_index,), "has a field partition_id"),
    "only its library": ((original.write_counts, original.write_secrets, load_library), "version 6"),
}


@pytest.mark.parametrize("store", STORES)
async def test_a_store_of_the_original_is_refused_and_left_byte_identical(
    server: TestServer, client: valkey.Valkey, store: str
) -> None:
    writes, said = STORES[store]
    for write in writes:
        write(client)
    before = original.snapshot(client)
    with pytest.raises(Unavailable, match=said) as caught:
        await open_backend(server.url)
    assert original.snapshot(client) == before
    assert (caught.value.code, caught.value.retryable) == ("layout_mismatch", False)
    assert "Nothing was changed. Use another" in caught.value.message


async def test_forcing_takes_its_library_but_never_its_data(server: TestServer, client: valkey.Valkey) -> None:
    load_library(client)
    original.write_records(client)
    before = original.snapshot(client)
    with pytest.raises(Unavailable, match=r"data of the Rust original, whose .* version 6"):
        await open_backend(server.url, Settings(force_library_load=True))
    assert original.snapshot(client) == before
    client.flushall()
    backend = await open_backend(server.url, Settings(force_library_load=True))
    await backend.close()
    assert client.execute_command("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()


async def test_another_database_number_of_a_server_without_its_library_is_free(
    server: TestServer, client: valkey.Valkey
) -> None:
    original.write_records(client)
    before = {key: client.dump(key) for key in client.keys("*")}
    backend = await open_backend(f"{server.url}/1")
    await backend.close()
    assert {key: client.dump(key) for key in client.keys("*")} == before


@pytest.mark.parametrize("data_on", [0, 1, 2])
async def test_every_primary_of_a_cluster_is_looked_at(cluster: TestCluster, data_on: int) -> None:
    for node in cluster.nodes:
        node.call("FLUSHALL")
        node.call("FUNCTION", "FLUSH")
    cluster.nodes[data_on].call("FUNCTION", "LOAD", original.LIBRARY)
    with pytest.raises(Unavailable, match="the function library of the Rust original, version 6"):
        await open_backend(cluster.url)
    cluster.nodes[data_on].call("FUNCTION", "FLUSH")
    tag = tag_on(cluster, data_on)
    cluster.nodes[data_on].call("SADD", f"ff:idx:{tag}:all_executions", "x")
    with pytest.raises(Unavailable, match=f"{tag}:all_executions is a set"):
        await open_backend(cluster.url)
    assert [node.call("FUNCTION", "LIST") for node in cluster.nodes] == [[], [], []]
    assert sum(node.call("DBSIZE") for node in cluster.nodes) == 1


def tag_on(cluster: TestCluster, node: int) -> str:
    """A partition that lives on a node."""
    first, last = next(iter(valkey_slots(cluster, node)))
    slot_of = cluster.nodes[0].call
    return next(t for t in (f"{{fp:{n}}}" for n in range(256)) if first <= slot_of("CLUSTER", "KEYSLOT", t) <= last)


def valkey_slots(cluster: TestCluster, node: int) -> Iterator[tuple[int, int]]:
    port = cluster.nodes[node].port
    for first, last, primary, *_ in cluster.nodes[0].call("CLUSTER", "SLOTS"):
        if primary[1] == port:
            yield first, last


async def test_the_first_to_open_an_empty_store_marks_it(server: TestServer, client: valkey.Valkey) -> None:
    backend = await open_backend(server.url)
    await backend.close()
    assert client.hget("ff:config:partitions", "layout") == LAYOUT.encode()


async def test_what_workers_of_the_original_leave_before_us_does_not_stand_in_the_way(
    server: TestServer, client: valkey.Valkey
) -> None:
    original.write_secrets(client)
    client.set("ff:worker:rust-1:alive", "1")
    client.set("ff:worker:rust-1:caps", "gpu")
    client.sadd("ff:idx:workers", "rust-1")
    backend = await open_backend(server.url)
    await backend.close()


async def test_our_own_store_from_before_the_mark_gets_it(server: TestServer, client: valkey.Valkey) -> None:
    first = await ValkeyBackend.open(Settings(url=server.url))
    await one_life(first)
    await first.close()
    for lost in (("HDEL", "ff:config:partitions", "layout"), ("DEL", "ff:config:partitions")):
        client.execute_command(*lost)
        await (await open_backend(server.url)).close()
        assert client.hget("ff:config:partitions", "layout") == LAYOUT.encode()


async def test_a_layout_of_another_release_is_refused(server: TestServer, client: valkey.Valkey) -> None:
    client.hset("ff:config:partitions", mapping={"layout": "python-9", "lane_shards": 1})
    with pytest.raises(Unavailable, match=r"layout 'python-9', this release knows 'python-1'"):
        await open_backend(server.url)
    assert client.execute_command("FUNCTION", "LIST") == []


async def test_a_library_that_was_replaced_under_us_is_put_back_before_anything_runs(
    server: TestServer, client: valkey.Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    backend = await open_backend(server.url)
    load_library(client)
    with caplog.at_level(logging.WARNING), pytest.raises(FlowFabricError) as caught:
        await backend.cancel_execution(
            c.CancelExecutionArgs(
                execution_id=ExecutionId(original.WAITING), reason="enough", source=c.CancelSource.OPERATOR_OVERRIDE
            )
        )
    await backend.close()
    assert caught.value.code == "execution_not_found", "the call was made again, on our own function"
    assert client.exists("ran-the-other-function") == 0
    assert client.execute_command("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("flowfabric")]
    assert f"the function library of another program, version 6, by ours, version {LIBRARY_VERSION}" in said


async def test_a_library_that_was_replaced_while_we_were_away_is_put_back(
    server: TestServer, client: valkey.Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    await (await open_backend(server.url)).close()
    load_library(client)
    with caplog.at_level(logging.WARNING):
        await (await open_backend(server.url)).close()
    assert client.execute_command("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()
    assert "version 6" in caplog.text


READS = {
    "describe": lambda backend, x: backend.describe_execution(x),
    "get": lambda backend, x: backend.get_execution(x),
    "result": lambda backend, x: backend.get_execution_result(x),
    "attempts": lambda backend, x: backend.list_attempts(x),
    "explain": lambda backend, x: backend.explain_execution(x),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("execution_id", [original.WAITING, original.FINISHED])
async def test_a_record_of_the_original_is_named_as_such_by_every_read(
    server: TestServer, client: valkey.Valkey, execution_id: str, read: str
) -> None:
    backend = await open_backend(server.url)
    original.write_records(client)
    try:
        with pytest.raises(FlowFabricError, match="written by") as caught:
            await READS[read](backend, ExecutionId(execution_id))
    finally:
        await backend.close()
    assert caught.value.code == "layout_mismatch"

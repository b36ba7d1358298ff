"""One primary and its replicas, named in one URL: whoever is the primary is found, before and after a failover."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from flowfabric import Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library.bundle import LIBRARY_VERSION
from flowfabric.backends.valkey.wire import client as client_module
from flowfabric.backends.valkey.wire.client import StandaloneClient
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.core.ids import LaneId
from flowfabric.core.states import PublicState
from flowfabric.errors import BackendUnavailable, UnsupportedServer
from tests.fakes import HELLO, SILENCE, fake
from tests.load import Load, doubled, states_of, under_load
from tests.servers import (
    HOST,
    TestServer,
    eventually_async,
    free_port,
    is_in_step,
    start_one_node_cluster,
    start_standalone,
    start_standalone_with_replica,
)
from tests.valkey.invariants import check_store

LANES = [LaneId(f"lane-{number}") for number in range(4)]
LIVES = 60

Pair = tuple[TestServer, TestServer]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with start_standalone_with_replica() as servers:
        yield servers


def url_of(*servers: TestServer) -> str:
    return "valkey://" + ",".join(f"{server.host}:{server.port}" for server in servers)


@asynccontextmanager
async def client_of(url: str, budget_ms: int = 10_000, **times: int) -> AsyncIterator[StandaloneClient]:
    client = StandaloneClient(parse_url(url), Settings(retry_budget_ms=budget_ms, **times))  # type: ignore[arg-type]
    try:
        yield client
    finally:
        await client.close()


async def check_truth(load: Load, *, safe: set[str]) -> set[str]:
    """Which answers were lost; none that was safe, none doubled, no index wrong."""
    states = await states_of(load.backend, load.created)
    lost = {id_ for id_, state in states.items() if state is None}
    lost |= {id_ for id_ in load.completed if states[id_] is not PublicState.COMPLETED}
    assert not lost & safe
    assert await doubled(load.backend, {execution_id.tag for execution_id in load.created}) == []
    await check_store(load.backend.client)
    return set(lost)


async def test_the_promoted_replica_of_a_killed_primary_is_found_under_load(pair: Pair) -> None:
    primary, replica = pair
    backend = await ValkeyBackend.open(Settings(url=url_of(*pair)))
    async with under_load(backend, LANES) as load:
        tags = {await some_tag(load)}
        await load.until_more(LIVES, tags)
        safe: set[str] = set(load.completed)
        assert await backend.client.execute("WAIT", 1, 5_000) == 1
        await load.until_more(LIVES, tags)
        await asyncio.to_thread(primary.kill)
        replica.call("REPLICAOF", "NO", "ONE")
        await load.until_more(LIVES, tags)
    lost = await check_truth(load, safe=safe)
    print(f"{len(lost)} of {len(load.created)} executions lost, {len(load.troubles)} calls failed")
    for step, _, error in load.troubles:
        assert step == "claim" or lost, (step, error)
    assert replica.call("FCALL", "ff_version", 0) == str(LIBRARY_VERSION).encode()
    await backend.close()


async def test_a_primary_that_hands_over_loses_nothing_and_no_call_fails(pair: Pair) -> None:
    primary, replica = pair
    backend = await ValkeyBackend.open(Settings(url=url_of(*pair)))
    async with under_load(backend, LANES) as load:
        tags = {await some_tag(load)}
        await load.until_more(LIVES, tags)
        primary.call("FAILOVER", "TO", HOST, replica.port, "TIMEOUT", 5_000)
        await eventually_async(lambda: is_primary(replica), "the replica has taken over")
        await load.until_more(LIVES, tags)
    assert load.troubles == []
    assert not await check_truth(load, safe=set(load.created))
    assert not is_primary(primary)
    await backend.close()


async def some_tag(load: Load) -> str:
    await eventually_async(lambda: load.completed, "a first life")
    return next(iter(load.completed)).tag


def is_primary(server: TestServer) -> bool:
    return bool(server.call("ROLE")[0] == b"master")


async def test_the_order_of_the_names_does_not_matter(pair: Pair) -> None:
    primary, replica = pair
    for url in (url_of(primary, replica), url_of(replica, primary)):
        async with client_of(url) as client:
            assert await client.execute("SET", "a", url) == b"OK"
            connection = await client.dedicated()
            assert connection.is_primary
            await connection.close()
    await eventually_async(
        lambda: b"name=flowfabric" not in replica.call("CLIENT", "LIST"), "the replica is left alone"
    )


async def test_a_dead_server_among_the_names_does_no_harm(pair: Pair) -> None:
    url = f"valkey://{HOST}:{free_port()}," + url_of(*pair).removeprefix("valkey://")
    async with client_of(url) as client:
        assert await client.execute("SET", "a", 1) == b"OK"


async def test_a_silent_server_among_the_names_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_SECOND_OPINION_S", 0.05)
    async with (
        fake(hello=SILENCE) as silent,
        fake() as server,
        client_of(f"{silent.url},{server.url.removeprefix('valkey://')}") as client,
    ):
        assert await client.execute("SET", "a", 1) == b"OK"


async def test_two_primaries_are_refused_until_one_follows_the_other() -> None:
    with start_standalone() as one, start_standalone() as two:
        async with client_of(url_of(one, two), 50) as client:
            with pytest.raises(BackendUnavailable, match=r"more than one primary: .*; make one the replica") as caught:
                await client.execute("SET", "a", 1)
            assert caught.value.details["sent"] is False
        async with client_of(url_of(one, two)) as client:
            waiting = asyncio.create_task(client.execute("SET", "a", 1))
            one.call("REPLICAOF", HOST, two.port)
            assert await waiting == b"OK"
            assert two.call("GET", "a") == b"1"


async def test_a_demoted_primary_is_left_at_the_first_write() -> None:
    with start_standalone_with_replica() as (primary, replica):
        async with client_of(url_of(primary, replica)) as client:
            await client.execute("SET", "a", 1)
            replica.call("REPLICAOF", "NO", "ONE")
            primary.call("REPLICAOF", HOST, replica.port)
            assert await client.execute("INCR", "a") == 2
            assert replica.call("GET", "a") == b"2"


async def test_no_primary_among_the_names_is_said_of_each(pair: Pair) -> None:
    primary, replica = pair
    primary.kill()
    async with client_of(url_of(primary, replica), 50) as client:
        with pytest.raises(BackendUnavailable, match=rf"none is a primary .*{replica.port}: is a replica") as caught:
            await client.execute("SET", "a", 1)
    assert str(primary.port) in caught.value.message


async def test_a_refused_login_is_reported_at_once(pair: Pair) -> None:
    for server in pair:
        server.call("CONFIG", "SET", "requirepass", "hush")
    async with client_of(url_of(*pair).replace("//", "//:wrong@")) as client:
        with pytest.raises(BackendUnavailable, match="refused the login"):
            await client.execute("PING")


async def test_nodes_of_a_cluster_need_the_cluster_scheme() -> None:
    with start_one_node_cluster() as cluster, start_standalone() as other:
        async with client_of(url_of(cluster.nodes[0], other)) as client:
            with pytest.raises(UnsupportedServer, match=r"belongs to a cluster; use valkey\+cluster://"):
                await client.execute("SET", "a", 1)


async def test_a_sentinel_is_not_a_server() -> None:
    hello = HELLO.replace(b"*4", b"*6") + b"$4\r\nmode\r\n$8\r\nsentinel\r\n"
    async with fake(hello=hello) as sentinel, client_of(sentinel.url) as client:
        with pytest.raises(UnsupportedServer, match="is a Sentinel; name the servers"):
            await client.execute("SET", "a", 1)


async def test_a_primary_that_wants_replicas_is_waited_for() -> None:
    with start_standalone("--min-replicas-to-write", "1") as primary:
        async with client_of(primary.url) as client:
            waiting = asyncio.create_task(client.execute("SET", "a", 1))
            await eventually_async(lambda: b"NOREPLICAS" in primary.call("INFO", "errorstats"), "it was refused")
            replicaof = f"{HOST} {primary.port}"
            with start_standalone("--replicaof", replicaof, "--repl-diskless-sync-delay", "0") as replica:
                await eventually_async(lambda: is_in_step(replica), "the replica is in step")
                assert await waiting == b"OK"

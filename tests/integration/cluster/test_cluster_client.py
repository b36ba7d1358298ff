"""The cluster client against real clusters: routing, moved slots, migrations, lost nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from flowfabric.backends.valkey.wire.client import Client
from flowfabric.backends.valkey.wire.cluster import ClusterClient, key_slot
from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable
from tests.servers import (
    HOST,
    TestCluster,
    begin_migration,
    eventually_async,
    free_port,
    give_slot,
    start_one_node_cluster,
    start_replica,
    start_three_node_cluster,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with start_three_node_cluster() as running:
        yield running


@pytest.fixture
async def client(cluster: TestCluster) -> AsyncIterator[Client]:
    for node in cluster.nodes:
        node.call("FLUSHALL")
    opened = await open_client(Settings(url=cluster.url))
    yield opened
    await opened.close()


def redirections(cluster: TestCluster, kind: str) -> int:
    lines = b"".join(node.call("INFO", "errorstats") for node in cluster.nodes).decode().splitlines()
    return sum(int(line.rpartition("=")[2]) for line in lines if line.startswith(f"errorstat_{kind}:"))


async def test_each_key_goes_straight_to_its_owner(client: Client, cluster: TestCluster) -> None:
    before = redirections(cluster, "MOVED")
    keys = [f"ff:exec:{{fp:{n}}}:core" for n in range(300)]
    assert await asyncio.gather(*(client.execute("SET", key, key, key=key) for key in keys)) == [b"OK"] * 300
    sizes = [node.call("DBSIZE") for node in cluster.nodes]
    assert sum(sizes) == 300
    assert all(sizes)
    assert await asyncio.gather(*(client.execute("GET", key, key=key) for key in keys)) == [
        key.encode() for key in keys
    ]
    assert redirections(cluster, "MOVED") == before
    assert client.topology == "cluster"


async def test_keys_of_one_tag_can_be_used_together(client: Client) -> None:
    await client.execute("MSET", "{fp:1}a", 1, "{fp:1}b", 2, key="{fp:1}a")
    assert await client.execute("MGET", "{fp:1}a", "{fp:1}b", key="anything{fp:1}") == [b"1", b"2"]


async def test_an_error_reply_is_not_repeated(client: Client) -> None:
    await client.execute("SET", "text", "x", key="text")
    with pytest.raises(ServerReplyError, match="WRONGTYPE"):
        await client.execute("LPUSH", "text", "y", key="text")


async def test_a_moved_slot_is_followed_and_learnt(client: Client, cluster: TestCluster) -> None:
    key = "{moved}"
    source = cluster.owner(key_slot(key))
    await client.execute("GET", key, key=key)
    give_slot(cluster, key_slot(key), cluster.other_than(source))
    before = redirections(cluster, "MOVED")
    assert await client.execute("SET", key, "x", key=key) == b"OK"
    assert await client.execute("GET", key, key=key) == b"x"
    assert redirections(cluster, "MOVED") == before + 1
    await client.execute("DEL", key, key=key)
    give_slot(cluster, key_slot(key), source)


async def test_a_slot_in_migration_is_asked_for_at_its_new_home(client: Client, cluster: TestCluster) -> None:
    key = "{migrating}"
    source = cluster.owner(key_slot(key))
    target = cluster.other_than(source)
    await client.execute("GET", key, key=key)
    begin_migration(key_slot(key), source, target)
    sets = [client.execute("SET", f"{key}{n}", n, key=key) for n in range(50)]
    assert await asyncio.gather(*sets) == [b"OK"] * 50
    assert redirections(cluster, "ASK") >= 50
    assert target.call("CLUSTER", "COUNTKEYSINSLOT", key_slot(key)) == 50
    give_slot(cluster, key_slot(key), target)
    gets = [client.execute("GET", f"{key}{n}", key=key) for n in range(50)]
    assert await asyncio.gather(*gets) == [str(n).encode() for n in range(50)]
    target.call("FLUSHALL")
    give_slot(cluster, key_slot(key), source)


async def test_keys_split_by_a_migration_are_waited_for(client: Client, cluster: TestCluster) -> None:
    key = "{split}"
    source = cluster.owner(key_slot(key))
    target = cluster.other_than(source)
    await client.execute("SET", f"{key}a", 1, key=key)
    begin_migration(key_slot(key), source, target)
    await client.execute("SET", f"{key}b", 2, key=key)
    both = asyncio.create_task(client.execute("MGET", f"{key}a", f"{key}b", key=key))
    await eventually_async(lambda: redirections(cluster, "TRYAGAIN") > 0, "the server asked to try again")
    source.call("MIGRATE", HOST, target.port, f"{key}a", 0, 5_000)
    give_slot(cluster, key_slot(key), target)
    assert await both == [b"1", b"2"]
    target.call("FLUSHALL")
    give_slot(cluster, key_slot(key), source)


async def test_commands_without_key_visit_every_primary_in_turn(client: Client, cluster: TestCluster) -> None:
    replies = [await client.execute("CLUSTER", "MYID") for _ in range(6)]
    assert sorted({reply for reply in replies if isinstance(reply, bytes)}) == sorted(
        node.call("CLUSTER", "MYID") for node in cluster.nodes
    )


async def test_a_function_can_be_loaded_on_every_primary(client: Client, cluster: TestCluster) -> None:
    code = "#!lua name=probe\nredis.register_function('probe', function() return 'here' end)"
    assert await client.execute_on_primaries("FUNCTION", "LOAD", "REPLACE", code) == [b"probe"] * 3
    for node in await client.primaries():
        assert await node.execute("FCALL", "probe", 0) == b"here"
    with pytest.raises(ServerReplyError, match="already exists"):
        await client.execute_on_primaries("FUNCTION", "LOAD", code)
    await client.execute_on_primaries("FUNCTION", "DELETE", "probe")


async def test_a_dedicated_connection_leads_to_the_owner_of_its_key(client: Client, cluster: TestCluster) -> None:
    connection = await client.dedicated(key="{fp:5}")
    owner = cluster.owner(key_slot("{fp:5}"))
    assert await connection.send("CLUSTER", "MYID") == owner.call("CLUSTER", "MYID")
    await connection.close()


async def test_a_lost_connection_to_a_node_is_replaced(client: Client, cluster: TestCluster) -> None:
    await client.execute("SET", "a", 1, key="a")
    for node in cluster.nodes:
        node.call("CLIENT", "KILL", "TYPE", "normal")
    assert await client.execute("GET", "a", key="a", repeatable=True) == b"1"


async def test_one_seed_that_answers_is_enough(cluster: TestCluster) -> None:
    url = f"valkey+cluster://{HOST}:{free_port()},{HOST}:{cluster.nodes[1].port}"
    client = await open_client(Settings(url=url))
    assert await client.execute("SET", "a", 1, key="a") == b"OK"
    await client.close()


async def test_no_seed_that_answers_is_a_clear_error() -> None:
    client = await open_client(Settings(url=f"valkey+cluster://{HOST}:{free_port()}", retry_budget_ms=50))
    with pytest.raises(BackendUnavailable, match=r"gave up after \d+ tries.*no node returned the slot map"):
        await client.execute("GET", "a", key="a")
    await client.close()


async def test_a_refused_login_is_reported_at_once() -> None:
    with start_one_node_cluster() as cluster:
        cluster.nodes[0].call("CONFIG", "SET", "requirepass", "hush")
        client = await open_client(Settings(url=cluster.url.replace("//", "//:wrong@")))
        with pytest.raises(BackendUnavailable, match="refused the login"):
            await client.execute("GET", "a", key="a")
        await client.close()


async def test_a_cluster_of_one_node_serves_everything() -> None:
    with start_one_node_cluster() as cluster:
        client = await open_client(Settings(url=cluster.url))
        keys = [f"{{fp:{n}}}" for n in range(100)]
        await asyncio.gather(*(client.execute("SET", key, 1, key=key) for key in keys))
        assert cluster.nodes[0].call("DBSIZE") == 100
        assert await client.execute("DBSIZE") == 100
        assert await client.execute_on_primaries("DBSIZE") == [100]
        await client.close()


async def test_a_failover_loses_no_acknowledged_write() -> None:
    with start_three_node_cluster() as cluster:
        primary = cluster.owner(key_slot("n"))
        with start_replica(cluster, primary) as replica:
            client = ClusterClient(parse_url(cluster.url), Settings(retry_budget_ms=20_000))
            assert await client.execute("SET", "n", 41, key="n") == b"OK"
            assert await client.execute("WAIT", 1, 5_000, key="n") == 1  # on the connection that wrote
            nodes = await client.primaries()
            primary.kill()
            waiting = asyncio.create_task(client.execute("SETRANGE", "n", 1, "2", key="n", repeatable=True))
            connecting = asyncio.create_task(client.dedicated(key="n"))
            everywhere = asyncio.create_task(client.execute_on_primaries("PING", repeatable=True))
            await asyncio.to_thread(replica.call, "CLUSTER", "FAILOVER", "TAKEOVER")
            assert await waiting == 2
            assert await client.execute("GET", "n", key="n") == b"42"
            assert (await connecting).peer == replica.url
            assert await everywhere == [b"PONG"] * 3
            ids = {await node.execute("CLUSTER", "MYID") for node in nodes}  # known before: they lead to the new one
            assert ids == {node.call("CLUSTER", "MYID") for node in cluster.primaries()}
            await (await connecting).close()
            await client.close()


def test_slots_follow_the_published_rule() -> None:
    assert key_slot("123456789") == 12_739
    assert key_slot("{user1000}.following") == key_slot("{user1000}.followers") == key_slot("user1000")
    assert key_slot("foo{}{bar}") == key_slot("foo{}{bar}") != key_slot("bar")
    assert key_slot("foo{{bar}}zap") == key_slot("{bar")
    assert key_slot("foo{bar}{zap}") == key_slot("bar")
    assert key_slot("no{tag") != key_slot("tag")

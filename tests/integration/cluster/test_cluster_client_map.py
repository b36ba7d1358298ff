"""How the cluster client reads the map of slots and follows redirections, against fake nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flowfabric.backends.valkey.wire.cluster import ClusterClient
from flowfabric.backends.valkey.wire.connection import Reply
from flowfabric.backends.valkey.wire.slots import SlotRange, parse_shards, parse_slots
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable, BadReply
from tests.fakes import OK, Answer, FakeServer, fake
from tests.servers import HOST


def node(port: int, role: bytes = b"master", **more: bytes | int | None) -> list[Reply]:
    facts: dict[str, Reply] = {"port": port, "ip": b"10.0.0.1", "endpoint": b"10.0.0.1", "role": role}
    facts["health"] = b"online"
    facts.update(more)
    return [part for name, value in facts.items() for part in (name.replace("_", "-").encode(), value)]


def shard(slots: list[Reply], *nodes: Reply) -> list[Reply]:
    return [b"slots", slots, b"nodes", list(nodes)]


def test_shards_name_the_primary_of_each_range() -> None:
    reply: Reply = [
        shard([0, 99, 200, 299], node(7001, b"slave"), node(7000)),
        shard([100, 199], node(7002)),
        shard([], node(7003)),
    ]
    assert parse_shards(reply, "asked", tls=False) == [
        SlotRange(0, 99, ("10.0.0.1", 7000)),
        SlotRange(200, 299, ("10.0.0.1", 7000)),
        SlotRange(100, 199, ("10.0.0.1", 7002)),
    ]


def test_after_a_failover_the_primary_that_is_online_counts() -> None:
    reply: Reply = [shard([0, 9], node(7000, health=b"fail"), node(7001))]
    assert parse_shards(reply, "asked", tls=False) == [SlotRange(0, 9, ("10.0.0.1", 7001))]


def test_two_primaries_in_one_shard_leave_the_owner_open() -> None:
    assert parse_shards([shard([0, 9], node(7000), node(7001))], "asked", tls=False) is None


@pytest.mark.parametrize(
    ("endpoint", "ip", "expected"),
    [
        (b"db.example", b"10.0.0.1", "db.example"),
        (b"?", b"10.0.0.1", "10.0.0.1"),
        (None, b"10.0.0.1", "10.0.0.1"),
        (b"", b"", "asked"),
    ],
)
def test_a_node_is_called_by_its_endpoint(endpoint: bytes | None, ip: bytes, expected: str) -> None:
    reply: Reply = [shard([0, 9], node(7000, endpoint=endpoint, ip=ip))]
    assert parse_shards(reply, "asked", tls=False) == [SlotRange(0, 9, (expected, 7000))]


def test_tls_has_a_port_of_its_own() -> None:
    reply: Reply = [shard([0, 9], node(7000, tls_port=7443))]
    assert parse_shards(reply, "asked", tls=True) == [SlotRange(0, 9, ("10.0.0.1", 7443))]
    assert parse_shards(reply, "asked", tls=False) == [SlotRange(0, 9, ("10.0.0.1", 7000))]


def test_slots_are_understood_as_well() -> None:
    reply: Reply = [[0, 99, [b"10.0.0.1", 7000, b"id"], [b"10.0.0.2", 7001, b"id"]], [100, 199, [b"", 7002]]]
    assert parse_slots(reply, "asked") == [
        SlotRange(0, 99, ("10.0.0.1", 7000)),
        SlotRange(100, 199, ("asked", 7002)),
    ]


@pytest.mark.parametrize("reply", [None, 5, [5], [[b"slots", 5, b"nodes", []]], [shard([0], node(7000))]])
def test_a_malformed_map_is_a_bad_reply(reply: Reply) -> None:
    with pytest.raises(BadReply):
        parse_shards(reply, "asked", tls=False)
    with pytest.raises(BadReply):
        parse_slots([[b"x"]], "asked")


def owner_of_all(server: FakeServer, command: list[bytes]) -> bytes:
    """The answers of a node that owns every slot and knows no SHARDS."""
    if command == [b"CLUSTER", b"SHARDS"]:
        return b"-ERR Unknown subcommand or wrong number of arguments for 'SHARDS'\r\n"
    if command == [b"CLUSTER", b"SLOTS"]:
        return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port_of(server)
    return OK


def redirecting(text: str) -> Answer:
    """Such a node, but one that sends every other command away."""

    def answer(server: FakeServer, command: list[bytes]) -> bytes:
        return owner_of_all(server, command) if command[0] == b"CLUSTER" else f"-{text}\r\n".encode()

    return answer


def port_of(server: FakeServer) -> int:
    return int(server.url.rpartition(":")[2])


@asynccontextmanager
async def client_of(server: FakeServer, budget_ms: int = 5_000) -> AsyncIterator[ClusterClient]:
    url = server.url.replace("valkey://", "valkey+cluster://")
    client = ClusterClient(parse_url(url), Settings(retry_budget_ms=budget_ms))
    try:
        yield client
    finally:
        await client.close()


async def test_a_server_without_shards_is_asked_for_slots() -> None:
    async with fake(owner_of_all) as server, client_of(server) as client:
        assert await client.execute("SET", "a", 1, key="a") == b"OK"


@pytest.mark.parametrize("host", [HOST, ""])
async def test_a_redirection_without_host_means_the_same_host(host: str) -> None:
    async with (
        fake(owner_of_all) as new,
        fake(redirecting(f"MOVED 15495 {host}:{port_of(new)}")) as old,
        client_of(old) as client,
    ):
        assert await client.execute("SET", "a", 1, key="a") == b"OK"
        assert await client.execute("SET", "a", 2, key="a") == b"OK"
        assert old.commands[2:] == [b"SET a 1"]
        assert new.commands == [b"SET a 1", b"CLUSTER SHARDS", b"CLUSTER SLOTS", b"SET a 2"]


async def test_asking_comes_right_before_its_command() -> None:
    async with (
        fake() as new,
        fake(redirecting(f"ASK 15495 {HOST}:{port_of(new)}")) as old,
        client_of(old) as client,
    ):
        assert await client.execute("SET", "a", 1, key="a") == b"OK"
        assert await client.execute("SET", "a", 2, key="a") == b"OK"
        assert new.commands == [b"ASKING", b"SET a 1", b"ASKING", b"SET a 2"]
        assert old.commands[2:] == [b"SET a 1", b"SET a 2"]  # and no new question about slots


async def test_nodes_that_point_at_each_other_end_with_the_budget() -> None:
    async with fake(owner_of_all) as one, fake(redirecting(f"MOVED 15495 {HOST}:{port_of(one)}")) as two:
        one.answer = redirecting(f"MOVED 15495 {HOST}:{port_of(two)}")
        async with client_of(one, budget_ms=60) as client:
            with pytest.raises(BackendUnavailable, match=r"gave up after .* MOVED") as caught:
                await client.execute("SET", "a", 1, key="a")
        assert caught.value.details["sent"] is False


async def test_an_unreadable_redirection_is_a_bad_reply() -> None:
    async with fake(redirecting("MOVED nowhere")) as server, client_of(server) as client:
        with pytest.raises(BadReply, match="cannot follow"):
            await client.execute("SET", "a", 1, key="a")

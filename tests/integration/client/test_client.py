"""The client against a real server: pipelining, logins, errors, cancellation, dedicated connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from flowfabric.backends.valkey.wire.client import Client
from flowfabric.backends.valkey.wire.connection import Reply, ServerReplyError
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable, UnsupportedServer
from tests.servers import TestServer, eventually_async, start_standalone


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with start_standalone() as running:
        yield running


@pytest.fixture
async def client(server: TestServer) -> AsyncIterator[Client]:
    server.call("FLUSHALL")
    opened = await open_client(Settings(url=server.url, retry_budget_ms=5_000))
    yield opened
    await opened.close()


async def test_replies_are_bytes_numbers_lists_and_none(client: Client) -> None:
    assert await client.execute("SET", "a", b"\x00\xff") == b"OK"
    assert await client.execute("GET", "a") == b"\x00\xff"
    assert await client.execute("GET", "missing") is None
    assert await client.execute("INCRBY", "n", 41) == 41
    assert await client.execute("MGET", "a", "missing") == [b"\x00\xff", None]
    assert client.topology == "standalone"


async def test_every_caller_gets_its_own_reply(client: Client) -> None:
    replies = await asyncio.gather(*(client.execute("ECHO", str(n)) for n in range(2_000)))
    assert replies == [str(n).encode() for n in range(2_000)]


async def test_commands_run_in_the_order_they_were_given(client: Client) -> None:
    replies = await asyncio.gather(*(client.execute("INCR", "n") for _ in range(2_000)))
    assert replies == list(range(1, 2_001))


async def test_many_callers_share_one_connection(client: Client, server: TestServer) -> None:
    await asyncio.gather(*(client.execute("PING") for _ in range(100)))
    assert server.call("CLIENT", "LIST").count(b"name=flowfabric") == 1


async def test_large_values_pass_in_both_directions(client: Client) -> None:
    value = bytes(range(256)) * 40_000  # 10 MB: several reads, and writing pauses
    await asyncio.gather(*(client.execute("SET", f"big{n}", value) for n in range(4)))
    assert await asyncio.gather(*(client.execute("GET", f"big{n}") for n in range(4))) == [value] * 4


async def test_an_error_reply_reaches_its_caller_only(client: Client) -> None:
    outcomes = await asyncio.gather(
        client.execute("SET", "text", "x"),
        client.execute("LPUSH", "text", "y"),
        client.execute("GET", "text"),
        return_exceptions=True,
    )
    assert outcomes[0] == b"OK"
    assert isinstance(outcomes[1], ServerReplyError)
    assert outcomes[1].prefix == "WRONGTYPE"
    assert outcomes[2] == b"x"


async def test_a_cancelled_caller_does_not_shift_the_replies(client: Client) -> None:
    tasks = [asyncio.create_task(client.execute("ECHO", str(n))) for n in range(200)]
    await asyncio.sleep(0)  # every command is queued
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[1::2] == [str(n).encode() for n in range(1, 200, 2)]
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
    assert await client.execute("ECHO", "after") == b"after"


async def test_a_lost_connection_reports_that_the_command_may_have_run(client: Client, server: TestServer) -> None:
    blocked = asyncio.create_task(client.execute("BLPOP", "list", 0))
    await _until_blocked(server)
    server.call("CLIENT", "KILL", "TYPE", "normal")
    with pytest.raises(BackendUnavailable) as caught:
        await blocked
    assert caught.value.details["sent"] is True
    assert await client.execute("PING") == b"PONG"


async def test_a_repeatable_command_is_sent_again_after_a_loss(client: Client, server: TestServer) -> None:
    blocked = asyncio.create_task(client.execute("BLPOP", "list", 0, repeatable=True))
    await _until_blocked(server)
    server.call("CLIENT", "KILL", "TYPE", "normal")
    await _until_blocked(server)
    server.call("RPUSH", "list", "x")
    assert await blocked == [b"list", b"x"]


async def test_a_dedicated_connection_blocks_nobody_else(client: Client, server: TestServer) -> None:
    connection = await client.dedicated()
    blocked = connection.send("BLPOP", "list", 0)
    await _until_blocked(server)
    assert await client.execute("RPUSH", "list", "x") == 1
    assert await blocked == [b"list", b"x"]
    await connection.close()


async def test_a_dedicated_connection_receives_messages(client: Client) -> None:
    heard: asyncio.Queue[list[Reply]] = asyncio.Queue()
    connection = await client.dedicated(on_message=heard.put_nowait)
    assert await connection.send("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
    assert await client.execute("PUBLISH", "news", "hello") == 1
    assert await heard.get() == [b"message", b"news", b"hello"]
    await connection.close()


async def test_every_primary_of_one_server_is_that_server(client: Client) -> None:
    assert await client.execute_on_primaries("PING") == [b"PONG"]
    (node,) = await client.primaries()
    assert await node.execute("ECHO", "x") == b"x"


async def test_database_name_and_unix_socket_come_from_the_url(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    with start_standalone("--unixsocket", str(path)) as server:
        for url in (f"{server.url}/3?client_name=me", f"valkey+unix://{path}?db=3&client_name=me"):
            client = await open_client(Settings(url=url))
            info = await client.execute("CLIENT", "INFO")
            assert isinstance(info, bytes)
            assert b" name=me " in info
            assert b" db=3 " in info
            await client.close()


async def test_logins() -> None:
    with start_standalone("--requirepass", "hush", "--user", "bob", "on", ">b%b", "~*", "+@all") as server:
        place = f"{server.host}:{server.port}"
        for login in (":hush@", "default:hush@", "bob:b%25b@"):
            client = await open_client(Settings(url=f"valkey://{login}{place}"))
            assert await client.execute("PING") == b"PONG"
            await client.close()
        for login in ("", ":wrong@", "bob:hush@"):
            client = await open_client(Settings(url=f"valkey://{login}{place}"))
            with pytest.raises(BackendUnavailable, match="refused the login") as caught:
                await client.execute("PING")  # at once: no retry could help
            assert "wrong" not in str(caught.value).replace("WRONGPASS", "")
            assert caught.value.details["sent"] is False
            await client.close()


async def test_a_missing_database_is_a_clear_error(server: TestServer) -> None:
    client = await open_client(Settings(url=f"{server.url}/9999"))
    with pytest.raises(BackendUnavailable, match="has no database 9999"):
        await client.execute("PING")
    await client.close()


async def test_a_closed_client_says_so(server: TestServer) -> None:
    client = await open_client(Settings(url=server.url))
    pending = asyncio.create_task(client.execute("BLPOP", "nothing", 0))
    await _until_blocked(server)
    await client.close()
    with pytest.raises(BackendUnavailable, match="closed by this client"):
        await pending
    with pytest.raises(BackendUnavailable, match="the client is closed"):
        await client.execute("PING")


async def test_a_url_of_a_cluster_to_a_plain_server_is_explained(server: TestServer) -> None:
    client = await open_client(Settings(url=server.url.replace("valkey:", "valkey+cluster:")))
    with pytest.raises(UnsupportedServer, match="not a cluster"):
        await client.execute("GET", "a", key="a")
    await client.close()


async def _until_blocked(server: TestServer) -> None:
    await eventually_async(lambda: b"blocked_clients:1\r\n" in server.call("INFO", "clients"), "a client blocks")

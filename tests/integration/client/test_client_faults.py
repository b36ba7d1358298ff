"""The client against a server that misbehaves on purpose: silence, losses, refusals, old versions, TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.wire.client import StandaloneClient
from flowfabric.backends.valkey.wire.connection import Connection, connect
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.config import Settings
from flowfabric.errors import BackendTimeout, BackendUnavailable, BadReply, UnsupportedServer
from tests.fakes import DROP, OK, SILENCE, Answer, FakeServer, fake
from tests.servers import HOST, free_port
from tests.tls import Authority

OLD_HELLO = b"*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n"


@asynccontextmanager
async def client_of(url: str, budget_ms: int = 5_000, **times: int) -> AsyncIterator[StandaloneClient]:
    client = StandaloneClient(parse_url(url), Settings(retry_budget_ms=budget_ms, **times))  # type: ignore[arg-type]
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def connection_to(url: str) -> AsyncIterator[Connection]:
    connection = await connect(parse_url(url), connect_timeout_ms=5_000, command_timeout_ms=None)
    try:
        yield connection
    finally:
        await connection.close()


def scripted(*answers: bytes) -> Answer:
    """The answers in turn, and the last one for ever."""
    queue = list(answers)
    return lambda _, __: queue.pop(0) if len(queue) > 1 else queue[0]


async def test_commands_of_one_loop_turn_leave_in_one_write() -> None:
    async with fake() as server, client_of(server.url) as client:
        await client.execute("PING")
        await asyncio.gather(*(client.execute("SET", f"k{n}", n) for n in range(100)))
        assert server.reads == [1, 100]


async def test_callers_that_arrive_while_connecting_share_the_connection() -> None:
    async with fake() as server, client_of(server.url) as client:
        first = asyncio.create_task(client.execute("PING"))
        others = [asyncio.create_task(client.execute("PING")) for _ in range(50)]
        await asyncio.sleep(0)
        first.cancel()  # who asked first leaves; the attempt goes on for the others
        assert await asyncio.gather(*others) == [b"OK"] * 50
        assert server.connections == 1


async def test_a_command_without_answer_times_out() -> None:
    answer: Answer = lambda _, command: SILENCE if command[0] == b"GET" else OK  # noqa: E731
    async with fake(answer) as server, client_of(server.url, 0, command_timeout_ms=50) as client:
        outcomes = await asyncio.gather(client.execute("GET", "a"), client.execute("GET", "b"), return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, BackendTimeout)
            assert outcome.details["sent"] is True
            assert "no answer within 50 ms" in outcome.message
        assert await client.execute("PING") == b"OK"  # on a fresh connection
        assert server.connections == 2


async def test_a_login_without_answer_times_out() -> None:
    async with (
        fake(hello=SILENCE) as server,
        client_of(server.url, 0, connect_timeout_ms=50) as client,
    ):
        with pytest.raises(BackendTimeout, match="no connection within 50 ms") as caught:
            await client.execute("PING")
        assert caught.value.details["sent"] is False


async def test_a_lost_command_is_not_repeated_by_itself() -> None:
    async with fake(scripted(DROP, OK)) as server, client_of(server.url) as client:
        with pytest.raises(BackendUnavailable, match="connection lost") as caught:
            await client.execute("INCR", "n")
        assert caught.value.details["sent"] is True
        assert server.commands == [b"INCR n"]


async def test_a_server_that_dies_while_it_is_opened_is_asked_again() -> None:
    """A worker that starts in that moment has not asked for anything that could be done twice."""
    version = str(bundle().version).encode()
    answers = (
        DROP, b"-ERR Function not found\r\n", DROP, b"-ERR Library 'flowfabric' already exists\r\n",
        b"$%d\r\n%s\r\n" % (len(version), version),
    )  # fmt: skip
    async with fake(scripted(*answers)) as server, client_of(server.url) as client:
        await Library(client, bundle()).ensure()
        asked = [command[:16] for command in server.commands]
        assert asked[:4] == [b"FCALL ff_version", b"FCALL ff_version", b"FUNCTION LOAD #!", b"FUNCTION LOAD #!"]


async def test_a_lost_command_that_is_repeatable_is_sent_again() -> None:
    async with fake(scripted(DROP, DROP, OK)) as server, client_of(server.url) as client:
        assert await client.execute("SET", "a", 1, repeatable=True) == b"OK"
        assert server.commands == [b"SET a 1"] * 3
        assert server.connections == 3


async def test_held_back_commands_are_known_to_be_unsent() -> None:
    async with fake() as server, connection_to(server.url) as connection:
        server.reading.clear()
        first = connection.send("SET", "a", b"x" * 30_000_000)  # more than all buffers on the way hold
        await asyncio.sleep(0)  # the write, after which the transport asks us to pause
        second = connection.send("SET", "b", "y")
        await asyncio.sleep(0)
        server.drop_all()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        sent = [outcome.details["sent"] for outcome in outcomes if isinstance(outcome, BackendUnavailable)]
        assert sent == [True, False]


async def test_held_back_commands_leave_when_the_server_reads_again() -> None:
    async with fake() as server, connection_to(server.url) as connection:
        server.reading.clear()
        first = connection.send("SET", "a", b"x" * 30_000_000)
        await asyncio.sleep(0)
        second = connection.send("SET", "b", "y")
        server.reading.set()
        assert await asyncio.gather(first, second) == [b"OK", b"OK"]


@pytest.mark.parametrize("reply", [b"-LOADING Valkey is loading", b"-BUSY running a script", b"-TRYAGAIN later"])
async def test_a_passing_refusal_is_waited_out(reply: bytes) -> None:
    async with (
        fake(scripted(reply + b"\r\n", reply + b"\r\n", OK)) as server,
        client_of(server.url) as client,
    ):
        assert await client.execute("INCR", "n") == b"OK"
        assert len(server.commands) == 3


async def test_a_refusal_that_does_not_pass_ends_with_the_budget() -> None:
    async with fake(scripted(b"-LOADING x\r\n")) as server, client_of(server.url, 60) as client:
        with pytest.raises(BackendUnavailable, match=r"gave up after \d+ tries in 0\.\d s; last: LOADING x") as e:
            await client.execute("INCR", "n")
        assert e.value.details["sent"] is False


async def test_a_demoted_server_is_left_for_the_new_primary() -> None:
    def answer(server: FakeServer, _: list[bytes]) -> bytes:
        return b"-READONLY You can't write against a read only replica.\r\n" if server.connections == 1 else OK

    async with fake(answer) as server, client_of(server.url) as client:
        assert await client.execute("INCR", "n") == b"OK"
        assert server.connections == 2


async def test_a_cluster_behind_a_plain_url_is_explained() -> None:
    async with fake(scripted(b"-MOVED 1 10.0.0.1:6379\r\n")) as server, client_of(server.url) as client:
        with pytest.raises(UnsupportedServer, match=r"use valkey\+cluster"):
            await client.execute("GET", "a")


async def test_an_unreachable_server_is_named_with_tries_and_time() -> None:
    url = f"valkey://me:hush@{HOST}:{free_port()}"
    async with client_of(url, 60) as client:
        with pytest.raises(BackendUnavailable, match=r"valkey://127.*gave up after \d+ tries in 0\.\d s") as caught:
            await client.execute("PING", repeatable=True)
    assert caught.value.details["sent"] is False
    assert "hush" not in str(caught.value)


async def test_a_server_that_comes_late_is_waited_for() -> None:
    port = free_port()
    client = StandaloneClient(parse_url(f"valkey://{HOST}:{port}"), Settings())
    refused = asyncio.Event()
    waiting = asyncio.create_task(client.execute("INCR", "n"))

    async def see_it_refused() -> None:
        with pytest.raises(BackendUnavailable):
            await client._node.connection()
        refused.set()

    await asyncio.gather(see_it_refused(), refused.wait())
    async with fake(port=port) as server:
        assert await waiting == b"OK"
        assert server.commands == [b"INCR n"]
        await client.close()


async def test_the_hook_runs_before_each_connect() -> None:
    calls = 0

    async def hook() -> None:
        nonlocal calls
        calls += 1

    async with fake(scripted(DROP, OK)) as server:
        client = StandaloneClient(parse_url(server.url), Settings(), before_connect=hook)
        assert await client.execute("PING", repeatable=True) == b"OK"
        assert calls == server.connections == 2
        await client.close()


@pytest.mark.parametrize("hello", [OLD_HELLO, b"-ERR unknown command 'HELLO'\r\n"])
async def test_a_server_that_is_too_old_is_refused(hello: bytes) -> None:
    async with fake(hello=hello) as server, client_of(server.url) as client:
        with pytest.raises(UnsupportedServer, match=r"7\.0"):
            await client.execute("PING")


@pytest.mark.parametrize("hello", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b":1\r\n"])
async def test_something_that_is_not_valkey_is_a_bad_reply(hello: bytes) -> None:
    async with fake(hello=hello) as server, client_of(server.url) as client:
        with pytest.raises(BadReply):
            await client.execute("PING")


async def test_an_answer_to_no_question_ends_the_connection() -> None:
    async with fake(scripted(OK + OK, OK)) as server, client_of(server.url) as client:
        assert await client.execute("PING") == b"OK"
        assert await client.execute("PING", repeatable=True) == b"OK"
        assert server.connections == 2


async def test_closing_while_connecting_ends_the_attempt() -> None:
    async with fake(hello=SILENCE) as server, client_of(server.url) as client:
        waiting = asyncio.create_task(client.execute("PING"))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(BackendUnavailable, match="the client is closed"):
            await waiting


async def test_tls_checks_the_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    own = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    async with fake(tls=context) as server:
        url = server.url.replace("valkey://", "valkeys://")
        for option in (f"tls_ca={authority.cert}", "tls_insecure=true"):
            async with client_of(f"{url}?{option}") as client:
                assert await client.execute("PING") == b"OK"
        async with client_of(url) as client:
            with pytest.raises(BackendUnavailable, match="certificate is not trusted"):
                await client.execute("PING")

"""A server that strangers cannot stop: connections that never end, never send, never read, or are too many."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.server.http.connection import PIPELINED
from tests.server.serving import serving
from tests.server.tenants.strangers import HEALTHY, attacked, connect, status, stranger

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
FEW_MB = 16


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (HEAD + b"X-Long: ", b"a" * 65_536),
        (HEAD, b"X-Many: b\r\n" * 4_096),
        (b"GET /", b"a" * 65_536),
        (b"", b"\r\n" * 16_384),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 65_536),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: ", b"x" * 65_536),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"X-Many: b\r\n" * 4_096),
    ],
    ids=["header", "headers", "address", "line ends", "chunk extension", "trailer", "trailers"],
)
async def test_headers_that_never_end_are_cut_off_and_memory_stays(
    embedded_url: str, first: bytes, more: bytes
) -> None:
    async with attacked(embedded_url) as server:
        assert await status(server.url, HEALTHY) == 200
        before = server.rss_mb
        for _ in range(3):
            async with stranger(server.url) as one:
                sent, is_open = 0, await one.send(first)
                while is_open and sent < 64 << 20:
                    is_open, sent = await one.send(more), sent + len(more)
                    if one.reader.at_eof():
                        break
        assert await status(server.url, HEALTHY) == 200
        assert server.rss_mb - before < FEW_MB


async def test_too_large_a_head_is_431(backend: ValkeyBackend) -> None:
    async with serving(backend) as served:
        for head in (b"X: " + b"a" * 40_000, b"\r\n".join(b"X-%d: b" % number for number in range(101))):
            assert await status(served.url, HEAD + head + b"\r\n\r\n") == 431
        assert await status(served.url, b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n") == 431
        assert await status(served.url, HEAD + b"X: " + b"a" * 30_000 + b"\r\n\r\n") == 200
        answer = await served.http.get("/healthz", headers={"X": "a" * 40_000})
        assert answer.json()["code"] == "headers_too_large"
        assert answer.json()["details"] == {"limit": 32_768}


async def test_a_head_that_does_not_end_in_time_is_408(backend: ValkeyBackend) -> None:
    async with serving(backend, header_timeout_ms=100) as served:
        async with stranger(served.url) as one:
            await one.send(HEAD)
            assert (await one.rest()).startswith(b"HTTP/1.1 408")
        async with stranger(served.url) as quiet:
            assert await quiet.rest() == b""
        async with stranger(served.url) as dripping:
            while await dripping.send(b"\r\n") and not dripping.reader.at_eof():  # noqa: ASYNC110 - it drips
                await asyncio.sleep(0.005)


async def test_a_body_that_nobody_reads_ends_in_time_too(backend: ValkeyBackend) -> None:
    async with serving(backend, body_timeout_ms=100) as served, stranger(served.url) as one:
        await one.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        assert (await one.rest()).startswith(b"HTTP/1.1 200")


async def test_a_client_that_does_not_read_is_let_go(backend: ValkeyBackend) -> None:
    async with serving(backend, write_timeout_ms=200) as served, stranger(served.url) as one:
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]
        is_open = True
        async with asyncio.timeout(20):
            while is_open:
                is_open = await one.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.sleep(0.01)


async def test_half_sent_requests_starve_nobody(embedded_url: str) -> None:
    async with attacked(embedded_url, files=128) as server:
        held = [await connect(server.url) for _ in range(100)]
        for one in held:
            await one.send(HEAD)
        for _ in range(100):
            held.append(await connect(server.url))
            await held[-1].send(b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
            assert await status(server.url, HEALTHY) == 200
        assert await status(server.url, HEALTHY.replace(b"/healthz", b"/readyz")) == 200
        for one in held:
            one.writer.close()


async def test_the_oldest_idle_connection_makes_room_and_a_busy_one_stays(backend: ValkeyBackend) -> None:
    async with serving(backend, connections=4, connections_per_peer=3) as served:
        busy = await connect(served.url)
        await busy.send(b"GET /v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await busy.answer() == 200
        idle = [await connect(served.url) for _ in range(2)]
        for one in idle:
            await one.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await one.answer() == 200
        assert await status(served.url, HEALTHY) == 200
        assert b"alive" in await idle[0].rest()  # its answer, and then the end
        await idle[1].send(HEALTHY)
        assert b"HTTP/1.1 200" in await idle[1].rest()
        assert not busy.reader.at_eof()
        for one in (busy, *idle):
            one.writer.close()


@pytest.mark.parametrize(("settings", "answer"), [({"connections_per_peer": 2}, 429), ({"connections": 2}, 503)])
async def test_where_all_are_busy_a_new_one_is_refused(
    backend: ValkeyBackend, settings: dict[str, int], answer: int
) -> None:
    async with serving(backend, **{"connections": 8, "connections_per_peer": 8} | settings) as served:
        streams = [await connect(served.url) for _ in range(2)]
        for one in streams:
            await one.send(b"GET /v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await one.answer() == 200
        async with stranger(served.url) as late:
            assert await late.answer() == answer
        streams.pop().writer.close()
        async with asyncio.timeout(20):
            while await status(served.url, HEALTHY) != 200:  # noqa: ASYNC110 - the end of one is told to nobody
                await asyncio.sleep(0.01)
        streams.pop().writer.close()


async def test_connections_of_a_named_proxy_are_not_counted_by_address(backend: ValkeyBackend) -> None:
    async with serving(backend, connections=8, connections_per_peer=1, proxies=("127.0.0.0/8",)) as served:
        held = [await connect(served.url) for _ in range(5)]
        for one in held:
            await one.send(HEALTHY)
            assert await one.answer() == 200
            one.writer.close()


async def test_pipelined_requests_have_an_end(backend: ValkeyBackend) -> None:
    async with serving(backend) as served:
        async with stranger(served.url) as one:
            await one.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * PIPELINED + HEALTHY)
            assert (await one.rest()).count(b"HTTP/1.1 200") == PIPELINED + 1
        async with stranger(served.url) as many:
            await many.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)
            assert (await many.rest()).count(b"HTTP/1.1 200") <= PIPELINED + 1
        assert await status(served.url, HEALTHY) == 200


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Content-Length : 3\r\n",
        b"Content-Length: +3\r\n",
        b" folded: 1\r\n",
    ],
)
async def test_lengths_that_two_could_read_differently_are_400(backend: ValkeyBackend, head: bytes) -> None:
    async with serving(backend) as served, stranger(served.url) as one:
        await one.send(b"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n0\r\n\r\n")
        said = await one.rest()
        assert said.startswith(b"HTTP/1.1 400")
        assert said.count(b"content-length") == 1


async def test_nothing_is_read_behind_an_upgrade(backend: ValkeyBackend) -> None:
    async with serving(backend) as served, stranger(served.url) as one:
        await one.send(HEAD + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        await one.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = await one.rest()
        assert said.startswith(b"HTTP/1.1 200")
        assert b"openapi" not in said

"""A closed HTTP backend refuses calls, and its open waits and streams end with the same error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from flowfabric.backends.http.backend import HttpBackend
from flowfabric.backends.http.transport import Transport
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import BackendUnavailable

LANE = LaneId("default")
ID = ExecutionId.deterministic_for_lane(LANE, PartitionConfig(), "11111111-1111-4111-8111-111111111111")
FRAMES = c.FollowFramesArgs(execution_id=ID, attempt_index=0)


async def wait(backend: HttpBackend) -> None:
    await backend.wait_for_execution(ID, timeout_ms=60_000)


async def tail(backend: HttpBackend) -> None:
    async for _ in backend.tail_events(ID):
        pass


async def follow(backend: HttpBackend) -> None:
    async with backend.follow_attempt_stream(FRAMES) as follower:
        await follower.next()


async def listen(backend: HttpBackend) -> None:
    async with backend.listen_for_work([LANE]):
        pass


async def call(backend: HttpBackend) -> None:
    await backend.get_execution(ID)


WAITS = [wait, tail, follow, listen]


@asynccontextmanager
async def server(reply: bytes = b"") -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A server that begins its reply and never ends it; the event is set when the first request has come."""
    asked = asyncio.Event()
    connections: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        asked.set()
        await reader.read()
        writer.close()
        await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
        host, port = listener.sockets[0].getsockname()
        yield f"http://{host}:{port}", asked
        await asyncio.gather(*connections)


def connected(url: str) -> HttpBackend:
    return HttpBackend(Transport(Settings(url=url)), PartitionConfig())


async def ends_as_closed(task: Awaitable[None]) -> None:
    with pytest.raises(BackendUnavailable, match="the backend is closed") as refusal:
        async with asyncio.timeout(20):
            await task
    assert refusal.value.details["sent"] is False


@pytest.mark.parametrize("use", [call, *WAITS])
async def test_a_closed_backend_refuses_every_call(use: Callable[[HttpBackend], Awaitable[None]]) -> None:
    backend = connected("http://127.0.0.1:1")
    await backend.close()
    await backend.close()
    await ends_as_closed(use(backend))


@pytest.mark.parametrize("use", WAITS)
async def test_closing_ends_what_waits_for_the_server(use: Callable[[HttpBackend], Awaitable[None]]) -> None:
    async with server() as (url, asked):
        backend = connected(url)
        waiting = asyncio.ensure_future(use(backend))
        await asked.wait()
        await backend.close()
        await ends_as_closed(waiting)


async def test_closing_ends_a_stream_that_tries_to_connect_again() -> None:
    """A stream looks for a lost server without end; only closing the backend ends it."""
    backend = connected("http://127.0.0.1:1")
    tailing = asyncio.ensure_future(tail(backend))
    await asyncio.sleep(0)
    await backend.close()
    await ends_as_closed(tailing)


async def test_a_stream_that_nobody_reads_at_the_moment_is_closed_too() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\nevent: a\ndata: 1\n\n") as (url, _):
        transport = Transport(Settings(url=url))
        events = transport.events("/events")
        assert (await anext(events)).kind == "a"
        await transport.close()
        with pytest.raises(BackendUnavailable, match="the backend is closed"):
            await anext(events)


async def test_cancelling_a_wait_is_not_mistaken_for_closing() -> None:
    async with server() as (url, asked):
        backend = connected(url)
        waiting = asyncio.ensure_future(wait(backend))
        await asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await backend.close()

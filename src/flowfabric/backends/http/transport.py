"""HTTP requests to a server: connections, retries, errors and event streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from flowfabric.backends.http.lifetime import Lifetime
from flowfabric.backends.http.problems import Problem
from flowfabric.backends.http.shapes import reader
from flowfabric.config import Settings
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import BackendTimeout, BackendUnavailable, BadReply, FlowFabricError, InvalidInput
from flowfabric.errors.packages import explained

try:
    import httpx
except ModuleNotFoundError as error:
    raise explained(error) from None

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_WAIT_S: Final = 60.0  # the server replies to long polls sooner
_IDLE_S: Final = 30.0  # the server keeps idle connections for longer
_AT_ONCE: Final = 32  # more connections make requests slower

_OF_PROXIES: Final = (502, 503, 504)

_read_problem: Final = reader(Problem)


Query: TypeAlias = list[tuple[str, str | int | float | bool | None]]


class Event(NamedTuple):
    kind: str
    data: bytes
    id: str


class Transport:
    """One server."""

    def __init__(self, settings: Settings) -> None:
        self._peer = _peer(settings.url)
        self.address = f"{urlsplit(settings.url).scheme}://{self._peer}"
        self._budget_s = settings.retry_budget_ms / 1000
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        timeout = httpx.Timeout(_WAIT_S, connect=settings.connect_timeout_ms / 1000)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_IDLE_S)
        # Loading the system's certificates is slow, and http:// needs none.
        verify = httpx.create_ssl_context() if settings.url.startswith("https:") else False
        # Long polls and streams have their own connections, without a limit, so that they do not block calls.
        self._calls, self._waits = (
            httpx.AsyncClient(
                base_url=settings.url.rstrip("/"), headers=headers, timeout=timeout, limits=limits, verify=verify
            )
            for _ in range(2)
        )
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._lifetime = Lifetime()

    async def close(self) -> None:
        self._lifetime.end()
        await self._calls.aclose()
        await self._waits.aclose()

    @staticmethod
    def quoted(value: Any) -> str:
        """A value as a part of a URL path."""
        if isinstance(value, ExecutionId):
            return value.short
        return quote(str.__str__(value) if isinstance(value, str) else str(value), safe=":")

    async def request(
        self, method: str, path: str, *, query: Query | None = None, body: bytes | None = None, waits: bool = False
    ) -> bytes:
        """The body of the reply. An unreachable server is retried within the retry budget."""
        if waits:
            async with self._lifetime.wait():
                return await self._request(self._waits, method, path, query, body)
        async with self._turns:
            return await self._request(self._calls, method, path, query, body)

    async def _request(
        self, client: httpx.AsyncClient, method: str, path: str, query: Query | None, body: bytes | None
    ) -> bytes:
        until = asyncio.get_running_loop().time() + self._budget_s
        pause = _FIRST_PAUSE_S
        headers = {"Content-Type": "application/json"} if body is not None else None
        while True:
            self._lifetime.check()
            try:
                answer = await client.request(method, path, params=query, content=body, headers=headers)
                return self._checked(answer)
            except (httpx.ConnectError, httpx.ConnectTimeout) as cause:
                error: FlowFabricError = BackendUnavailable(f"{self._peer}: {cause}", sent=False)
            except httpx.TimeoutException as cause:
                raise BackendTimeout(f"{self._peer} did not reply in time", sent=True) from cause
            except httpx.TransportError as cause:
                if method != "GET":
                    raise BackendUnavailable(f"{self._peer}: {cause}", sent=True) from cause
                error = BackendUnavailable(f"{self._peer}: {cause}", sent=True)
            if asyncio.get_running_loop().time() + pause > until:
                raise error
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def events(
        self, path: str, *, query: Query | None = None, after: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """The events of a stream, until it ends or the backend is closed."""
        stream = self._events(path, query, after)
        try:
            while True:
                async with self._lifetime.wait():
                    event = await anext(stream, None)
                if event is None:
                    return
                yield event
        finally:
            await stream.aclose()

    async def _events(self, path: str, query: Query | None, after: str | None) -> AsyncGenerator[Event, None]:
        """The events of a stream; after a lost connection it continues after the last event."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                async for event in self._read(path, query, after):
                    yield event
                    after, pause = event.id or after, _FIRST_PAUSE_S
                    if event.kind == "end":
                        return
            except (httpx.TransportError, BackendUnavailable):
                pass
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _read(self, path: str, query: Query | None, after: str | None) -> AsyncIterator[Event]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        async with self._waits.stream("GET", path, params=query, headers=headers) as answer:
            if answer.status_code != 200:
                await answer.aread()
                self._checked(answer)
            members: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(":")
                    members[name] = value.removeprefix(" ")
                    continue
                if members.get("event") == "error":
                    raise _error(members["data"].encode())
                if "event" in members:
                    yield Event(members["event"], members.get("data", "").encode(), members.get("id", ""))
                members = {}

    def _checked(self, answer: httpx.Response) -> bytes:
        if answer.is_success:
            return answer.content
        if answer.is_redirect:
            raise BadReply(f"{self._peer} redirects to {answer.headers.get('location', '')!r}; use that address")
        error = _error(answer.content, answer.status_code)
        if error.code == "unauthorized":
            error.message = f"{self._peer}: {error.message}; set FLOWFABRIC_TOKEN to one of its tokens"
        raise error


def _peer(url: str) -> str:
    """The server's address for messages, without a password."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    try:
        is_right = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise InvalidInput(
            "url", f"{parts.scheme}://{place}", "must have a host and, optionally, a port from 1 to 65535"
        )
    return place


def _error(body: bytes, status: int = 0) -> FlowFabricError:
    try:
        problem: Problem = _read_problem(body)
        return problem.error()
    except msgspec.DecodeError:
        if status in _OF_PROXIES:
            return BackendUnavailable(f"a proxy replied {status} for the server", sent=True)
        return BadReply(f"the server replied {status}: {body[:200]!r}")

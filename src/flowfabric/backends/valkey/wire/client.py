"""The client interface, and the client for one server or one primary with its replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, Literal, Protocol

from flowfabric.backends.valkey.wire import connection as wire
from flowfabric.backends.valkey.wire.connection import (
    AccessRefused,
    Argument,
    Connection,
    OnMessage,
    Reply,
    ServerReplyError,
)
from flowfabric.backends.valkey.wire.retrying import REDIRECTIONS, Retry, SingleFlight
from flowfabric.backends.valkey.wire.url import ServerAddress
from flowfabric.config import Settings
from flowfabric.errors import BackendUnavailable, FlowFabricError, UnsupportedServer

__all__ = ["Client", "Hook", "Node", "Reply", "Server", "StandaloneClient", "Topology"]

Topology = Literal["standalone", "cluster"]
Hook = Callable[[], Awaitable[None]]

# How long to wait for the other named servers once one has said that it is the primary.
_SECOND_OPINION_S: Final = 1.0


class Node(Protocol):
    """One primary, or its successor after a failover."""

    async def execute(self, *command: Argument, repeatable: bool = False) -> Reply: ...


class Client(Protocol):
    """Commands to a server or a cluster; an error reply is a ServerReplyError, all else a FlowFabricError."""

    @property
    def topology(self) -> Topology: ...

    async def execute(self, *command: Argument, key: str | None = None, repeatable: bool = False) -> Reply:
        """Run a command where `key` lives; `repeatable` allows a retry when the outcome is unknown."""
        ...

    async def execute_on_primaries(self, *command: Argument, repeatable: bool = False) -> list[Reply]: ...

    async def primaries(self) -> list[Node]: ...

    async def dedicated(
        self,
        *,
        key: str | None = None,
        command_timeout_ms: int | None = None,
        on_message: OnMessage | None = None,
    ) -> Connection:
        """A dedicated connection for blocking reads and subscriptions; the caller closes it."""
        ...

    async def close(self) -> None: ...


class Server:
    """One server, connected on demand; all callers share one connection and one attempt to connect.

    With several hosts in the address, connect to the one that is the primary.
    """

    def __init__(self, address: ServerAddress, settings: Settings, before_connect: Hook | None = None) -> None:
        self.address = address
        self._settings = settings
        self._before_connect = before_connect
        self._connection: Connection | None = None
        self._draining: list[Connection] = []
        self._connecting = SingleFlight(self._connect)
        self._closed = False

    @property
    def live(self) -> Connection | None:
        """The connection if it is usable, else None."""
        connection = self._connection
        return connection if connection is not None and connection.usable else None

    @property
    def quiet(self) -> bool:
        """No connection is open or being opened, so this can be dropped without closing it."""
        open_ones = self._connection is not None or any(not old.closed for old in self._draining)
        return not open_ones and not self._connecting.running

    async def connection(self) -> Connection:
        return self.live or await self._connecting.run()

    async def execute(self, *command: Argument, repeatable: bool = False) -> Reply:
        """Run the command on this server."""
        retry: Retry | None = None
        while True:
            try:
                connection = self._connection
                if connection is None or not connection.usable:
                    connection = await self.connection()
                return await connection.send(*command)
            except (ServerReplyError, BackendUnavailable) as error:
                if self._closed:
                    raise
                if isinstance(error, ServerReplyError):
                    self._heed(error)
                retry = retry or self.retry(repeatable=repeatable)
                await retry.after(error)

    def _heed(self, error: ServerReplyError) -> None:
        if error.prefix in REDIRECTIONS:
            hint = f"{self.address}: belongs to a cluster ({error.text}); use valkey+cluster://"
            raise UnsupportedServer(hint) from error
        if error.prefix == "READONLY":
            self.drain()  # after a failover this name, or another one of the address, leads to the new primary

    def retry(self, *, repeatable: bool) -> Retry:
        return Retry(str(self.address), self._settings.retry_budget_ms, repeatable=repeatable)

    async def dedicated(self, command_timeout_ms: int | None, on_message: OnMessage | None) -> Connection:
        retry: Retry | None = None
        while True:
            try:
                return await self.open(command_timeout_ms, on_message)
            except BackendUnavailable as error:
                if self._closed:
                    raise
                retry = retry or self.retry(repeatable=True)
                await retry.after(error)

    def drain(self) -> None:
        """Stop using the connection; it closes after its last reply."""
        if self._connection is not None:
            self._connection.drain()
            self._draining = [old for old in self._draining if not old.closed] + [self._connection]
            self._connection = None

    async def close(self) -> None:
        self._closed = True
        await self._connecting.cancel()
        self.drain()
        for connection in self._draining:
            await connection.close()

    async def _connect(self) -> Connection:
        self._connection = await self.open(self._settings.command_timeout_ms, None)
        return self._connection

    async def open(self, command_timeout_ms: int | None, on_message: OnMessage | None) -> Connection:
        """Open a new connection, which the caller closes. Does not retry."""
        if self._closed:
            raise BackendUnavailable(f"{self.address}: the client is closed", sent=False)
        if self._before_connect is not None:
            await self._before_connect()

        def connect_to(address: ServerAddress) -> Coroutine[Any, Any, Connection]:
            return wire.connect(
                address,
                connect_timeout_ms=self._settings.connect_timeout_ms,
                command_timeout_ms=command_timeout_ms,
                on_message=on_message,
            )

        if len(self.address.hosts) > 1:
            return await _connect_to_primary(self.address, connect_to)
        return await connect_to(self.address)


async def _connect_to_primary(
    address: ServerAddress, connect_to: Callable[[ServerAddress], Coroutine[Any, Any, Connection]]
) -> Connection:
    """Ask all hosts in parallel for the primary. Two primaries are refused like none: either may be stale."""
    attempts = [asyncio.create_task(connect_to(address.at(host))) for host in address.hosts]
    chosen: Connection | None = None

    def leave(attempt: asyncio.Task[Connection]) -> None:
        if not attempt.cancelled() and attempt.exception() is None and attempt.result() is not chosen:
            attempt.result().abort("not needed")

    try:
        chosen = _the_primary(address, await _answers(attempts))
        return chosen
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(leave)


async def _answers(attempts: Iterable[asyncio.Task[Connection]]) -> list[Connection | BaseException]:
    """The replies of all hosts. Once a primary is found, slow hosts are not waited for: a dead one may never reply."""
    pending = set(attempts)
    done: set[asyncio.Task[Connection]] = set()
    while pending and not any(_is_primary(attempt) for attempt in done):
        ready, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        done |= ready
    if pending:
        ready, _ = await asyncio.wait(pending, timeout=_SECOND_OPINION_S)
        done |= ready
    return [attempt.exception() or attempt.result() for attempt in done]


def _is_primary(attempt: asyncio.Task[Connection]) -> bool:
    return attempt.exception() is None and attempt.result().is_primary


def _the_primary(address: ServerAddress, answers: list[Connection | BaseException]) -> Connection:
    connections = [answer for answer in answers if isinstance(answer, Connection)]
    errors = [answer for answer in answers if not isinstance(answer, Connection)]
    for connection in connections:
        if connection.mode == "cluster":
            raise UnsupportedServer(f"{connection.peer}: belongs to a cluster; use valkey+cluster://")
    primaries = [connection for connection in connections if connection.is_primary]
    if len(primaries) == 1:
        return primaries[0]
    for error in errors:
        if not isinstance(error, BackendUnavailable) or (isinstance(error, AccessRefused) and not primaries):
            raise error
    if primaries:
        names = " and ".join(sorted(connection.peer for connection in primaries))
        raise BackendUnavailable(f"more than one primary: {names}; make one the replica of the other", sent=False)
    replicas = [f"{connection.peer}: is a replica" for connection in connections]
    reasons = [error.message for error in errors if isinstance(error, FlowFabricError)]
    raise BackendUnavailable(f"{address}: none is a primary ({'; '.join(replicas + reasons)})", sent=False)


class StandaloneClient:
    """Client for one server, or for one primary with its replicas."""

    topology: Final = "standalone"

    def __init__(
        self,
        address: ServerAddress,
        settings: Settings,
        *,
        before_connect: Hook | None = None,
        after_close: Hook | None = None,
    ) -> None:
        self._node = Server(address, settings, before_connect)
        self._after_close = after_close

    def execute(
        self, *command: Argument, key: str | None = None, repeatable: bool = False
    ) -> Coroutine[Any, Any, Reply]:
        # Not async: on this hot path a second coroutine shows in the benchmark.
        return self._node.execute(*command, repeatable=repeatable)

    async def execute_on_primaries(self, *command: Argument, repeatable: bool = False) -> list[Reply]:
        return [await self.execute(*command, repeatable=repeatable)]

    async def primaries(self) -> list[Node]:
        return [self._node]

    async def dedicated(
        self,
        *,
        key: str | None = None,
        command_timeout_ms: int | None = None,
        on_message: OnMessage | None = None,
    ) -> Connection:
        return await self._node.dedicated(command_timeout_ms, on_message)

    async def close(self) -> None:
        await self._node.close()
        if self._after_close is not None:
            await self._after_close()

"""Waiting on the partitions' event logs without polling: blocking reads, on connections of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from flowfabric.backends.valkey import keys
from flowfabric.backends.valkey.calls import at_once
from flowfabric.backends.valkey.client import Client, Reply
from flowfabric.backends.valkey.connection import AccessRefused, Connection, ServerReplyError
from flowfabric.backends.valkey.retry import NOT_ALLOWED
from flowfabric.core.contracts.events import ENDINGS
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState
from flowfabric.errors import BackendUnavailable, FlowFabricError

_ENDINGS: Final = {kind.encode(): state for kind, state in ENDINGS.items()}

# In a cluster a connection must be free for another log soon, sooner when some have none.
_CLUSTER_MS: Final = 1_000
_CROWDED_MS: Final = 200
_GRACE_MS: Final = 5_000  # how late the answer of a blocking read may be before the server counts as gone
_ENTRIES: Final = 100
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
_REARM_PAUSE_S: Final = 0.002


class Listener:
    """Somebody who waits for one execution."""

    def __init__(self, *, endings_only: bool) -> None:
        self.ended: PublicState | None = None
        self._endings_only = endings_only
        self._error: Exception | None = None
        self._wake = asyncio.Event()

    def clear(self) -> None:
        """Call it before looking: what happens from then on wakes."""
        self._wake.clear()
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    async def wait(self) -> None:
        """Return when the execution should be looked at again."""
        await self._wake.wait()
        self.check()

    def notice(self, event: bytes) -> None:
        self.ended = _ENDINGS.get(event, self.ended)
        if event in _ENDINGS or not self._endings_only:
            self._wake.set()

    def look_again(self, error: Exception | None = None) -> None:
        self._error = error
        self._wake.set()


class _Log:
    """One partition's log that somebody waits on."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.position: str | None = None  # None: to be learned, and whoever waits must look again then
        self.ready = asyncio.Event()
        self.listeners: dict[bytes, set[Listener]] = {}

    def forget(self, name: bytes, listener: Listener) -> None:
        self.listeners[name].discard(listener)
        if not self.listeners[name]:
            del self.listeners[name]

    def learn(self, position: str) -> None:
        self.position = position
        self.ready.set()
        self._wake_all()

    def lose(self) -> None:
        self.position = None
        self.ready.clear()

    def fail(self, error: Exception) -> None:
        self.ready.set()
        self._wake_all(error)

    def _wake_all(self, error: Exception | None = None) -> None:
        for listeners in self.listeners.values():
            for listener in listeners:
                listener.look_again(error)

    def deliver(self, entries: list[Reply]) -> None:
        """Each entry holds the lines of one step: event, execution, and more."""
        for entry in entries:
            entry_id, (_, _, _, lines) = cast("tuple[bytes, list[bytes]]", entry)
            self.position = entry_id.decode()
            for line in lines.split(b"\n"):
                event, execution_id, _ = line.split(b" ", 2)
                for listener in self.listeners.get(execution_id, ()):
                    listener.notice(event)


class EventTail:
    """Blocking reads of the logs somebody waits on, on connections of their own; none while nobody waits.

    One server: one connection reads all logs. In a cluster a blocking read covers one slot, so each log has its own
    connection, up to a limit; beyond it they take turns. However many wait, a log is read once.
    """

    def __init__(self, client: Client, *, block_ms: int = 5_000, connections: int = 16) -> None:
        self._client = client
        self._block_ms = block_ms
        self._slots = asyncio.Semaphore(connections)
        self._most = connections
        self._readers: dict[str, _Reader] = {}
        self._closed = False

    @asynccontextmanager
    async def listen(self, execution_id: ExecutionId, *, endings_only: bool = False) -> AsyncIterator[Listener]:
        """From the moment this is entered no event of the execution is missed."""
        log = self._log(keys.events(execution_id.tag))
        name, listener = execution_id.encode(), Listener(endings_only=endings_only)
        log.listeners.setdefault(name, set()).add(listener)
        try:
            await log.ready.wait()
            listener.check()
            yield listener
        finally:
            log.forget(name, listener)

    @property
    def connections(self) -> int:
        """How many blocking connections are open."""
        return sum(reader.is_connected for reader in self._readers.values())

    async def close(self) -> None:
        self._closed = True
        readers = list(self._readers.values())
        for reader in readers:
            reader.fail(BackendUnavailable("the backend is closed", sent=False))
            reader.task.cancel()
        await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)
        self._readers.clear()

    def _log(self, key: str) -> _Log:
        if self._closed:
            raise BackendUnavailable("the backend is closed", sent=False)
        name = key if self._client.topology == "cluster" else ""
        if name not in self._readers:
            self._readers[name] = _Reader(
                self._client, self._slots, self._turn_ms, lambda: self._readers.pop(name, None)
            )
        return self._readers[name].log(key)

    def _turn_ms(self) -> tuple[int, bool]:
        """How long a read may block, and whether others wait for the connection."""
        if self._client.topology == "standalone":
            return self._block_ms, False
        crowded = len(self._readers) > self._most
        return min(self._block_ms, _CROWDED_MS if crowded else _CLUSTER_MS), crowded


class _Reader:
    """One blocking connection and the logs it reads; it ends when nobody waits for any of them."""

    def __init__(
        self,
        client: Client,
        slots: asyncio.Semaphore,
        turn_ms: Callable[[], tuple[int, bool]],
        on_end: Callable[[], object],
    ) -> None:
        self._client = client
        self._slots = slots
        self._turn_ms = turn_ms
        self._on_end = on_end
        self._logs: dict[str, _Log] = {}
        self._connection: Connection | None = None
        self._client_id = 0
        self._reading: frozenset[str] = frozenset()  # the logs that the read which is out covers
        self._rearming: asyncio.Task[None] | None = None
        self._pause = _FIRST_PAUSE_S
        self.task = asyncio.create_task(self._run())

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def log(self, key: str) -> _Log:
        """The log of this key; a read that is out is ended, so that the next one covers it."""
        if key not in self._logs:
            self._logs[key] = _Log(key)
            if self._reading and self._rearming is None:
                self._rearming = asyncio.create_task(self._rearm())
        return self._logs[key]

    def fail(self, error: Exception) -> None:
        for log in self._logs.values():
            log.fail(error)

    async def _run(self) -> None:
        try:
            while self._is_wanted():
                await self._attempt()
        except Exception as error:  # whatever it is, nobody is left waiting for nothing
            self.fail(error)
        finally:
            self._on_end()
            if self._rearming is not None:
                self._rearming.cancel()

    async def _attempt(self) -> None:
        """Read until nobody waits, or it is another's turn; what may pass is tried again after a pause."""
        try:
            await self._learn()  # through the client, which finds out where the logs live now
            async with self._slots:
                await self._read()
        except (ServerReplyError, BackendUnavailable) as error:
            if isinstance(error, ServerReplyError) and error.prefix in NOT_ALLOWED:
                raise AccessRefused(error.text, sent=False) from error
            if isinstance(error, AccessRefused):
                raise
            for log in self._logs.values():
                log.lose()
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)

    def _is_wanted(self) -> bool:
        self._logs = {key: log for key, log in self._logs.items() if log.listeners}
        return bool(self._logs)

    async def _read(self) -> None:
        block_ms, _ = self._turn_ms()
        key = next(iter(self._logs))
        connection = await self._client.dedicated(key=key, command_timeout_ms=block_ms + _GRACE_MS)
        try:
            self._connection = connection
            self._client_id = cast("int", await connection.send("CLIENT", "ID"))
            while self._is_wanted():
                await self._learn()
                block_ms, crowded = self._turn_ms()
                self._reading = frozenset(self._logs)
                places = [log.position or "0-0" for log in self._logs.values()]
                reply = await connection.send(
                    "XREAD", "COUNT", _ENTRIES, "BLOCK", block_ms, "STREAMS", *self._logs, *places
                )
                self._reading = frozenset()
                self._pause = _FIRST_PAUSE_S
                for name, entries in cast("list[tuple[bytes, list[Reply]]]", reply or []):
                    self._logs[name.decode()].deliver(entries)
                if crowded:
                    return
        finally:
            self._reading, self._connection = frozenset(), None
            await connection.close()

    async def _learn(self) -> None:
        while missing := [log for log in self._logs.values() if log.position is None]:
            newest = await at_once(
                self._client.execute("XREVRANGE", log.key, "+", "-", "COUNT", 1, key=log.key, repeatable=True)
                for log in missing
            )
            for log, entries in zip(missing, newest, strict=True):
                log.learn(cast("list[list[bytes]]", entries)[0][0].decode() if entries else "0-0")

    async def _rearm(self) -> None:
        """End the read that does not cover every log; one that is still on its way is asked again."""
        try:
            while self._reading and not self._logs.keys() <= self._reading:
                await self._client.execute("CLIENT", "UNBLOCK", self._client_id, repeatable=True)
                await asyncio.sleep(_REARM_PAUSE_S)
        except (FlowFabricError, ServerReplyError):
            if self._connection is not None:
                self._connection.abort("it must read other logs, too")
        finally:
            self._rearming = None

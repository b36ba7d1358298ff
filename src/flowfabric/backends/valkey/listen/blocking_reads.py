"""Blocking reads of streams, on dedicated connections: none without waiters, and never more than a limit.

On one server, one connection reads all streams. In a cluster a blocking read covers one slot, so each slot has its own
connection; beyond the limit, slots take turns. Any number of waiters share one read of a stream.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar, cast

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import at_once
from flowfabric.backends.valkey.wire.client import Client, Reply
from flowfabric.backends.valkey.wire.connection import AccessRefused, Connection, ServerReplyError
from flowfabric.backends.valkey.wire.retrying import NOT_ALLOWED
from flowfabric.errors import BackendUnavailable, FlowFabricError

# In a cluster a connection must soon be free for another slot, sooner if slots wait for one.
_CLUSTER_MS: Final = 1_000
_CROWDED_MS: Final = 200
_GRACE_MS: Final = 5_000  # how late the reply to a blocking read may be before the server counts as gone
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
_REARM_PAUSE_S: Final = 0.002
# A read of many streams costs the same for one entry as for many, so more streams are read less often.
_MANY: Final = 64
_PAUSE_A_STREAM_S: Final = 0.000_01
_LINGER_S: Final = 1.0  # keep the connection this long for the next waiter


class Source(ABC):
    """One stream that has waiters."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.position: str | None = None  # None: not read yet; it starts at the end of the stream

    @property
    @abstractmethod
    def is_wanted(self) -> bool:
        """Whether the stream has waiters."""

    def learn(self, position: str) -> None:
        self.position = position

    @abstractmethod
    def deliver(self, entries: list[Reply]) -> None:
        """Take the entries after the position, and advance it."""

    def lose(self) -> None:  # noqa: B027 - most have nothing to do
        """The connection was lost; the next one continues from the position."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """Reading has failed for good."""


S = TypeVar("S", bound=Source)


class BlockingReads(Generic[S]):
    """The sources with waiters, and the readers that serve them."""

    def __init__(
        self,
        client: Client,
        make: Callable[[str], S],
        *,
        block_ms: int = 5_000,
        connections: int = 16,
        entries: Callable[[int], int] = lambda _: 100,
    ) -> None:
        self.client = client
        self.entries = entries  # entries per stream and read, by the number of streams
        self.slots = asyncio.Semaphore(connections)
        self._make = make
        self._block_ms = block_ms
        self._most = connections
        self._readers: dict[str, _Reader[S]] = {}
        self._closed = False

    @property
    def connections(self) -> int:
        """How many blocking connections are open."""
        return sum(reader.is_connected for reader in self._readers.values())

    def source(self, key: str) -> S:
        """The source of this key. The caller must register as a waiter before its next await."""
        if self._closed:
            raise BackendUnavailable("the backend is closed", sent=False)
        name = keys.tag_of(key) if self.client.topology == "cluster" else ""
        if name not in self._readers:
            self._readers[name] = _Reader(self, lambda: self._readers.pop(name, None))
        return self._readers[name].source(key, self._make)

    async def close(self) -> None:
        self._closed = True
        readers = list(self._readers.values())
        for reader in readers:
            reader.fail(BackendUnavailable("the backend is closed", sent=False))
            reader.task.cancel()
        await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)
        self._readers.clear()

    def turn_ms(self) -> tuple[int, bool]:
        """How long a read may block, and whether other slots wait for the connection."""
        if self.client.topology == "standalone":
            return self._block_ms, False
        crowded = len(self._readers) > self._most
        return min(self._block_ms, _CROWDED_MS if crowded else _CLUSTER_MS), crowded


class _Reader(Generic[S]):
    """One blocking connection and its sources; it ends when none has waiters."""

    def __init__(self, reads: BlockingReads[S], on_end: Callable[[], object]) -> None:
        self._reads = reads
        self._client = reads.client
        self._on_end = on_end
        self._sources: dict[str, S] = {}
        self._connection: Connection | None = None
        self._client_id = 0
        self._reading: frozenset[str] = frozenset()  # the sources that the pending read covers
        self._rearming: asyncio.Task[None] | None = None
        self._pause = _FIRST_PAUSE_S
        self._is_lost = False
        self._asked = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def source(self, key: str, make: Callable[[str], S]) -> S:
        """The source of this key. Ends a pending read that does not cover it."""
        if key not in self._sources:
            self._sources[key] = make(key)
        self._asked.set()
        if self._reading and key not in self._reading and self._rearming is None:
            self._rearming = asyncio.create_task(self._rearm())
        return self._sources[key]

    def fail(self, error: Exception) -> None:
        for source in self._sources.values():
            source.fail(error)

    async def _run(self) -> None:
        try:
            while self._is_wanted():
                await self._attempt()
        except Exception as error:  # whatever it is, wake every waiter
            self.fail(error)
        finally:
            self._on_end()
            if self._rearming is not None:
                self._rearming.cancel()

    async def _attempt(self) -> None:
        """Read until there are no waiters, or it is another slot's turn; retry transient errors after a pause."""
        try:
            await self._find()
            await self._learn()
            async with self._reads.slots:
                await self._read()
        except (ServerReplyError, BackendUnavailable) as error:
            if isinstance(error, ServerReplyError) and error.prefix in NOT_ALLOWED:
                raise AccessRefused(error.text, sent=False) from error
            if isinstance(error, AccessRefused):
                raise
            self._is_lost = True
            for source in self._sources.values():
                source.lose()
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)

    async def _find(self) -> None:
        """After a lost connection, let the client find the node that has the streams now."""
        if self._is_lost and self._is_wanted():
            key = next(iter(self._sources))
            await self._client.execute("EXISTS", key, key=key, repeatable=True)
            self._is_lost = False

    def _is_wanted(self) -> bool:
        self._sources = {key: source for key, source in self._sources.items() if source.is_wanted}
        return bool(self._sources)

    async def _is_wanted_soon(self) -> bool:
        """Linger for a new waiter, unless other slots need the connection."""
        _, crowded = self._reads.turn_ms()
        self._asked.clear()
        try:
            async with asyncio.timeout(0 if crowded else _LINGER_S):
                await self._asked.wait()
        except TimeoutError:
            return False
        return self._is_wanted()

    async def _read(self) -> None:
        block_ms, _ = self._reads.turn_ms()
        if not self._is_wanted():
            return
        key = next(iter(self._sources))
        connection = await self._client.dedicated(key=key, command_timeout_ms=block_ms + _GRACE_MS)
        try:
            self._connection = connection
            self._client_id = cast("int", await connection.send("CLIENT", "ID"))
            while self._is_wanted() or await self._is_wanted_soon():
                await self._learn()
                block_ms, crowded = self._reads.turn_ms()
                reply = await self._read_once(connection, block_ms)
                self._pause = _FIRST_PAUSE_S
                for name, entries in cast("list[tuple[bytes, list[Reply]]]", reply or []):
                    self._sources[name.decode()].deliver(entries)
                if crowded:
                    return
                if len(self._sources) > _MANY:
                    await asyncio.sleep(len(self._sources) * _PAUSE_A_STREAM_S)
        finally:
            self._reading, self._connection = frozenset(), None
            await connection.close()

    async def _read_once(self, connection: Connection, block_ms: int) -> Reply:
        sources = self._sources
        self._reading = frozenset(sources)
        places = [source.position or "0-0" for source in sources.values()]
        count = self._reads.entries(len(sources))
        reply = await connection.send("XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", *sources, *places)
        self._reading = frozenset()
        return reply

    async def _learn(self) -> None:
        while missing := [source for source in self._sources.values() if source.position is None]:
            newest = await at_once(
                self._client.execute("XREVRANGE", source.key, "+", "-", "COUNT", 1, key=source.key, repeatable=True)
                for source in missing
            )
            for source, entries in zip(missing, newest, strict=True):
                source.learn(cast("list[list[bytes]]", entries)[0][0].decode() if entries else "0-0")

    async def _rearm(self) -> None:
        """Unblock the pending read until it covers every source."""
        try:
            while self._reading and not self._sources.keys() <= self._reading:
                key = next(iter(self._sources))
                await self._client.execute("CLIENT", "UNBLOCK", self._client_id, key=key, repeatable=True)
                await asyncio.sleep(_REARM_PAUSE_S)
        except (FlowFabricError, ServerReplyError):
            if self._connection is not None:
                self._connection.abort("it must read other streams, too")
        finally:
            self._rearming = None

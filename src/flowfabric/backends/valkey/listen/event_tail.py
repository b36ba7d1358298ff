"""Wait for lines of the event logs without polling."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar, cast

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.listen.blocking_reads import BlockingReads, Source
from flowfabric.backends.valkey.rows.event_lines import Line
from flowfabric.backends.valkey.wire.client import Client, Reply
from flowfabric.core.contracts.events import ENDINGS
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState

_ENDINGS: Final = {kind.encode(): state for kind, state in ENDINGS.items()}

_MOST_HELD: Final = 1_000  # lines that a reader has not taken yet

L = TypeVar("L", bound="Listener")

# In place of an execution id: every event of the partition.
_EVERYBODY: Final = b""


class Listener:
    """A waiter for one execution."""

    def __init__(self, *, endings_only: bool) -> None:
        self.ended: PublicState | None = None
        self._endings_only = endings_only
        self._error: Exception | None = None
        self._wake = asyncio.Event()

    def clear(self) -> None:
        """Call it before reading the state: events from then on wake the waiter."""
        self._wake.clear()
        self.check()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    async def wait(self) -> None:
        """Return when the state should be read again."""
        await self._wake.wait()
        self.check()

    def notice(self, event: bytes) -> None:
        self.ended = _ENDINGS.get(event, self.ended)
        if event in _ENDINGS or not self._endings_only:
            self._wake.set()

    def tell(self, line: Line) -> None:
        """Take a line about the execution; most waiters need no more than the wakeup."""

    def look_again(self, error: Exception | None = None) -> None:
        self._error = error
        self._wake.set()


class LineReader(Listener):
    """Takes the lines of one execution as they arrive, without reading the store again."""

    def __init__(self) -> None:
        super().__init__(endings_only=False)
        self._held: deque[Line] = deque()
        self._is_behind = False  # lines were missed: read them from the store

    def clear(self) -> None:
        super().clear()
        self._held.clear()
        self._is_behind = False

    def look_again(self, error: Exception | None = None) -> None:
        self._is_behind = True
        super().look_again(error)

    def tell(self, line: Line) -> None:
        if len(self._held) >= _MOST_HELD:
            self._is_behind = True
        else:
            self._held.append(line)

    async def lines(self, *, after: int) -> AsyncIterator[Line]:
        """The lines after a number, until one was missed."""
        while True:
            while self._held:
                line = self._held.popleft()
                if line.number > after:
                    yield line
            if self._is_behind:
                return
            self._wake.clear()
            await self.wait()


class _Log(Source):
    """One partition's log. Waiters read the state again when its position becomes known."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.ready = asyncio.Event()
        self.listeners: dict[bytes, set[Listener]] = {}

    @property
    def is_wanted(self) -> bool:
        return bool(self.listeners)

    def forget(self, name: bytes, listener: Listener) -> None:
        self.listeners[name].discard(listener)
        if not self.listeners[name]:
            del self.listeners[name]

    def learn(self, position: str) -> None:
        super().learn(position)
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
        """Each entry holds the lines of one step: event, execution id, details."""
        for entry in entries:
            entry_id, (_, at_ms, _, texts) = cast("tuple[bytes, list[bytes]]", entry)
            self.position = entry_id.decode()
            lines = texts.split(b"\n")
            first = int(self.position.partition("-")[0]) - len(lines) + 1  # the entry has the number of its last line
            for at, line in enumerate(lines):
                event, execution_id, _ = line.split(b" ", 2)
                for listener in self.listeners.get(execution_id, ()):
                    listener.tell(Line(first + at, at_ms, line))
                    listener.notice(event)
            for listener in self.listeners.get(_EVERYBODY, ()):
                listener.look_again()


class EventTail:
    """All waiters of this process, on few blocking reads of the partitions' logs."""

    def __init__(self, client: Client, *, block_ms: int = 5_000, connections: int = 16) -> None:
        self._reads = BlockingReads(client, _Log, block_ms=block_ms, connections=connections)

    def listen(self, execution_id: ExecutionId, *, endings_only: bool = False) -> AbstractAsyncContextManager[Listener]:
        """Wait for events of an execution; none is missed after entering."""
        return self._listen(execution_id.tag, execution_id.encode(), Listener(endings_only=endings_only))

    def follow(self, execution_id: ExecutionId) -> AbstractAsyncContextManager[LineReader]:
        """Take the lines of an execution as they arrive."""
        return self._listen(execution_id.tag, execution_id.encode(), LineReader())

    def listen_everywhere(self, tag: str) -> AbstractAsyncContextManager[Listener]:
        """Wait for any event of a partition."""
        return self._listen(tag, _EVERYBODY, Listener(endings_only=False))

    @asynccontextmanager
    async def _listen(self, tag: str, name: bytes, listener: L) -> AsyncIterator[L]:
        log = self._reads.source(keys.events(tag))
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
        return self._reads.connections

    async def close(self) -> None:
        await self._reads.close()

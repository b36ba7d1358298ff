"""Follow the streams of attempts: blocking reads deliver frames to followers.

A follower that is behind (late, slow, or reading from an older position) reads pages through the client until it has
caught up; from then on the blocking read delivers to it. Memory is bounded, followers do not delay each other, and no
frame is missed or seen twice. A stream holds frames only; the execution's events say that it was closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from msgspec.structs import replace

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.listen.blocking_reads import BlockingReads, Source
from flowfabric.backends.valkey.listen.event_tail import EventTail, Listener
from flowfabric.backends.valkey.rows.frames import frame_of, id_order
from flowfabric.backends.valkey.wire.client import Client, Reply
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import Limited

# Per read over all of its streams, and per follower for frames that it has not taken yet.
_ENTRIES_A_READ: Final = 1_000
_MOST_HELD_FRAMES: Final = 1_000
_MOST_HELD_BYTES: Final = 1_048_576


ReadPage = Callable[[c.FollowFramesArgs, str], Awaitable[c.StreamFrames]]


class _Channel(Source):
    """The stream of one attempt with its followers."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.followers: set[Follower] = set()

    @property
    def is_wanted(self) -> bool:
        return bool(self.followers)

    def deliver(self, entries: list[Reply]) -> None:
        frames = [frame_of(entry) for entry in entries]
        self.position = frames[-1].id
        for follower in tuple(self.followers):
            follower.take(frames)

    def fail(self, error: Exception) -> None:
        for follower in tuple(self.followers):
            follower.fail(error)


class Follower:
    """Reads one stream as it grows."""

    def __init__(self, tails: FrameTails, args: c.FollowFramesArgs, read: ReadPage) -> None:
        self._tails = tails
        self._read = read
        self._args = args
        self._key = keys.stream(args.execution_id, args.attempt_index)
        self._cursor = str(args.after)  # the last frame that was returned
        self._held: deque[c.StreamFrame] = deque()
        self._held_bytes = 0
        self._end: c.StreamFrames | None = None
        self._channel: _Channel | None = None  # None: it is behind
        self._skip_to: tuple[int, int] | None = None  # ignore frames of the channel up to here: they were read already
        self._wake = asyncio.Event()
        self._error: Exception | None = None
        self._watching = AsyncExitStack()
        self._events = 0  # events of the execution since watching began
        self._watch: asyncio.Task[None] | None = None

    async def next(self) -> c.StreamFrames:
        while True:
            if self._end is not None:
                return self._end
            if self._error is not None:
                raise self._error
            if self._held:
                return self._hand_out()
            if self._channel is not None:
                self._wake.clear()
                await self._wake.wait()
                continue
            page = await self._catch_up()
            if page.frames or page.is_closed:
                return page

    async def peek(self) -> c.StreamFrames:
        """Read what is there now, without waiting."""
        return await self._read(self._args, self._cursor)

    async def close(self) -> None:
        self._leave()
        await self._stop_watching()
        await self._watching.aclose()

    # Callbacks of the channel.

    def take(self, frames: list[c.StreamFrame]) -> None:
        self._wake.set()
        for frame in frames:
            if self._skip_to is not None:
                if id_order(frame.id) <= self._skip_to:
                    continue
                self._skip_to = None
            if len(self._held) >= _MOST_HELD_FRAMES or self._held_bytes >= _MOST_HELD_BYTES:
                self._leave()  # it reads the rest from the store later
                return
            if frame.mode != c.StreamMode.BEST_EFFORT or self._args.visibility is c.Visibility.ALL:
                self._held.append(frame)
                self._held_bytes += len(frame.payload)

    def fail(self, error: Exception) -> None:
        self._error = error
        self._wake.set()

    def _hand_out(self) -> c.StreamFrames:
        frames = tuple(self._held.popleft() for _ in range(min(len(self._held), self._args.count_limit)))
        self._held_bytes -= sum(len(frame.payload) for frame in frames)
        self._cursor = frames[-1].id
        more = bool(self._held) or self._channel is None
        return c.StreamFrames(frames=frames, cursor=self._cursor, more=more)

    def _note_end(self, page: c.StreamFrames) -> c.StreamFrames:
        if page.is_end:
            self._end = replace(page, frames=())
        return page

    async def _catch_up(self) -> c.StreamFrames:
        """Read one page after the cursor; when nothing is left, join the channel."""
        seen = self._events
        page = await self._read(self._args, self._cursor)
        self._cursor = page.cursor
        if page.more or page.is_closed:
            return self._note_end(page)
        if self._watch is not None and seen == self._events:
            self._join(page.cursor)
        elif self._watch is None and not page.frames:
            await self._start_watching()  # it may have ended before watching began: read again
        return page

    def _join(self, cursor: str) -> None:
        """Join the channel from the cursor on, unless the channel is already ahead of it."""
        channel = self._tails.channel(self._key)
        if channel.position is None:
            channel.position = cursor
        reached, here = id_order(channel.position), id_order(cursor)
        if reached > here:
            return
        self._skip_to = here if here > reached else None
        self._channel = channel
        channel.followers.add(self)

    def _leave(self) -> None:
        if self._channel is not None:
            self._channel.followers.discard(self)
            self._channel = None

    # The events of the execution tell that a stream has ended: everything that ends an attempt writes one.

    async def _start_watching(self) -> None:
        listener = await self._watching.enter_async_context(self._tails.events.listen(self._args.execution_id))
        listener.clear()
        self._watch = asyncio.create_task(self._look_again(listener))

    async def _look_again(self, listener: Listener) -> None:
        try:
            while True:
                await listener.wait()
                listener.clear()
                self._events += 1
                self._leave()
                self._wake.set()
        except Exception as error:  # whatever it is, wake the follower
            self.fail(error)

    async def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            await self._watching.aclose()


class FrameTails:
    """All followers of a backend: few connections, and no more streams than a limit."""

    def __init__(
        self,
        client: Client,
        events: EventTail,
        *,
        most: int = limits.MAX_TAILS,
        block_ms: int = 5_000,
        connections: int = 16,
    ) -> None:
        self.events = events
        self._most = most
        self._followed: Counter[str] = Counter()  # how many follow each stream
        self._reads = BlockingReads(
            client,
            _Channel,
            block_ms=block_ms,
            connections=connections,
            entries=lambda streams: max(1, _ENTRIES_A_READ // streams),
        )

    @property
    def connections(self) -> int:
        """How many blocking connections are open."""
        return self._reads.connections

    @asynccontextmanager
    async def follow(self, args: c.FollowFramesArgs, read: ReadPage) -> AsyncIterator[Follower]:
        """Follow a stream; `read` reads pages for a follower that is behind, and its errors propagate."""
        key = keys.stream(args.execution_id, args.attempt_index)
        if len(self._followed) >= self._most and key not in self._followed:
            problem = f"{self._most} streams are already followed; retry when some have ended"
            raise Limited(problem, code="tail_limit_exceeded", limit=self._most)
        self._followed[key] += 1
        follower = Follower(self, args, read)
        try:
            yield follower
        finally:
            self._followed[key] -= 1
            if not self._followed[key]:
                del self._followed[key]
            await follower.close()

    def channel(self, key: str) -> _Channel:
        return self._reads.source(key)

    async def close(self) -> None:
        await self._reads.close()

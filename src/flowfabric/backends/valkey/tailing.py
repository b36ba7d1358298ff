"""Following the streams of attempts: frames are handed on as the blocking reads bring them.

Who is behind, because they came late, read from an older place or take long, reads pages through the client until they
have caught up; from then on the blocking read hands them what comes. So memory is bounded, nobody holds up another, and
nothing is missed or seen twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple

from msgspec.structs import replace

from flowfabric.backends.valkey import keys
from flowfabric.backends.valkey.blocking import BlockingReads, Source
from flowfabric.backends.valkey.client import Client, Reply
from flowfabric.backends.valkey.frame_entries import closing_of, frame_of, id_order
from flowfabric.backends.valkey.tail import EventTail, Listener
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import Limited

# Of all streams that one read covers, and what a follower has not taken yet.
_ENTRIES_A_READ: Final = 1_000
_MOST_HELD_FRAMES: Final = 1_000
_MOST_HELD_BYTES: Final = 1_048_576


class Page(NamedTuple):
    """Frames as they were read, and whether the attempt has a stream at all."""

    frames: c.StreamFrames
    has_stream: bool


ReadPage = Callable[[c.FollowFramesArgs, str], Awaitable[Page]]


class _Channel(Source):
    """The stream of one attempt that somebody follows."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.followers: set[Follower] = set()

    @property
    def is_wanted(self) -> bool:
        return bool(self.followers)

    def deliver(self, entries: list[Reply]) -> None:
        closing = closing_of(entries[-1])
        frames = [frame_of(entry) for entry in (entries[:-1] if closing else entries)]
        self.position = entries[-1][0].decode()  # type: ignore[index,union-attr]
        for follower in tuple(self.followers):
            follower.take(frames, closing)

    def fail(self, error: Exception) -> None:
        for follower in tuple(self.followers):
            follower.fail(error)


class Follower:
    """Somebody who reads one stream as it grows."""

    def __init__(self, tails: FrameTails, args: c.FollowFramesArgs, read: ReadPage) -> None:
        self._tails = tails
        self._read = read
        self._args = args
        self._key = keys.stream(args.execution_id, args.attempt_index)
        self._cursor = str(args.after)  # what was handed out ends here
        self._held: deque[c.StreamFrame] = deque()
        self._held_bytes = 0
        self._closing: tuple[int, str] | None = None  # known, but what is held comes first
        self._end: c.StreamFrames | None = None
        self._channel: _Channel | None = None  # None: behind
        self._skip_to: tuple[int, int] | None = None  # the channel has yet to tell what was read up to here
        self._wake = asyncio.Event()
        self._error: Exception | None = None
        self._watching = AsyncExitStack()
        self._watch: asyncio.Task[None] | None = None

    async def next(self) -> c.StreamFrames:
        while True:
            if self._end is not None:
                return self._end
            if self._error is not None:
                raise self._error
            if self._held or self._closing:
                await self._stop_watching()
                return self._hand_out()
            if self._channel is not None:
                self._wake.clear()
                await self._wake.wait()
                continue
            page = await self._catch_up()
            if page.frames or page.is_closed:
                return page

    async def peek(self) -> c.StreamFrames:
        """What there is now, without waiting."""
        return (await self._read(self._args, self._cursor)).frames

    async def close(self) -> None:
        self._leave()
        await self._stop_watching()
        await self._watching.aclose()

    # What the channel calls.

    def take(self, frames: list[c.StreamFrame], closing: tuple[int, str] | None) -> None:
        self._wake.set()
        for frame in frames:
            if self._skip_to is not None:
                if id_order(frame.id) <= self._skip_to:
                    continue
                self._skip_to = None
            if len(self._held) >= _MOST_HELD_FRAMES or self._held_bytes >= _MOST_HELD_BYTES:
                self._leave()  # it reads the rest when it has taken these
                return
            if frame.mode != c.StreamMode.BEST_EFFORT or self._args.visibility is c.Visibility.ALL:
                self._held.append(frame)
                self._held_bytes += len(frame.payload)
        self._closing = closing

    def fail(self, error: Exception) -> None:
        self._error = error
        self._wake.set()

    def _hand_out(self) -> c.StreamFrames:
        frames = tuple(self._held.popleft() for _ in range(min(len(self._held), self._args.count_limit)))
        self._held_bytes -= sum(len(frame.payload) for frame in frames)
        if frames:
            self._cursor = frames[-1].id
        more = bool(self._held) or (self._channel is None and self._closing is None)
        closed_at, reason = (None, None) if more else self._closing or (None, None)
        return self._note_end(
            c.StreamFrames(frames=frames, cursor=self._cursor, more=more, closed_at=closed_at, closed_reason=reason)
        )

    def _note_end(self, page: c.StreamFrames) -> c.StreamFrames:
        if page.is_end:
            self._end = replace(page, frames=())
        return page

    async def _catch_up(self) -> c.StreamFrames:
        """One page from the cursor on; when it is the last one, what follows comes from the channel."""
        page, has_stream = await self._read(self._args, self._cursor)
        if has_stream:
            await self._stop_watching()
        elif self._watch is None and not page.is_closed:
            await self._start_watching()
            return c.StreamFrames()  # it may have ended before: look again
        self._cursor = page.cursor
        if not page.more and not page.is_closed:
            self._join(page.cursor)
        return self._note_end(page)

    def _join(self, cursor: str) -> None:
        """From the cursor on the channel tells; not yet, when it has told what follows to others already."""
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

    # An attempt that ends before its first frame has no stream to be closed: its execution's events tell.

    async def _start_watching(self) -> None:
        listener = await self._watching.enter_async_context(self._tails.events.listen(self._args.execution_id))
        listener.clear()
        self._watch = asyncio.create_task(self._look_again(listener))

    async def _look_again(self, listener: Listener) -> None:
        try:
            while True:
                await listener.wait()
                listener.clear()
                self._leave()
                self._wake.set()
        except Exception as error:  # whatever it is, nobody is left waiting for nothing
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
        """`read` gets the pages of whoever is behind; what it refuses is not followed."""
        key = keys.stream(args.execution_id, args.attempt_index)
        if len(self._followed) >= self._most and key not in self._followed:
            problem = f"{self._most} streams are followed at once already; try again when some have ended"
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

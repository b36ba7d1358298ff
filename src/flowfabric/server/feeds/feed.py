"""Feeds of events with many readers: the store is read once for all of them.

A new reader first reads the missed events alone, then joins the common tail. It remembers the events it has read, so
none comes twice if the tail is a little behind. A reader too slow for the tail reads alone again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from contextlib import aclosing
from typing import Protocol

from flowfabric.server.feeds.reading import Page, Readable, Reader, Seat, Told, Turn


class Source(Readable, Protocol):
    """The source of a feed."""

    def tail(self, place: str | None) -> AsyncIterator[Page]:
        """Events after a position, until the source ends."""
        ...


class Feed:
    """One source and all its followers."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seats: set[Seat] = set()
        self._tailing: asyncio.Task[None] | None = None
        self.readers = 0

    async def follow(self, place: str | None, turn: Turn) -> AsyncGenerator[Told, None]:
        """All events after a position, then new ones, until the source ends."""
        reader, is_lost = Reader(self._source, place, turn), True
        while is_lost:
            async for told in reader.catch_up():
                yield told
            seat, is_exact = self._join(reader.place)
            try:
                if not is_exact:  # the tail may have been further than this reader
                    async for told in reader.catch_up():
                        yield told
                while (next_told := await seat.next()) is not None:
                    yield reader.fresh(next_told)
            finally:
                self._leave(seat)
            is_lost = seat.is_lost

    def _join(self, place: str | None) -> tuple[Seat, bool]:
        """A seat, and whether the tail begins exactly at this position."""
        seat = Seat()
        self._seats.add(seat)
        if self._tailing is not None:
            return seat, False
        self._tailing = asyncio.create_task(self._tail(place))
        return seat, True

    def _leave(self, seat: Seat) -> None:
        self._seats.discard(seat)
        if not self._seats and self._tailing is not None:
            self._tailing.cancel()
            self._tailing = None

    async def _tail(self, place: str | None) -> None:
        error = None
        try:
            async for page in self._source.tail(place):
                told = Told.of(page, self._source)
                for seat in tuple(self._seats):
                    seat.take(told)
        except Exception as cause:  # any failure must reach the followers, or they wait forever
            error = cause
        self._tailing = None
        for seat in tuple(self._seats):
            seat.end(error)


class Feeds:
    """The feeds that have followers."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, Feed] = {}

    async def follow(
        self, key: Hashable, make: Callable[[], Source], place: str | None, turn: Turn
    ) -> AsyncGenerator[Told, None]:
        """The feed of this key, created if it does not exist."""
        if key not in self._by_key:
            self._by_key[key] = Feed(make())
        feed = self._by_key[key]
        feed.readers += 1
        try:
            async with aclosing(feed.follow(place, turn)) as pages:
                async for told in pages:
                    yield told
        finally:
            feed.readers -= 1
            if not feed.readers:
                self._by_key.pop(key, None)

"""Feeds of events that many read: however many there are, the store is read once for them.

Who comes reads alone what it has missed, up to now, and then joins the common tail. It remembers what it has read, so
that nothing comes twice where the tail is a little behind; who is too slow for the tail goes back to reading alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from flowfabric.core import contracts as c
from flowfabric.errors import Limited
from flowfabric.server.items import Item

_MOST_FEEDS: Final = 256  # different ones, each of which is a reader of the store
_MOST_HELD: Final = 1_000  # events that a reader has not taken yet
_REMEMBERED: Final = 4_096


class Page(NamedTuple):
    """Some events, where to go on, and whether there are more already."""

    events: tuple[c.Event, ...]
    place: str | None
    more: bool = False


class Source(Protocol):
    """Where the events of a feed come from."""

    async def read(self, place: str | None) -> Page:
        """What there is behind a place; with None, from where the feed begins."""
        ...

    def tail(self, place: str | None) -> AsyncIterator[Page]:
        """What comes behind a place, until there can be no more."""
        ...

    def items(self, page: Page) -> list[Item]:
        """The events as clients see them, one for each."""
        ...


class _Told(NamedTuple):
    """A page as it is sent: the cursor of each event, which tells it from all others, and its text."""

    place: str | None
    entries: list[tuple[str, bytes]]

    @classmethod
    def of(cls, page: Page, source: Source) -> _Told:
        texts = [item.encode() for item in source.items(page)]
        return cls(page.place, [(event.cursor, text) for event, text in zip(page.events, texts, strict=True)])


class _Seat:
    """A reader at the common tail, and what it has not taken yet."""

    def __init__(self) -> None:
        self._held: deque[_Told] = deque()
        self._count = 0
        self._news = asyncio.Event()
        self._is_over = False
        self._error: Exception | None = None
        self.is_lost = False  # it was too slow

    def take(self, told: _Told) -> None:
        self._news.set()
        if self._count + len(told.entries) > _MOST_HELD:
            self.is_lost = self._is_over = True
        if not self._is_over:
            self._held.append(told)
            self._count += len(told.entries)

    def end(self, error: Exception | None) -> None:
        self._is_over, self._error = True, self._error or error
        self._news.set()

    async def next(self) -> _Told | None:
        """The next page; None when no more is to come here."""
        while not self._held:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return None
            self._news.clear()
            await self._news.wait()
        told = self._held.popleft()
        self._count -= len(told.entries)
        return told


class _Reader:
    """Somebody's place in a feed, and the latest events that it has read alone."""

    def __init__(self, source: Source, place: str | None) -> None:
        self._source = source
        self.place = place
        self._cursors: set[str] = set()
        self._order: deque[str] = deque()

    async def catch_up(self) -> AsyncGenerator[bytes, None]:
        """Read alone what there is by now."""
        more = True
        while more:
            page = await self._source.read(self.place)
            told, more = _Told.of(page, self._source), page.more
            for text in self.fresh(told):
                yield text
            self._remember(told)

    def fresh(self, told: _Told) -> list[bytes]:
        """What it has not read yet."""
        self.place = told.place
        return [text for cursor, text in told.entries if cursor not in self._cursors]

    def _remember(self, told: _Told) -> None:
        for cursor, _ in told.entries:
            self._cursors.add(cursor)
            self._order.append(cursor)
            if len(self._order) > _REMEMBERED:
                self._cursors.discard(self._order.popleft())


class Feed:
    """One source and everybody who follows it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seats: set[_Seat] = set()
        self._tailing: asyncio.Task[None] | None = None
        self.readers = 0

    async def follow(self, place: str | None) -> AsyncGenerator[bytes, None]:
        """Everything behind a place, and then what comes, until the source ends."""
        reader, is_lost = _Reader(self._source, place), True
        while is_lost:
            async for text in reader.catch_up():
                yield text
            seat, is_exact = self._join(reader.place)
            try:
                if not is_exact:  # the tail may have been further than this reader
                    async for text in reader.catch_up():
                        yield text
                while (told := await seat.next()) is not None:
                    for text in reader.fresh(told):
                        yield text
            finally:
                self._leave(seat)
            is_lost = seat.is_lost

    def _join(self, place: str | None) -> tuple[_Seat, bool]:
        """A seat, and whether the tail begins exactly at this place."""
        seat = _Seat()
        self._seats.add(seat)
        if self._tailing is not None:
            return seat, False
        self._tailing = asyncio.create_task(self._tail(place))
        return seat, True

    def _leave(self, seat: _Seat) -> None:
        self._seats.discard(seat)
        if not self._seats and self._tailing is not None:
            self._tailing.cancel()
            self._tailing = None

    async def _tail(self, place: str | None) -> None:
        error = None
        try:
            async for page in self._source.tail(place):
                told = _Told.of(page, self._source)
                for seat in tuple(self._seats):
                    seat.take(told)
        except Exception as cause:  # whatever it is, nobody is left waiting for nothing
            error = cause
        self._tailing = None
        for seat in tuple(self._seats):
            seat.end(error)


class Feeds:
    """The feeds that somebody follows."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, Feed] = {}

    async def follow(self, key: Hashable, make: Callable[[], Source], place: str | None) -> AsyncGenerator[bytes, None]:
        """The feed of this key, made where there is none yet."""
        if key not in self._by_key:
            if len(self._by_key) >= _MOST_FEEDS:
                problem = f"{_MOST_FEEDS} different feeds are followed already"
                raise Limited(problem, code="tail_limit_exceeded", limit=_MOST_FEEDS)
            self._by_key[key] = Feed(make())
        feed = self._by_key[key]
        feed.readers += 1
        try:
            async with aclosing(feed.follow(place)) as texts:
                async for text in texts:
                    yield text
        finally:
            feed.readers -= 1
            if not feed.readers:
                self._by_key.pop(key, None)

"""Shared by all followers of events: encoded pages, a bounded queue of unread pages, catching up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

from flowfabric.core import contracts as c
from flowfabric.server.feeds.items import Item

_MOST_HELD: Final = 1_000  # events that a follower has not read yet
_REMEMBERED: Final = 4_096

Turn = AbstractAsyncContextManager[object]  # held while a follower reads alone; entered once for each page


class Page(NamedTuple):
    """Some events, the next cursor, and whether more are stored."""

    events: tuple[c.Event, ...]
    place: str | None
    more: bool = False


class Readable(Protocol):
    """The source of a follower that reads alone."""

    async def read(self, place: str | None) -> Page:
        """Events after a position; with None, from the start."""
        ...

    def items(self, page: Page) -> list[Item]:
        """The events as clients see them, one for each."""
        ...


class Entry(NamedTuple):
    """An encoded event, and its unique cursor."""

    cursor: str
    kind: str
    text: bytes


class Told(NamedTuple):
    """Some entries and the position after them. is_live: all earlier entries were delivered."""

    place: str | None
    entries: list[Entry]
    is_live: bool = False

    @classmethod
    def of(cls, page: Page, source: Readable) -> Told:
        texts = [item.encode() for item in source.items(page)]
        pairs = zip(page.events, texts, strict=True)
        return cls(page.place, [Entry(event.cursor, event.event, text) for event, text in pairs])

    @property
    def text(self) -> bytes:
        """The page as one piece: one write, for any number of events."""
        return b"".join([entry.text for entry in self.entries])


class Seat:
    """A position in the shared tail, and the pages that its reader has not read yet."""

    def __init__(self) -> None:
        self._held: deque[Told] = deque()
        self._count = 0
        self._news = asyncio.Event()
        self._is_over = False
        self._error: Exception | None = None
        self.is_lost = False  # it was too slow

    def take(self, told: Told) -> None:
        self._news.set()
        if self._count + len(told.entries) > _MOST_HELD:
            self.is_lost = self._is_over = True
        if not self._is_over:
            self._held.append(told)
            self._count += len(told.entries)

    def end(self, error: Exception | None) -> None:
        self._is_over, self._error = True, self._error or error
        self._news.set()

    async def next(self) -> Told | None:
        """The next page; None at the end."""
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


class Reader:
    """The position of a follower, and the latest event that it read alone."""

    def __init__(self, source: Readable, place: str | None, turn: Turn) -> None:
        self._source = source
        self._turn = turn
        self.place = place
        self._cursors: set[str] = set()
        self._order: deque[str] = deque()

    async def catch_up(self) -> AsyncGenerator[Told, None]:
        """Read the stored events alone, one page per turn, so that a follower far behind does not block others."""
        more = True
        while more:
            async with self._turn:
                page = await self._source.read(self.place)
            told, more = Told.of(page, self._source), page.more
            yield self.fresh(told)
            self._remember(told)

    def fresh(self, told: Told) -> Told:
        """The unread events."""
        self.place = told.place
        return told._replace(entries=[entry for entry in told.entries if entry.cursor not in self._cursors])

    def _remember(self, told: Told) -> None:
        for entry in told.entries:
            self._cursors.add(entry.cursor)
            self._order.append(entry.cursor)
            if len(self._order) > _REMEMBERED:
                self._cursors.discard(self._order.popleft())

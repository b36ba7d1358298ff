"""What all who follow events share: pages as they are sent, a bounded place for what was not taken yet, catching up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol

from flowfabric.core import contracts as c
from flowfabric.server.feeds.items import Item

_MOST_HELD: Final = 1_000  # events that somebody has not taken yet
_REMEMBERED: Final = 4_096

Turn = AbstractAsyncContextManager[object]  # in which somebody reads alone; entered once for each page


class Page(NamedTuple):
    """Some events, where to go on, and whether there are more already."""

    events: tuple[c.Event, ...]
    place: str | None
    more: bool = False


class Readable(Protocol):
    """Where events are read from by somebody alone."""

    async def read(self, place: str | None) -> Page:
        """What there is behind a place; with None, from where it begins."""
        ...

    def items(self, page: Page) -> list[Item]:
        """The events as clients see them, one for each."""
        ...


class Entry(NamedTuple):
    """An event as it is sent, and its cursor, which tells it from all others."""

    cursor: str
    kind: str
    text: bytes


class Told(NamedTuple):
    """Some entries and the place behind them. is_live: everything before them has been told."""

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
        """All of it in one piece: a page is one write, however many events it has."""
        return b"".join([entry.text for entry in self.entries])


class Seat:
    """A place at a common tail, and what its reader has not taken yet."""

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


class Reader:
    """Somebody's place among events, and the latest of them that it has read alone."""

    def __init__(self, source: Readable, place: str | None, turn: Turn) -> None:
        self._source = source
        self._turn = turn
        self.place = place
        self._cursors: set[str] = set()
        self._order: deque[str] = deque()

    async def catch_up(self) -> AsyncGenerator[Told, None]:
        """Read alone what there is by now; each page in its turn, so that who missed much holds up nobody."""
        more = True
        while more:
            async with self._turn:
                page = await self._source.read(self.place)
            told, more = Told.of(page, self._source), page.more
            yield self.fresh(told)
            self._remember(told)

    def fresh(self, told: Told) -> Told:
        """What it has not read yet."""
        self.place = told.place
        return told._replace(entries=[entry for entry in told.entries if entry.cursor not in self._cursors])

    def _remember(self, told: Told) -> None:
        for entry in told.entries:
            self._cursors.add(entry.cursor)
            self._order.append(entry.cursor)
            if len(self._order) > _REMEMBERED:
                self._cursors.discard(self._order.popleft())

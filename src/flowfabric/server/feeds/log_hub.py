"""All followers of the event logs share one reader of the store; the filters run in this process.

A follower without a position costs the store nothing: it starts where the common reader is. A follower with a position
reads the missed events alone, in turn with others of the same caller, and then joins. Pages are delivered to a few
followers at a time, so that other calls are served in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import END
from flowfabric.server.feeds.event_sources import LogSource
from flowfabric.server.feeds.filters import Filters, facts_of
from flowfabric.server.feeds.items import Item
from flowfabric.server.feeds.reading import Entry, Page, Reader, Seat, Told, Turn

_LIMIT: Final = 500
# Nothing wakes a reader of all partitions, so a line may be this late. A check costs one command.
_LOOK_AGAIN_S: Final = 0.1
_HANDED_AT_ONCE: Final = 16


class _Audience:
    """All followers with the same filter, and their events of a page."""

    def __init__(self, source: LogSource) -> None:
        self.source = source
        self.seats: set[Seat] = set()
        self.found: list[c.Event] = []

    def told(self, place: str | None, texts: dict[str, bytes]) -> Told:
        """The page as they receive it; texts: encoded events shared with other groups, by cursor."""
        page = Page(tuple(self.found), place)
        self.found = []
        entries = []
        for event, at in zip(page.events, self.source.places(page), strict=True):
            if event.cursor not in texts:
                texts[event.cursor] = Item("event", event).encode()
            text = texts[event.cursor]
            entries.append(Entry(event.cursor, event.event, f"id: {at}\n".encode() + text if at else text))
        return Told(place, entries, is_live=True)


class LogHub:
    """The one reader of the logs."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._filters: Filters[_Audience] = Filters()
        self._audiences: dict[LogSource, _Audience] = {}
        self._place: str | None = None  # known while it reads
        self._tailing: asyncio.Task[None] | None = None
        self._began: asyncio.Future[str | None]

    async def follow(self, source: LogSource, place: str | None, turn: Turn) -> AsyncGenerator[Told, None]:
        """Events after a position; without one, from the start of the source. Runs until the caller stops.

        The first live page is empty and marks the end of the stored events.
        """
        reader, has_begun = Reader(source, place, turn), place is not None or source.begins_at_the_beginning
        is_lost = True
        while is_lost:
            if has_begun:
                async for told in reader.catch_up():
                    yield told
            seat = self._join(source)
            try:
                here = self._place or await asyncio.shield(self._began)
                if not has_begun:
                    reader.place, has_begun = here, True
                elif here != reader.place:  # the common reader may be ahead of this one
                    async for told in reader.catch_up():
                        yield told
                yield Told(reader.place, [], is_live=True)
                while (next_told := await seat.next()) is not None:
                    yield reader.fresh(next_told)
            finally:
                self._leave(source, seat)
            is_lost = seat.is_lost

    def _join(self, source: LogSource) -> Seat:
        seat = Seat()
        if source not in self._audiences:
            self._audiences[source] = _Audience(source)
            self._filters.add(source.wanted, self._audiences[source])
        self._audiences[source].seats.add(seat)
        if self._tailing is None:
            self._began = asyncio.get_running_loop().create_future()
            self._tailing = asyncio.create_task(self._tail(self._began))
        return seat

    def _leave(self, source: LogSource, seat: Seat) -> None:
        audience = self._audiences[source]
        audience.seats.discard(seat)
        if not audience.seats:
            del self._audiences[source]
            self._filters.remove(source.wanted, audience)
        if not self._audiences and self._tailing is not None:
            self._tailing.cancel()
            self._tailing = self._place = None

    async def _tail(self, began: asyncio.Future[str | None]) -> None:
        error = None
        try:
            self._place = (await self._backend.read_events(c.ReadEventsArgs(cursor=END))).cursor
            began.set_result(self._place)
            while True:
                page = await self._backend.read_events(c.ReadEventsArgs(cursor=self._place, limit=_LIMIT, owners=True))
                self._place = page.cursor
                await self._hand_out(page)
                if not page.more:
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except Exception as cause:  # any failure must reach the followers, or they wait forever
            error = cause
        self._tailing = self._place = None
        if not began.done():
            began.set_result(None)
        for audience in self._audiences.values():
            for seat in audience.seats:
                seat.end(error)

    async def _hand_out(self, page: c.EventPage) -> None:
        """New followers start after this page, so its receivers are fixed before the first pause."""
        at = 0
        for seats, told in self._matched(page):
            for seat in seats:
                seat.take(told)
                at += 1
                if at % _HANDED_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _matched(self, page: c.EventPage) -> list[tuple[tuple[Seat, ...], Told]]:
        found: dict[_Audience, None] = {}
        for event, owner in zip(page.events, page.owners, strict=True):
            for audience in self._filters.matching(facts_of(event, owner)):
                audience.found.append(event)
                found[audience] = None
        texts: dict[str, bytes] = {}
        return [(tuple(audience.seats), audience.told(page.cursor, texts)) for audience in found]

"""The sources of event feeds: one execution, one flow, or the logs of all partitions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, cast

from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.server.feeds.items import Item
from flowfabric.server.feeds.reading import Page

_LIMIT: Final = 500


class ExecutionEvents:
    """The events of one execution, from its creation to its end."""

    def __init__(self, backend: EngineBackend, execution_id: ExecutionId) -> None:
        self._backend = backend
        self._execution_id = execution_id

    async def read(self, place: str | None) -> Page:
        page = await self._backend.history(self._execution_id, cursor=place, limit=_LIMIT)
        return Page(page.events, page.cursor, page.more)

    def tail(self, place: str | None) -> AsyncIterator[Page]:
        return _single(self._backend.tail_events(self._execution_id, cursor=place))

    def items(self, page: Page) -> list[Item]:
        return [Item("event", event, event.cursor) for event in page.events]


@dataclass(frozen=True)
class LogSource:
    """The events a client follows. Without a position it starts with the next event, or with the first stored one."""

    backend: EngineBackend = field(compare=False, repr=False)
    wanted: c.ReadEventsArgs
    begins_at_the_beginning: bool = False

    async def read(self, place: str | None) -> Page:
        page = await self.backend.read_events(replace(self.wanted, cursor=place, limit=_LIMIT))
        return Page(page.events, page.cursor or place, page.more)

    def items(self, page: Page) -> list[Item]:
        return [Item("event", event, at) for event, at in zip(page.events, self.places(page), strict=True)]

    def places(self, page: Page) -> list[str]:
        """The cursor of each event. Cursors over all partitions are long, so only the last event of a page has one."""
        if self.wanted.partition is not None:
            return [event.cursor for event in page.events]
        return [""] * (len(page.events) - 1) + [page.place or ""] * bool(page.events)


def flow_events(backend: EngineBackend, flow_id: FlowId) -> LogSource:
    """The events of one flow and its members, from the first stored one on."""
    partition = flow_partition(flow_id, backend.partitions)
    return LogSource(backend, c.ReadEventsArgs(flow_id=flow_id, partition=partition), begins_at_the_beginning=True)


async def _single(events: AsyncIterator[c.Event]) -> AsyncIterator[Page]:
    async with aclosing(cast("AsyncGenerator[c.Event, None]", events)) as found:
        async for event in found:
            yield Page((event,), event.cursor)

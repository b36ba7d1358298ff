"""Where the feeds of events come from: one execution, one flow, or the logs of all partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final, cast

from msgspec.structs import replace

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import END
from flowfabric.core.ids import ExecutionId, FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.server.feeds import Page
from flowfabric.server.items import Item

_LIMIT: Final = 500
# Nothing wakes a reader of all partitions; this is how late a line may be.
_LOOK_AGAIN_S: Final = 0.25


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
        return _with_own_places(page)


class FlowEvents:
    """The events of one flow and its members, until it has ended."""

    def __init__(self, backend: EngineBackend, flow_id: FlowId) -> None:
        self._backend = backend
        self._flow_id = flow_id
        self._partition = flow_partition(flow_id, backend.partitions)

    async def read(self, place: str | None) -> Page:
        args = c.ReadEventsArgs(flow_id=self._flow_id, partition=self._partition, cursor=place, limit=_LIMIT)
        page = await self._backend.read_events(args)
        return Page(page.events, page.cursor, page.more)

    def tail(self, place: str | None) -> AsyncIterator[Page]:
        return _single(self._backend.tail_flow_events(self._flow_id, cursor=place))

    def items(self, page: Page) -> list[Item]:
        return _with_own_places(page)


class LogEvents:
    """What happens in the store, as far as the filters go. It begins with what comes next."""

    def __init__(self, backend: EngineBackend, args: c.ReadEventsArgs) -> None:
        self._backend = backend
        self._args = args

    async def read(self, place: str | None) -> Page:
        page = await self._backend.read_events(replace(self._args, cursor=place or END, limit=_LIMIT))
        return Page(page.events, page.cursor or place, page.more)

    async def tail(self, place: str | None) -> AsyncIterator[Page]:
        while True:
            page = await self.read(place)
            if page.events:
                yield page
            place = page.place
            if not page.more:
                await asyncio.sleep(_LOOK_AGAIN_S)

    def items(self, page: Page) -> list[Item]:
        """A place is one in every partition's log, which is long text: the last event of a page has it for all."""
        last = len(page.events) - 1
        return [Item("event", event, (page.place or "") if at == last else "") for at, event in enumerate(page.events)]


def _with_own_places(page: Page) -> list[Item]:
    return [Item("event", event, event.cursor) for event in page.events]


async def _single(events: AsyncIterator[c.Event]) -> AsyncIterator[Page]:
    async with aclosing(cast("AsyncGenerator[c.Event, None]", events)) as found:
        async for event in found:
            yield Page((event,), event.cursor)

"""EventPort on Valkey: read the partitions' event logs, and wait for new lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, cast

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import FunctionCaller, at_once
from flowfabric.backends.valkey.library.keys import budget_tags_of, index_of, tag_of, tags_of
from flowfabric.backends.valkey.listen.event_tail import EventTail
from flowfabric.backends.valkey.ports.reads import ValkeyReads
from flowfabric.backends.valkey.rows.event_lines import (
    EventLines,
    decode_lines,
    encode_lines,
    log_number,
    owners_of,
    told,
)
from flowfabric.backends.valkey.rows.merge import fill, settled
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts.events import END, ENDINGS
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import PartitionConfig, PartitionFamily, flow_partition
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound, InvalidInput

_ENDED: Final = frozenset(ENDINGS.values())


class ValkeyEvents(ValkeyReads):
    """Read events, and wait for them."""

    _caller: FunctionCaller
    _client: Client
    _tail: EventTail
    partitions: PartitionConfig

    async def read_events(self, args: c.ReadEventsArgs) -> c.EventPage:
        places = decode_lines(args.cursor)
        tags = self._tags(args)
        if args.cursor == END:
            return c.EventPage(cursor=encode_lines(await self._ends(tags)))
        moved = tags if args.cursor is None or len(tags) == 1 else await self._moved(tags, places)
        sources = [EventLines(self._caller, tag, args, places.get(log_number(tag), 0)) for tag in moved]
        await fill(sources, args.limit)
        found, more = settled(sources, args.limit)
        taken = {place for place, _ in found}
        for source in sources:
            places[source.number] = source.place_after(taken)
        events = tuple(event for _, (event, _) in found)
        return c.EventPage(
            events=events,
            cursor=encode_lines(places),
            more=more,
            truncated=any(source.truncated for source in sources),
            owners=await owners_of(self._caller, [(place[1], event) for place, (event, _) in found])
            if args.owners
            else (),
        )

    async def history(self, execution_id: ExecutionId, *, cursor: str | None = None, limit: int = 100) -> c.EventPage:
        page = await self.read_events(c.ReadEventsArgs(execution_id=execution_id, cursor=cursor, limit=limit))
        if page.truncated and page.events and page.events[0].event == c.EventKind.CREATED:
            return c.EventPage(
                events=page.events, cursor=page.cursor, more=page.more
            )  # all of its lines are still in the log
        return page

    async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> PublicState | None:
        limits.whole("timeout_ms", timeout_ms, 0, limits.MAX_DURATION_MS)
        state = await self._state(execution_id)
        if state in _ENDED or timeout_ms == 0:
            return state if state in _ENDED else None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._wait(execution_id)
        except TimeoutError:
            return None

    async def tail_events(self, execution_id: ExecutionId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        async with self._tail.follow(execution_id) as listener:
            while True:
                listener.clear()
                state = await self.get_execution_state(execution_id)
                page = await self.read_events(c.ReadEventsArgs(execution_id=execution_id, cursor=cursor, limit=1_000))
                for event in page.events:
                    yield event
                cursor = page.cursor
                if page.more or (page.events and page.events[-1].event in ENDINGS and state not in _ENDED):
                    continue  # it ended after its state was read, and no further line will come
                if state is None or state in _ENDED:  # known before the page was read, so the page had its last line
                    return
                async for line in listener.lines(after=decode_lines(cursor).get(index_of(execution_id.tag), 0)):
                    event = told(line, execution_id.tag)
                    cursor = event.cursor
                    yield event
                    if event.event in ENDINGS:  # a replay may have followed
                        break

    async def _wait(self, execution_id: ExecutionId) -> PublicState:
        async with self._tail.listen(execution_id, endings_only=True) as listener:
            while listener.ended is None:
                listener.clear()
                state = await self._state(execution_id)
                if state in _ENDED:
                    return state
                await listener.wait()
            return listener.ended

    async def _state(self, execution_id: ExecutionId) -> PublicState:
        state = await self.get_execution_state(execution_id)
        if state is None:
            raise ExecutionNotFound(f"{execution_id}: no such execution", execution_id=execution_id)
        return state

    def _tags(self, args: c.ReadEventsArgs) -> list[str]:
        if args.execution_id is not None:
            return [tag_of(self._caller.core(args.execution_id))]
        if args.flow_id is not None:
            return [flow_partition(args.flow_id, self.partitions).tag]
        budgets = budget_tags_of(self.partitions)
        if args.partition is None:
            return [*tags_of(self.partitions), *(budgets if _may_be_of_budgets(args) else ())]
        known = budgets if args.partition.family is PartitionFamily.BUDGET else tags_of(self.partitions)
        if args.partition.tag not in known:
            raise InvalidInput("partition", args.partition.tag, f"must be one of {len(known)}")
        return [args.partition.tag]

    async def _moved(self, tags: list[str], places: dict[int, int]) -> list[str]:
        """The logs that have new lines. Most have none, and reading each of them would cost more."""
        counters = [keys.event_lines(tag) for tag in tags]
        counts = (
            await self._client.execute("MGET", *counters, repeatable=True)
            if self._client.topology == "standalone"
            else await at_once(self._client.execute("GET", key, key=key, repeatable=True) for key in counters)
        )
        return [
            tag
            for tag, count in zip(tags, cast("list[bytes | None]", counts), strict=True)
            if int(count or 0) != places.get(log_number(tag), 0)
        ]

    async def _ends(self, tags: list[str]) -> dict[int, int]:
        calls = (self._caller.call_partition("read_events", tag, after="$", limit=1) for tag in tags)
        return {log_number(tag): fields.number(2) for tag, fields in zip(tags, await at_once(calls), strict=True)}


def _may_be_of_budgets(args: c.ReadEventsArgs) -> bool:
    """Whether lines of budgets can match; if not, their logs are not read."""
    is_asked_for = not args.events or any(each.startswith("budget_") for each in args.events)
    return is_asked_for and args.execution_kind is None

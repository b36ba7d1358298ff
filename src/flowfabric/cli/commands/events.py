"""`events`: print the events of one execution or of all, and follow new ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final, TypeAlias

from typer import Argument, Option

from flowfabric.cli.options import AsJson, Cursor, KindFilter, LaneFilter, Limit, NamespaceFilter, Url
from flowfabric.cli.parsing import time_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output, Styled, coloured
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import END, EventKind
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.rules.execution.losses import loss_text
from flowfabric.core.states import OwnershipState

OneId: TypeAlias = Annotated[
    str | None, Argument(metavar="ID", help="Only events of this execution.", show_default=False)
]
Follow: TypeAlias = Annotated[bool, Option("--follow", "-f", help="Print new events, too; with an ID, until it ends.")]
Kinds: TypeAlias = Annotated[
    list[EventKind] | None,
    Option("--event", metavar="EVENT", help=f"Only these events: {', '.join(EventKind)}. Repeatable."),
]

# A reader of all partitions polls: a line may be this late.
_LOOK_AGAIN_S: Final = 0.25


def events(
    execution_id: OneId = None,
    follow: Follow = False,
    event: Kinds = None,
    namespace: NamespaceFilter = None,
    lane: LaneFilter = None,
    kind: KindFilter = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print events, oldest first. --follow without an ID starts with the next event, or at --cursor."""

    async def body(fabric: Fabric, out: Output) -> None:
        args = c.ReadEventsArgs(
            execution_id=None if execution_id is None else ExecutionId(execution_id),
            namespace=None if namespace is None else Namespace(namespace),
            lane_id=None if lane is None else LaneId(lane),
            execution_kind=kind,
            events=tuple(event or ()),
            cursor=cursor,
            limit=limit,
        )
        if follow:
            await warn_of_unknown_lane(fabric, lane, out)
            await _follow(fabric, out, args)
            return
        page = await _page(fabric, args)
        _print_page(page, out)
        if not page.events:
            await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)


async def _page(fabric: Fabric, args: c.ReadEventsArgs) -> c.EventPage:
    """Up to `limit` events. One read may return fewer although there are more."""
    if args.execution_id is not None:
        await fabric.handle(args.execution_id).status()  # an unknown execution is an error, not an empty list
    found: list[c.Event] = []
    cursor, truncated = args.cursor, False
    while True:
        page = await fabric.backend.read_events(_moved(args, cursor, args.limit - len(found)))
        found += page.events
        cursor, truncated = page.cursor, truncated or page.truncated
        if not page.more or len(found) >= args.limit:
            return c.EventPage(events=tuple(found), cursor=cursor, more=page.more, truncated=truncated)


async def _follow(fabric: Fabric, out: Output, args: c.ReadEventsArgs) -> None:
    async for event in _coming(fabric, out, args):
        if out.as_json:
            out.json(event)
        else:
            out.line("  ".join(_words(event)))


async def _coming(fabric: Fabric, out: Output, args: c.ReadEventsArgs) -> AsyncIterator[c.Event]:
    if args.execution_id is not None:
        async for event in fabric.handle(args.execution_id).events(cursor=args.cursor):
            if not args.events or event.event in args.events:
                yield event
        return
    cursor: str | None = args.cursor or END
    while True:
        page = await fabric.backend.read_events(_moved(args, cursor, args.limit))
        if page.truncated:
            out.note("flowfabric: some events were trimmed from the log before they were read")
        for event in page.events:
            yield event
        cursor = page.cursor or cursor
        if not page.more:
            await asyncio.sleep(_LOOK_AGAIN_S)


def _moved(args: c.ReadEventsArgs, cursor: str | None, limit: int) -> c.ReadEventsArgs:
    return c.ReadEventsArgs(
        execution_id=args.execution_id,
        namespace=args.namespace,
        lane_id=args.lane_id,
        execution_kind=args.execution_kind,
        events=args.events,
        cursor=cursor,
        limit=limit,
    )


def _words(event: c.Event) -> tuple[str, str, str, str, str]:
    attempt = "-" if event.attempt_index is None else str(event.attempt_index)
    whose = event.execution_id or event.budget_id or "-"
    return time_text(event.at_ms), whose, event.event, attempt, _outcome(event)


def _outcome(event: c.Event) -> str:
    if event.event is EventKind.REQUEUED:
        return loss_text(event.outcome) or event.outcome or "-"
    if event.event is EventKind.LEASE_EXPIRED:
        return loss_text(OwnershipState.LEASED) or "-"
    return event.outcome or "-"


def _print_page(page: c.EventPage, out: Output) -> None:
    if out.as_json:
        out.json(page)
        return
    rows = [(at, one, coloured(what), attempt, outcome) for at, one, what, attempt, outcome in map(_words, page.events)]
    out.table(("TIME", "ID", "EVENT", "ATTEMPT", "OUTCOME"), rows)
    if page.truncated:
        out.line(Styled("older events were trimmed from the log", "dim"))
    if page.more:
        out.line(Styled(f"there is more: --cursor {page.cursor}", "dim"))

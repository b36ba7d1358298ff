"""`trim`: deleting executions that have ended."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Option

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, LaneFilter, Url
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.client.fabric import Fabric

OlderThan: TypeAlias = Annotated[str | None, Option(metavar="DURATION", help="Those that ended so long ago, like 7d.")]
KeepLast: TypeAlias = Annotated[
    int | None, Option(metavar="N", help="All but this many of each lane, the newest ones.")
]


def trim(
    older_than: OlderThan = None,
    keep_last: KeepLast = None,
    lane: LaneFilter = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete executions that have ended; what their own policy says about their retention wins.

    With neither --older-than nor --keep-last, only those are deleted whose own time is over.
    """

    async def body(fabric: Fabric, out: Output) -> None:
        seconds = parsing.optional_duration("--older-than", older_than)
        deleted, cursor = 0, None
        while True:
            done = await fabric.trim(older_than=seconds, keep_last=keep_last, lane=lane, cursor=cursor)
            deleted, cursor = deleted + done.deleted, done.cursor
            if cursor is None:
                break
        if out.as_json:
            out.json({"deleted": deleted})
        else:
            out.line(f"{deleted} deleted")

    on_store(url, as_json, body)

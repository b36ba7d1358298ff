"""`trim`: delete ended executions."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Option

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, LaneFilter, Url
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric

OlderThan: TypeAlias = Annotated[
    str | None, Option(metavar="DURATION", help="Delete executions that ended longer ago than this, like 7d.")
]
KeepLast: TypeAlias = Annotated[int | None, Option(metavar="N", help="Delete all but the newest N of each lane.")]


def trim(
    older_than: OlderThan = None,
    keep_last: KeepLast = None,
    lane: LaneFilter = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete ended executions; an execution's own retention policy takes precedence.

    With neither --older-than nor --keep-last, only executions whose own retention has passed are deleted.
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
        if not deleted:
            await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)

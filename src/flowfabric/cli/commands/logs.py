"""`logs`: print what the handlers of an execution logged."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from typer import Option

from flowfabric.cli.options import AsJson, Id, Url
from flowfabric.cli.parsing import time_text
from flowfabric.cli.running import on_store
from flowfabric.cli.show.output import Output, Styled
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.log_levels import LEVELS, level_name

Follow: TypeAlias = Annotated[bool, Option("--follow", "-f", help="Print new records, too, until it ends.")]
OfAttempt: TypeAlias = Annotated[int | None, Option("--attempt", metavar="N", help="Only of this attempt, from 0 on.")]
Level: TypeAlias = Annotated[
    str, Option("--level", metavar="LEVEL", help=f"Only from this level on: {', '.join(LEVELS)}.")
]
From: TypeAlias = Annotated[str | None, Option("--from", metavar="CURSOR", help="Continue after this record.")]

_STYLES: Final = {"debug": "dim", "warning": "yellow", "error": "red", "critical": "bold red"}


def logs(
    execution_id: Id,
    follow: Follow = False,
    attempt: OfAttempt = None,
    level: Level = "debug",
    from_: From = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print what the handlers of an execution logged, oldest first."""

    async def body(fabric: Fabric, out: Output) -> None:
        handle = fabric.handle(execution_id)
        async for record in handle.logs(after=from_, attempt=attempt, level=level, follow=follow):
            _print(record, out)

    on_store(url, as_json, body)


def _print(record: c.LogRecord, out: Output) -> None:
    name = level_name(record.level)
    if out.as_json:
        out.json(msgspec.structs.asdict(record) | {"level": name})
        return
    head = f"{time_text(record.at_ms)}  {record.attempt_index}  "
    first, *rest = record.message.splitlines() or [""]
    out.line(Styled(head, "dim"), Styled(f"{name:<8}", _STYLES.get(name, "")), f"  {first}")
    for line in rest:
        out.line(f"{'':{len(head)}}{'':8}  {line}")

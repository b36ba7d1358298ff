"""Options and arguments that commands share."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

URL_HELP: Final = "The store. By default FLOWFABRIC_URL, or the store of `flowfabric dev` in this directory."
JSON_HELP: Final = "Print JSON, one object per line."

Url: TypeAlias = Annotated[str | None, typer.Option("--url", metavar="URL", help=URL_HELP)]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The execution.", show_default=False)]
Ids: TypeAlias = Annotated[list[str], typer.Argument(metavar="ID", help="The executions.", show_default=False)]
FlowArgument: TypeAlias = Annotated[str, typer.Argument(metavar="FLOW", help="The flow.", show_default=False)]
LaneFilter: TypeAlias = Annotated[str | None, typer.Option("--lane", metavar="LANE", help="Only this lane.")]
NamespaceFilter: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace.")
]
KindFilter: TypeAlias = Annotated[
    str | None, typer.Option("--kind", metavar="TASK", help="Only executions of this task.")
]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", metavar="N", help="At most this many, 1 to 1000.")]
Cursor: TypeAlias = Annotated[str | None, typer.Option("--cursor", metavar="CURSOR", help="Continue from this cursor.")]
LogLevel: TypeAlias = Annotated[
    str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
]
LogFormat: TypeAlias = Annotated[
    str, typer.Option("--log-format", metavar="FORMAT", help="text, or json for one object per line.")
]

"""Options and commands that `budget` and `quota` share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Protocol, TypeAlias, TypeVar, Unpack

import typer

from flowfabric.cli.options import AsJson, Url
from flowfabric.cli.running import Change
from flowfabric.cli.show.output import Output, Row
from flowfabric.client.fabric import Fabric
from flowfabric.client.limits import Scope
from flowfabric.errors.texts import with_short_ids

OfNamespace: TypeAlias = Annotated[str | None, typer.Option("--namespace", metavar="NAME", help="For a namespace.")]
OfLane: TypeAlias = Annotated[str | None, typer.Option("--lane", metavar="LANE", help="For a lane.")]
OfFlow: TypeAlias = Annotated[str | None, typer.Option("--flow", metavar="ID", help="For a flow.")]
OfExecution: TypeAlias = Annotated[str | None, typer.Option("--execution", metavar="ID", help="For one execution.")]
Owner: TypeAlias = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="Only executions of this namespace may use it.")
]
OwnId: TypeAlias = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Its id, a UUID; by default a new one.")
]
LimitId: TypeAlias = Annotated[
    str, typer.Argument(metavar="ID", help="Its id; a budget also by its name.", show_default=False)
]
After: TypeAlias = Annotated[str | None, typer.Option("--after", metavar="ID", help="Start after this id.")]

Id = TypeVar("Id")
Status = TypeVar("Status")

# Make a change to a limit, then show the limit: its id, the change, --url, --json and --lane.
ThenShow: TypeAlias = Callable[[str, Change, str | None, bool, str | None], None]


class Attachable(Protocol):
    """The common methods of `fabric.budgets` and `fabric.quotas`."""

    async def attach(self, limit_id: str, /, **scope: Unpack[Scope]) -> None: ...

    async def detach(self, limit_id: str, /, **scope: Unpack[Scope]) -> None: ...


def scope(namespace: str | None, lane: str | None, flow: str | None, execution: str | None) -> Scope:
    """The scopes given to the command."""
    found = Scope()
    if namespace is not None:
        found["namespace"] = namespace
    if lane is not None:
        found["lane"] = lane
    if flow is not None:
        found["flow"] = flow
    if execution is not None:
        found["execution"] = execution
    return found


def scope_text(scope_type: str | None, scope_id: str | None) -> str:
    return with_short_ids(f"{scope_type} {scope_id}") if scope_type else "-"


def add_scope_commands(
    app: typer.Typer, noun: str, limits: Callable[[Fabric], Attachable], then_show: ThenShow
) -> None:
    """Add `attach` and `detach` to the commands of a kind of limit."""

    def add(name: str, summary: str, change: Callable[[Attachable, str, Scope], Awaitable[None]]) -> None:
        @app.command(name, help=summary)
        def command(
            limit_id: LimitId,
            namespace: OfNamespace = None,
            lane: OfLane = None,
            flow: OfFlow = None,
            execution: OfExecution = None,
            url: Url = None,
            as_json: AsJson = False,
        ) -> None:
            where = scope(namespace, lane, flow, execution)
            then_show(limit_id, lambda fabric: change(limits(fabric), limit_id, where), url, as_json, lane)

    add("attach", f"Apply a {noun} to all executions of a scope, too.", lambda of, id_, at: of.attach(id_, **at))
    add("detach", f"Remove a {noun} from a scope.", lambda of, id_, at: of.detach(id_, **at))


async def print_all(
    ids: Iterable[Id],
    status: Callable[[Id], Awaitable[Status]],
    out: Output,
    name: str,
    columns: Sequence[str],
    row: Callable[[Status], Row],
) -> None:
    """The status of each limit: as JSON under `name`, or as a table."""
    found = await asyncio.gather(*map(status, ids))
    if out.as_json:
        out.json({name: found})
    else:
        out.table(columns, [row(each) for each in found])

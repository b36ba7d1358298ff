"""`quota`: what may start within a window, and what may run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import typer

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Limit, Url
from flowfabric.cli.running import on_store, options_go_behind
from flowfabric.cli.scopes import OfExecution, OfFlow, OfLane, OfNamespace, Owner, scope, scope_text
from flowfabric.cli.show.output import Cell, Output
from flowfabric.client.fabric import Fabric
from flowfabric.core.contracts import QuotaKey, QuotaStatus

Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The quota policy.", show_default=False)]
MaxConcurrent: TypeAlias = Annotated[
    int | None, typer.Option("--max-concurrent", metavar="N", help="How many run at once.")
]
Rate: TypeAlias = Annotated[int | None, typer.Option("--rate", metavar="N", help="How many start within a window.")]
Window: TypeAlias = Annotated[
    str | None, typer.Option("--window", metavar="DURATION", help="The window, in whole seconds, like 60s.")
]
KeyBy: TypeAlias = Annotated[
    QuotaKey | None, typer.Option("--key-by", metavar="KEY", help=f"Count each by itself: {', '.join(QuotaKey)}.")
]
Key: TypeAlias = Annotated[str, typer.Option("--key", metavar="VALUE", help="For one of the keys it counts apart.")]
OwnId: TypeAlias = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Its id, a UUID; by default a new one.")
]
After: TypeAlias = Annotated[str | None, typer.Option("--after", metavar="ID", help="Go on behind this one.")]

app = typer.Typer(help="Make, show and attach quota policies.", invoke_without_command=True)


@app.callback()
def quota(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """Make, show and attach quota policies."""
    if ctx.invoked_subcommand is None:
        ls(url=url, as_json=as_json)
    else:
        options_go_behind(f"quota {ctx.invoked_subcommand}", url, as_json)


@app.command()
def create(
    max_concurrent: MaxConcurrent = None,
    rate: Rate = None,
    window: Window = None,
    key_by: KeyBy = None,
    quota_policy_id: OwnId = None,
    owner: Owner = None,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a quota policy for a namespace, lane, flow or execution; without one, for those submitted with it."""

    async def body(fabric: Fabric, out: Output) -> None:
        made = await fabric.quotas.create(
            max_concurrent=max_concurrent,
            rate=rate,
            window=parsing.optional_duration("--window", window),
            key_by=key_by,
            quota_policy_id=quota_policy_id,
            owner=owner,
            **scope(namespace, lane, flow, execution),
        )
        if out.as_json:
            out.json({"quota_policy_id": made})
        else:
            out.line(made)

    on_store(url, as_json, body)


@app.command()
def show(quota_policy_id: Id, key: Key = "", url: Url = None, as_json: AsJson = False) -> None:
    """Show a quota policy: its limits, what runs and what has started within the window."""
    _then_show(quota_policy_id, _nothing, url, as_json, key)


@app.command()
def attach(
    quota_policy_id: Id,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Have a quota policy count for all executions of a scope, too."""
    where = scope(namespace, lane, flow, execution)
    _then_show(quota_policy_id, lambda fabric: fabric.quotas.attach(quota_policy_id, **where), url, as_json)


@app.command()
def detach(
    quota_policy_id: Id,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take a quota policy off a scope."""
    where = scope(namespace, lane, flow, execution)
    _then_show(quota_policy_id, lambda fabric: fabric.quotas.detach(quota_policy_id, **where), url, as_json)


@app.command()
def ls(limit: Limit = 100, after: After = None, url: Url = None, as_json: AsJson = False) -> None:
    """List quota policies, by id."""

    async def body(fabric: Fabric, out: Output) -> None:
        ids = await fabric.quotas.list(after=after, limit=limit)
        found = await asyncio.gather(*map(fabric.quotas.status, ids))
        if out.as_json:
            out.json({"quota_policies": found})
        else:
            out.table(("ID", "SCOPE", "KEY", "RUNNING", "STARTED"), [_row(each) for each in found])

    on_store(url, as_json, body)


async def _nothing(_: Fabric) -> None: ...


def _then_show(
    quota_policy_id: str,
    change: Callable[[Fabric], Awaitable[None]],
    url: str | None,
    as_json: bool,
    key: str = "",
) -> None:
    async def body(fabric: Fabric, out: Output) -> None:
        await change(fabric)
        status = await fabric.quotas.status(quota_policy_id, key=key)
        if out.as_json:
            out.json(status)
        else:
            _print(status, out)

    on_store(url, as_json, body)


def _print(status: QuotaStatus, out: Output) -> None:
    out.fields(
        [
            ("quota policy", status.quota_policy_id),
            ("scope", scope_text(status.scope_type, status.scope_id)),
            ("counted by", status.key_by or "-"),
            ("running", _running(status)),
            ("started", _started(status)),
            ("may start now", str(status.room)),
            ("room in", parsing.span_text(status.retry_after_ms)),
        ]
    )


def _running(status: QuotaStatus) -> str:
    return f"{status.running} of {status.max_concurrent or 'any'}"


def _started(status: QuotaStatus) -> str:
    if not status.window_seconds:
        return "-"
    return f"{status.started} of {status.max_requests_per_window} within {status.window_seconds} s"


def _row(status: QuotaStatus) -> tuple[Cell, ...]:
    where = scope_text(status.scope_type, status.scope_id)
    return (status.quota_policy_id, where, status.key_by or "-", _running(status), _started(status))

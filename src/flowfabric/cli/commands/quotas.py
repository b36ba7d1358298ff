"""`quota`: how many executions may start within a window, and how many may run at once."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from flowfabric.cli import parsing
from flowfabric.cli.commands import limits as shared
from flowfabric.cli.commands.limits import After, LimitId, OfExecution, OfFlow, OfLane, OfNamespace, Owner, OwnId
from flowfabric.cli.options import AsJson, Limit, Url
from flowfabric.cli.running import Change, list_by_default, no_change, on_store, then_show
from flowfabric.cli.show.output import Cell, Output
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric
from flowfabric.core.contracts import QuotaKey, QuotaStatus

MaxConcurrent: TypeAlias = Annotated[
    int | None, typer.Option("--max-concurrent", metavar="N", help="How many may run at once.")
]
Rate: TypeAlias = Annotated[int | None, typer.Option("--rate", metavar="N", help="How many may start per window.")]
Window: TypeAlias = Annotated[
    str | None, typer.Option("--window", metavar="DURATION", help="The window, in whole seconds, like 60s.")
]
KeyBy: TypeAlias = Annotated[
    QuotaKey | None, typer.Option("--key-by", metavar="KEY", help=f"Count separately per: {', '.join(QuotaKey)}.")
]
Key: TypeAlias = Annotated[str, typer.Option("--key", metavar="VALUE", help="Show the counts of this key.")]

_COLUMNS: Final = ("ID", "SCOPE", "KEY", "RUNNING", "STARTED")

app = typer.Typer(help="Create, show and attach quota policies.", invoke_without_command=True)


@app.callback()
def quota(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """Create, show and attach quota policies."""
    list_by_default(ctx, url, as_json, lambda: ls(url=url, as_json=as_json))


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
    """Create a quota policy for a namespace, lane, flow or execution; without a scope, for executions that name it."""

    async def body(fabric: Fabric, out: Output) -> None:
        made = await fabric.quotas.create(
            max_concurrent=max_concurrent,
            rate=rate,
            window=parsing.optional_duration("--window", window),
            key_by=key_by,
            quota_policy_id=quota_policy_id,
            owner=owner,
            **shared.scope(namespace, lane, flow, execution),
        )
        if out.as_json:
            out.json({"quota_policy_id": made})
        else:
            out.line(made)
        await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)


@app.command()
def show(quota_policy_id: LimitId, key: Key = "", url: Url = None, as_json: AsJson = False) -> None:
    """Show a quota policy: its limits, running executions, and starts within the window."""
    _then_show(quota_policy_id, no_change, url, as_json, key=key)


def _then_show(
    quota_policy_id: str, change: Change, url: str | None, as_json: bool, lane: str | None = None, *, key: str = ""
) -> None:
    then_show(url, as_json, change, lambda fabric: fabric.quotas.status(quota_policy_id, key=key), _print, lane)


shared.add_scope_commands(app, "quota policy", lambda fabric: fabric.quotas, _then_show)


@app.command()
def ls(limit: Limit = 100, after: After = None, url: Url = None, as_json: AsJson = False) -> None:
    """List quota policies, by id."""

    async def body(fabric: Fabric, out: Output) -> None:
        ids = await fabric.quotas.list(after=after, limit=limit)
        await shared.print_all(ids, fabric.quotas.status, out, "quota_policies", _COLUMNS, _row)

    on_store(url, as_json, body)


def _print(status: QuotaStatus, out: Output) -> None:
    out.fields(
        [
            ("quota policy", status.quota_policy_id),
            ("scope", shared.scope_text(status.scope_type, status.scope_id)),
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
    where = shared.scope_text(status.scope_type, status.scope_id)
    return (status.quota_policy_id, where, status.key_by or "-", _running(status), _started(status))

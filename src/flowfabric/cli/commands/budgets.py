"""`budget`: spending limits by dimension, and usage as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, TypeAlias

import typer

from flowfabric.cli import parsing
from flowfabric.cli.commands import limits as shared
from flowfabric.cli.commands.limits import After, LimitId, OfExecution, OfFlow, OfLane, OfNamespace, Owner, OwnId
from flowfabric.cli.options import AsJson, Limit, Url
from flowfabric.cli.running import Change, list_by_default, no_change, on_store, then_show
from flowfabric.cli.show.output import Cell, Output, Styled
from flowfabric.cli.show.unknown_names import warn_of_unknown_lane
from flowfabric.client.fabric import Fabric
from flowfabric.core.contracts import BudgetStatus, OnHardLimit
from flowfabric.core.ids import ExecutionId

OfWhom: TypeAlias = Annotated[str, typer.Argument(metavar="EXECUTION", help="The execution.", show_default=False)]
Hard: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=N", help="A hard limit, like tokens=1000; 0 is no limit. Repeatable."),
]
Soft: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--soft", metavar="NAME=N", help="A soft limit: exceeding it is reported. Repeatable."),
]
OnBreach: TypeAlias = Annotated[
    OnHardLimit,
    typer.Option(
        "--on-breach", metavar="POLICY", help=f"What a breach of a hard limit does: {', '.join(OnHardLimit)}."
    ),
]
ResetEvery: TypeAlias = Annotated[
    str | None, typer.Option("--reset-every", metavar="DURATION", help="Start a new period this often, like 1d.")
]

Name: TypeAlias = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="A name, which other commands take in place of the id.")
]

_WIDTH: Final = 30
_NEARLY: Final = 0.8

_COLUMNS: Final = ("ID", "NAME", "SCOPE", "ON BREACH", "USED", "STATE")

app = typer.Typer(help="Create, show, limit, reset and attach budgets.", invoke_without_command=True)


@app.callback()
def budget(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """Create, show, limit, reset and attach budgets."""
    list_by_default(ctx, url, as_json, lambda: ls(url=url, as_json=as_json))


@app.command()
def create(
    limit: Hard = None,
    soft: Soft = None,
    on_breach: OnBreach = OnHardLimit.REJECT,
    reset_every: ResetEvery = None,
    name: Name = None,
    budget_id: OwnId = None,
    owner: Owner = None,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create a budget for a namespace, lane, flow or execution; without a scope, for executions that name it."""

    async def body(fabric: Fabric, out: Output) -> None:
        made = await fabric.budgets.create(
            parsing.amounts("--limit", limit or ()),
            soft=parsing.amounts("--soft", soft or ()),
            on_hard_limit=on_breach,
            reset_every=parsing.optional_duration("--reset-every", reset_every),
            name=name,
            budget_id=budget_id,
            owner=owner,
            **shared.scope(namespace, lane, flow, execution),
        )
        if out.as_json:
            out.json({"budget_id": made})
        else:
            out.line(made)
        await warn_of_unknown_lane(fabric, lane, out)

    on_store(url, as_json, body)


@app.command()
def show(budget_id: LimitId, url: Url = None, as_json: AsJson = False) -> None:
    """Show a budget: usage of its limits as bars, its breaches and its next reset."""
    _then_show(budget_id, no_change, url, as_json)


@app.command()
def usage(budget_id: LimitId, execution_id: OfWhom, url: Url = None, as_json: AsJson = False) -> None:
    """Show how much of a budget an execution has spent since the last reset."""

    async def body(fabric: Fabric, out: Output) -> None:
        spent = await fabric.budgets.usage(budget_id, execution_id)
        if out.as_json:
            out.json({"budget_id": budget_id, "execution_id": ExecutionId(execution_id), "usage": spent})
        else:
            out.fields([(name, str(amount)) for name, amount in spent.items()])

    on_store(url, as_json, body)


@app.command()
def reset(budget_id: LimitId, url: Url = None, as_json: AsJson = False) -> None:
    """Start a new period: usage is zero and a breach ends."""
    _then_show(budget_id, lambda fabric: fabric.budgets.reset(budget_id), url, as_json)


@app.command("limit")
def limit_budget(
    budget_id: LimitId, limit: Hard = None, soft: Soft = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Change limits of a budget in use; limits that are not named stay as they are."""

    async def change(fabric: Fabric) -> None:
        hard, softer = parsing.amounts("--limit", limit or ()), parsing.amounts("--soft", soft or ())
        await fabric.budgets.set_limits(budget_id, hard, soft=softer)

    _then_show(budget_id, change, url, as_json)


def _then_show(budget_id: str, change: Change, url: str | None, as_json: bool, lane: str | None = None) -> None:
    then_show(url, as_json, change, lambda fabric: fabric.budgets.status(budget_id), _print, lane)


shared.add_scope_commands(app, "budget", lambda fabric: fabric.budgets, _then_show)


@app.command()
def ls(limit: Limit = 100, after: After = None, url: Url = None, as_json: AsJson = False) -> None:
    """List budgets, by id."""

    async def body(fabric: Fabric, out: Output) -> None:
        ids = await fabric.budgets.list(after=after, limit=limit)
        await shared.print_all(ids, fabric.budgets.status, out, "budgets", _COLUMNS, _row)

    on_store(url, as_json, body)


def _print(status: BudgetStatus, out: Output) -> None:
    out.fields(
        [
            ("budget", status.budget_id),
            ("name", status.name or "-"),
            ("scope", shared.scope_text(status.scope_type, status.scope_id)),
            ("on breach", status.on_hard_limit),
            ("state", _state(status)),
            ("breaches", f"{status.breach_count}, and {status.soft_breach_count} of soft limits"),
            ("next reset", parsing.time_text(status.next_reset_at)),
        ]
    )
    names = sorted({*status.hard_limits, *status.soft_limits, *status.usage})
    width = max(map(len, names), default=0)
    for name in names:
        out.line(f"{name:<{width}}  ", *_bar(status, name))


def _bar(status: BudgetStatus, name: str) -> Iterator[Cell]:
    """Used and reserved amounts as a share of the limit; without a limit only the amounts."""
    used, held, limit = status.usage.get(name, 0), status.reserved.get(name, 0), status.hard_limits.get(name, 0)
    if limit:
        share = (used + held) / limit
        filled = min(_WIDTH, round(_WIDTH * share))
        spent = min(filled, round(_WIDTH * used / limit))
        colour = "red" if share >= 1 else "yellow" if share >= _NEARLY else "green"
        yield "["
        yield Styled("#" * spent + "+" * (filled - spent), colour)
        yield Styled("." * (_WIDTH - filled), "dim")
        yield f"] {share:>4.0%}  "
    reserved = f" + {held} reserved" if held else ""
    soft = f", soft {status.soft_limits[name]}" if name in status.soft_limits else ""
    yield f"{used}{reserved} of {limit or 'any'}{soft}"


def _state(status: BudgetStatus) -> Styled:
    if status.breached_at is None:
        return Styled("open", "green")
    return Styled(f"breached in {status.last_breach_dim} since {parsing.time_text(status.breached_at)}", "red")


def _row(status: BudgetStatus) -> tuple[Cell, ...]:
    fullest = max(
        ((status.usage.get(name, 0) + status.reserved.get(name, 0)) / limit, name)
        for name, limit in (status.hard_limits or {"-": 1}).items()
    )
    state = Styled("open", "green") if status.breached_at is None else Styled("breached", "red")
    where = shared.scope_text(status.scope_type, status.scope_id)
    return (status.budget_id, status.name or "-", where, status.on_hard_limit, f"{fullest[0]:.0%} {fullest[1]}", state)

"""`budget`: what may be spent, by dimension, and what was, as bars."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Final, TypeAlias

import typer

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Limit, Url
from flowfabric.cli.running import on_store, options_go_behind
from flowfabric.cli.scopes import OfExecution, OfFlow, OfLane, OfNamespace, Owner, scope, scope_text
from flowfabric.cli.show.output import Cell, Output, Styled
from flowfabric.client.fabric import Fabric
from flowfabric.core.contracts import BudgetStatus, OnHardLimit

Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The budget.", show_default=False)]
OfWhom: TypeAlias = Annotated[str, typer.Argument(metavar="EXECUTION", help="The execution.", show_default=False)]
Hard: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=N", help="What may be spent, like tokens=1000; may be repeated; 0 is none."),
]
Soft: TypeAlias = Annotated[
    list[str] | None, typer.Option("--soft", metavar="NAME=N", help="What is told when it is passed; may be repeated.")
]
OnBreach: TypeAlias = Annotated[
    OnHardLimit, typer.Option("--on-breach", metavar="POLICY", help=f"What happens then: {', '.join(OnHardLimit)}.")
]
ResetEvery: TypeAlias = Annotated[
    str | None, typer.Option("--reset-every", metavar="DURATION", help="Begin a new period so often, like 1d.")
]
OwnId: TypeAlias = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Its id, a UUID; by default a new one.")
]
After: TypeAlias = Annotated[str | None, typer.Option("--after", metavar="ID", help="Go on behind this one.")]

_WIDTH: Final = 30
_NEARLY: Final = 0.8

app = typer.Typer(help="Make, show, limit, reset and attach budgets.", invoke_without_command=True)


@app.callback()
def budget(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """Make, show, limit, reset and attach budgets."""
    if ctx.invoked_subcommand is None:
        ls(url=url, as_json=as_json)
    else:
        options_go_behind(f"budget {ctx.invoked_subcommand}", url, as_json)


@app.command()
def create(
    limit: Hard = None,
    soft: Soft = None,
    on_breach: OnBreach = OnHardLimit.REJECT,
    reset_every: ResetEvery = None,
    budget_id: OwnId = None,
    owner: Owner = None,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a budget for a namespace, lane, flow or execution; without one, for those submitted with it."""

    async def body(fabric: Fabric, out: Output) -> None:
        made = await fabric.budgets.create(
            parsing.amounts("--limit", limit or ()),
            soft=parsing.amounts("--soft", soft or ()),
            on_hard_limit=on_breach,
            reset_every=parsing.optional_duration("--reset-every", reset_every),
            budget_id=budget_id,
            owner=owner,
            **scope(namespace, lane, flow, execution),
        )
        if out.as_json:
            out.json({"budget_id": made})
        else:
            out.line(made)

    on_store(url, as_json, body)


@app.command()
def show(budget_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show a budget: its limits as bars, and what became of them."""
    _then_show(budget_id, _nothing, url, as_json)


@app.command()
def usage(budget_id: Id, execution_id: OfWhom, url: Url = None, as_json: AsJson = False) -> None:
    """Show what an execution has spent of a budget since its last reset."""

    async def body(fabric: Fabric, out: Output) -> None:
        spent = await fabric.budgets.usage(budget_id, execution_id)
        if out.as_json:
            out.json({"budget_id": budget_id, "execution_id": execution_id, "usage": spent})
        else:
            out.fields([(name, str(amount)) for name, amount in spent.items()])

    on_store(url, as_json, body)


@app.command()
def reset(budget_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Begin a new period: nothing is used, and a breach is over."""
    _then_show(budget_id, lambda fabric: fabric.budgets.reset(budget_id), url, as_json)


@app.command("limit")
def limit_budget(
    budget_id: Id, limit: Hard = None, soft: Soft = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Change limits of a budget in use; those that are not named stay."""

    async def change(fabric: Fabric) -> None:
        hard, told = parsing.amounts("--limit", limit or ()), parsing.amounts("--soft", soft or ())
        await fabric.budgets.set_limits(budget_id, hard, soft=told)

    _then_show(budget_id, change, url, as_json)


@app.command()
def attach(
    budget_id: Id,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Have a budget count for all executions of a scope, too."""
    where = scope(namespace, lane, flow, execution)
    _then_show(budget_id, lambda fabric: fabric.budgets.attach(budget_id, **where), url, as_json)


@app.command()
def detach(
    budget_id: Id,
    namespace: OfNamespace = None,
    lane: OfLane = None,
    flow: OfFlow = None,
    execution: OfExecution = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take a budget off a scope."""
    where = scope(namespace, lane, flow, execution)
    _then_show(budget_id, lambda fabric: fabric.budgets.detach(budget_id, **where), url, as_json)


@app.command()
def ls(limit: Limit = 100, after: After = None, url: Url = None, as_json: AsJson = False) -> None:
    """List budgets, by id."""

    async def body(fabric: Fabric, out: Output) -> None:
        ids = await fabric.budgets.list(after=after, limit=limit)
        found = await asyncio.gather(*map(fabric.budgets.status, ids))
        if out.as_json:
            out.json({"budgets": found})
        else:
            out.table(("ID", "SCOPE", "ON BREACH", "USED", "STATE"), [_row(each) for each in found])

    on_store(url, as_json, body)


async def _nothing(_: Fabric) -> None: ...


def _then_show(budget_id: str, change: Callable[[Fabric], Awaitable[None]], url: str | None, as_json: bool) -> None:
    async def body(fabric: Fabric, out: Output) -> None:
        await change(fabric)
        status = await fabric.budgets.status(budget_id)
        if out.as_json:
            out.json(status)
        else:
            _print(status, out)

    on_store(url, as_json, body)


def _print(status: BudgetStatus, out: Output) -> None:
    out.fields(
        [
            ("budget", status.budget_id),
            ("scope", scope_text(status.scope_type, status.scope_id)),
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
    """What is used, then what is reserved, of the limit; without a limit there is nothing to compare with."""
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
    where = scope_text(status.scope_type, status.scope_id)
    return (status.budget_id, where, status.on_hard_limit, f"{fullest[0]:.0%} {fullest[1]}", state)

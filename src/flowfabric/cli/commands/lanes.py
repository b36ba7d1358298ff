"""`lanes`: list, pause, resume, drain and limit lanes."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer

from flowfabric.cli import parsing
from flowfabric.cli.options import AsJson, Url
from flowfabric.cli.running import Change, list_by_default, on_store, then_show
from flowfabric.cli.show.output import Output, Row, coloured
from flowfabric.cli.show.paging import all_workers
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput

NO_LIMIT: Final = "none"

Name: TypeAlias = Annotated[str, typer.Argument(metavar="LANE", help="The lane.", show_default=False)]
Max: TypeAlias = Annotated[
    str | None, typer.Option("--max", metavar="N", help="How many may run at once, or none for no limit.")
]
PerKey: TypeAlias = Annotated[
    str | None,
    typer.Option("--per-key", metavar="N", help="How many of one concurrency key may run at once, or none for 1."),
]
Ageing: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="How long a wait outweighs one step of priority, like 10s, or none."),
]

SharedQueue: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--shared-queue/--own-queues",
        help="Whether work that needs capabilities is queued where schedulers of other programs look for it.",
    ),
]

app = typer.Typer(help="List lanes; pause, resume, drain or limit one.", invoke_without_command=True)


@app.callback()
def lanes(ctx: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List lanes; pause, resume, drain or limit one."""
    list_by_default(ctx, url, as_json, lambda: on_store(url, as_json, _list))


@app.command()
def pause(lane: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Start nothing in a lane until it is resumed; running executions continue."""
    _change(lane, lambda fabric: fabric.pause_lane(lane), url, as_json)


@app.command()
def resume(lane: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Start executions of a lane again."""
    _change(lane, lambda fabric: fabric.resume_lane(lane), url, as_json)


@app.command()
def drain(lane: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Start no new executions in a lane; started ones run to their end."""
    _change(lane, lambda fabric: fabric.drain_lane(lane), url, as_json)


@app.command()
def limit(
    lane: Name,
    most: Max = None,
    per_key: PerKey = None,
    ageing: Ageing = None,
    shared_queue: SharedQueue = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Limit how many executions of a lane run at once; settings that are not given stay as they are."""

    async def change(fabric: Fabric) -> None:
        now = await fabric.describe_lane(lane)
        await fabric.configure_lane(
            lane,
            max_concurrency=_number("--max", most, now.max_concurrency),
            key_concurrency=_number("--per-key", per_key, now.key_concurrency),
            ageing=_ageing(ageing, now.ageing_ms_per_priority),
            shared_queue=now.shared_queue if shared_queue is None else shared_queue,
        )

    _change(lane, change, url, as_json)


def _number(option: str, text: str | None, now: int | None) -> int | None:
    if text is None:
        return now
    if text == NO_LIMIT:
        return None
    if not text.isdecimal():
        raise InvalidInput(option, text, f"must be a whole number, or {NO_LIMIT}")
    return int(text)


def _ageing(text: str | None, now_ms: int | None) -> float | None:
    if text is None:
        return None if now_ms is None else now_ms / 1000
    return None if text == NO_LIMIT else parsing.duration("--ageing", text)


def _change(lane: str, change: Change, url: str | None, as_json: bool) -> None:
    then_show(url, as_json, change, lambda fabric: fabric.describe_lane(lane), _print_settings, lane)


def _print_settings(now: c.LaneSettings, out: Output) -> None:
    out.fields(
        [
            ("lane", now.lane_id),
            ("state", coloured(now.state)),
            ("max", _or_dash(now.max_concurrency)),
            ("per key", _or_dash(now.key_concurrency)),
            ("ageing", parsing.span_text(now.ageing_ms_per_priority)),
            ("queue", "shared" if now.shared_queue else "by capability"),
        ]
    )


async def _list(fabric: Fabric, out: Output) -> None:
    """Every lane that has executions or a worker."""
    workers = await all_workers(fabric)
    counted = {counts.lane_id: counts for counts in await fabric.counts()}
    found = []
    for name in sorted({*counted, *(lane for worker in workers for lane in worker.lanes)}):
        settings = await fabric.describe_lane(name)
        counts = counted.get(name) or c.LaneCounts(lane_id=name)
        found.append((settings, counts, sum(name in worker.lanes for worker in workers)))
    if out.as_json:
        out.json({"lanes": [_as_object(*each) for each in found]})
        return
    columns = ("LANE", "STATE", "WAITING", "ACTIVE", "DELAYED", "COMPLETED", "FAILED", "OLDEST", "WORKERS", "MAX")
    out.table(columns, [_row(*each) for each in found])


def _as_object(settings: c.LaneSettings, counts: c.LaneCounts, workers: int) -> dict[str, Any]:
    return {**msgspec.structs.asdict(settings), **msgspec.structs.asdict(counts), "workers": workers}


def _row(settings: c.LaneSettings, counts: c.LaneCounts, workers: int) -> Row:
    shown = (
        PublicState.WAITING,
        PublicState.ACTIVE,
        PublicState.DELAYED,
        PublicState.COMPLETED,
        PublicState.FAILED,
    )
    return (
        settings.lane_id,
        coloured(settings.state),
        *(str(counts.counts.get(state, 0)) for state in shown),
        parsing.span_text(counts.oldest_waiting_ms),
        str(workers),
        _or_dash(settings.max_concurrency),
    )


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)

"""Warn about lanes, budgets and quotas that are not in use: most likely the name is misspelt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from difflib import get_close_matches
from typing import Any, Final

from flowfabric.cli.show.output import Output
from flowfabric.cli.show.paging import all_workers, collected
from flowfabric.client.fabric import Fabric
from flowfabric.errors import FlowFabricError, NotFound

_SHOWN: Final = 10


async def warn_of_unknown_lane(fabric: Fabric, lane: str | None, out: Output) -> None:
    """Print a warning on stderr. What was done for the lane stays, because its executions may come later."""
    if lane is None:
        return
    try:
        known = await _known_lanes(fabric)
    except FlowFabricError:  # a token that may not list them
        return
    if lane not in known:
        out.warn(f"lane {lane!r} has no executions and no worker; {_advice(lane, known)}", lane_id=lane)


async def warn_of_unknown_limits(
    fabric: Fabric, budgets: Collection[str], quotas: Collection[str], out: Output
) -> None:
    """Print a warning for each budget and quota policy that a submission names and that does not exist."""
    for each in budgets:
        if await _is_unknown(fabric.budgets.status, each):
            out.warn(f"budget {each!r} does not exist; `flowfabric budget ls` lists them", budget_id=each)
    for each in quotas:
        if await _is_unknown(fabric.quotas.status, each):
            out.warn(f"quota policy {each!r} does not exist; `flowfabric quota ls` lists them", quota_policy_id=each)


async def _is_unknown(status: Callable[[str], Awaitable[Any]], limit_id: str) -> bool:
    try:
        await status(limit_id)
    except NotFound:
        return True
    except FlowFabricError:  # a token that may not read it
        return False
    return False


async def _known_lanes(fabric: Fabric) -> list[str]:
    listed, _ = await collected(fabric.lanes, lambda page: page.lanes)
    worked = {lane for worker in await all_workers(fabric) for lane in worker.lanes}
    return sorted({*map(str, listed), *worked})


def _advice(lane: str, known: list[str]) -> str:
    if similar := get_close_matches(lane, known, 1):
        return f"did you mean {similar[0]!r}?"
    if not known:
        return "no lane has any yet"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"lanes that have: {', '.join(known[:_SHOWN])}{more}"

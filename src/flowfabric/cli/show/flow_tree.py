"""Draw a flow as a tree, in colour, and redraw it while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from flowfabric.cli.show.output import Cell, Output, Row, Styled, coloured
from flowfabric.client.flows.drawing import TreeLine, span, tree_lines
from flowfabric.client.flows.handle import FlowHandle
from flowfabric.client.flows.view import FlowView
from flowfabric.core.contracts.events import END

_DRAW_AT_MOST_EVERY_S: Final = 0.1
_DRAW_AT_LEAST_EVERY_S: Final = 1.0


async def watch(handle: FlowHandle, out: Output) -> FlowView:
    """Redraw the flow until it ends; the last drawing stays. Without a terminal only that one is printed."""
    with out.live_lines() as live:
        if live is None:
            await handle.wait()
        else:
            async for _ in changes(handle):
                live.update(drawn(await handle.view()))
    view = await handle.view()
    print_tree(view, out)
    return view


async def changes(handle: FlowHandle) -> AsyncIterator[None]:
    """Yield now and after every change of the flow, until it ends."""
    changed = asyncio.Event()

    async def listen() -> None:
        try:
            async for _ in handle.events(cursor=END):
                changed.set()
        finally:
            changed.set()

    listening = asyncio.create_task(listen())
    try:
        while not listening.done():
            changed.clear()
            yield
            with suppress(TimeoutError):  # catches changes made before the event stream was open
                await asyncio.wait_for(changed.wait(), _DRAW_AT_LEAST_EVERY_S)
            await asyncio.sleep(_DRAW_AT_MOST_EVERY_S)
        await listening
    finally:
        listening.cancel()


def print_tree(view: FlowView, out: Output) -> None:
    for line in drawn(view):
        out.line(*line)


def drawn(view: FlowView) -> list[Row]:
    """A line for the flow, its members, and the longest path."""
    flow = view.flow
    lines = tree_lines(view)
    width = max((len(line.branch + line.label) for line in lines), default=0)
    took = span(view.duration_ms)
    head: list[Cell] = [f"{flow.flow_kind} {flow.flow_id}  ", coloured(flow.public_flow_state), f"  {took}".rstrip()]
    return [head, *(_row(line, width) for line in lines), *_footer(view)]


def _row(line: TreeLine, width: int) -> Row:
    gap = " " * (width - len(line.branch + line.label) + 2)
    label = Styled(line.label, "bold") if line.is_critical else line.label
    note = f"  {line.note}" if line.note else ""
    return Styled(line.branch, "dim"), label, gap, coloured(line.state), Styled(note, "dim")


def _footer(view: FlowView) -> list[Row]:
    if view.duration_ms is None or not view.critical_path:
        return []
    path = " > ".join(view.labels[each] for each in view.critical_path)
    return [(Styled(f"longest path: {path}", "dim"),)]

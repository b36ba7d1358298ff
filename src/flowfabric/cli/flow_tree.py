"""A flow drawn as a tree, in colours, and again and again while it runs."""

from __future__ import annotations

import asyncio
from typing import Final

from flowfabric.cli.output import Cell, Output, Row, Styled, coloured
from flowfabric.client.drawing import TreeLine, span, tree_lines
from flowfabric.client.flow_handle import FlowHandle
from flowfabric.client.flow_view import FlowView

_DRAW_EVERY_S: Final = 0.2


async def watch(handle: FlowHandle, out: Output) -> FlowView:
    """Draw it until it has ended; the last drawing stays. Where nobody looks there is only that one."""
    with out.live_lines() as live:
        while True:
            view = await handle.view()
            if live is not None:
                live.update(drawn(view))
            if view.flow.public_flow_state.has_ended and not view.flow.left_count:
                break
            await asyncio.sleep(_DRAW_EVERY_S)
    print_tree(view, out)
    return view


def print_tree(view: FlowView, out: Output) -> None:
    for line in drawn(view):
        out.line(*line)


def drawn(view: FlowView) -> list[Row]:
    """The flow's own line, its members, and the path that took longest."""
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

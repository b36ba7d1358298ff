"""Counts of the store, redrawn every second; into a pipe, a line for every change."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from flowfabric.cli.parsing import span_text
from flowfabric.cli.show.output import LiveTable, Output
from flowfabric.cli.show.paging import all_workers
from flowfabric.client.fabric import Fabric
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import ENDINGS
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError

_logger: Final = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_OPEN: Final = (PublicState.WAITING, PublicState.ACTIVE, PublicState.DELAYED)
_ENDED: Final = (PublicState.COMPLETED, PublicState.FAILED)


class Summary:
    """Counts of all lanes."""

    def __init__(self, fabric: Fabric, out: Output, table: LiveTable | None, place: str) -> None:
        self._fabric = fabric
        self._out = out
        self._table = table
        self._place = place
        self._ended: int | None = None
        self._last: list[c.LaneCounts] = []

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except FlowFabricError as error:
                _logger.warning("reading the counts failed: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        counts = sorted(await self._fabric.counts(), key=lambda each: each.lane_id)
        if self._table is not None:
            self._draw(self._table, counts, len(await all_workers(self._fabric)))
        elif [each.counts for each in counts] != [each.counts for each in self._last]:
            self._last = counts
            lanes = "; ".join(_sentence(each) for each in counts)
            self._out.event("lanes", lanes, lanes=counts)

    def _draw(self, table: LiveTable, counts: list[c.LaneCounts], workers: int) -> None:
        ended = sum(each.counts.get(state, 0) for each in counts for state in ENDINGS.values())
        rate = max(0, ended - (ended if self._ended is None else self._ended)) / _EVERY_S
        self._ended = ended
        rows = [
            (
                each.lane_id,
                *(str(each.counts.get(state, 0)) for state in (*_OPEN, *_ENDED)),
                str(each.total - sum(each.counts.get(state, 0) for state in (*_OPEN, *_ENDED))),
                span_text(each.oldest_waiting_ms),
            )
            for each in counts
        ]
        columns = ("LANE", *(state.upper() for state in (*_OPEN, *_ENDED)), "OTHER", "OLDEST")
        title = f"{self._place}   {workers} worker{'s' * (workers != 1)}   {rate:.0f}/s   Ctrl-C stops"
        table.update(columns, rows, title)


def _sentence(counts: c.LaneCounts) -> str:
    found = ", ".join(f"{state} {number}" for state, number in sorted(counts.counts.items()))
    return f"{counts.lane_id}: {found or 'empty'}"

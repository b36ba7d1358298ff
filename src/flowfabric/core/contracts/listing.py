"""Lists and counts of executions."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Checked, ExecutionKind, ScanLimit, Tags
from flowfabric.core.ids import ExecutionId, LaneId, Namespace, TimestampMs
from flowfabric.core.states import PublicState


class ListOrder(StrEnum):
    """By creation; executions created in the same millisecond are sorted by id."""

    NEWEST = "newest"
    OLDEST = "oldest"


class ListExecutionsArgs(Checked, frozen=True, kw_only=True):
    """Executions that match all given filters, from `cursor` on. Keep the filters while following a cursor."""

    namespace: Namespace | None = None
    lane_id: LaneId | None = None
    execution_kind: ExecutionKind | None = None
    public_state: PublicState | None = None
    tags: Tags = msgspec.field(default_factory=dict)  # all of them
    created_since_ms: TimestampMs | None = None
    created_until_ms: TimestampMs | None = None  # not included
    order: ListOrder = ListOrder.NEWEST
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class ExecutionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, as listed."""

    execution_id: ExecutionId
    namespace: Namespace
    lane_id: LaneId
    execution_kind: str
    public_state: PublicState
    priority: int
    created_at: TimestampMs


class ListExecutionsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of executions; next_cursor is None on the last page.

    A page may be short or empty and still have a cursor: each call reads a bounded number of executions.
    Following the cursors to the end yields every execution that matched throughout exactly once.
    """

    executions: tuple[ExecutionSummary, ...] = ()
    next_cursor: str | None = None


class LaneCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many executions of a lane are in each public state; a state without any is left out."""

    lane_id: LaneId
    counts: dict[PublicState, int] = msgspec.field(default_factory=dict)
    oldest_waiting_ms: int | None = None  # age of the oldest execution that may start; None: there is none

    @property
    def total(self) -> int:
        return sum(self.counts.values())

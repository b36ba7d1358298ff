"""Retention: how finished executions are deleted."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Checked, DurationMs, Outcome, ScanLimit
from flowfabric.core.ids import LaneId
from flowfabric.errors import InvalidInput

KeepCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_U32)]


class TrimExecutionsArgs(Checked, frozen=True, kw_only=True):
    """Delete finished executions: those that ended long ago, or all but the newest of each lane.

    What an execution's own policy says (`stream_policy.retention_ttl_ms`) wins, to delete it earlier and to keep it
    longer. With neither `older_than_ms` nor `keep_last`, only such executions are deleted.
    """

    older_than_ms: DurationMs | None = None  # since the end
    keep_last: KeepCount | None = None  # of each lane in each partition; a lane's stand-alone ones share one
    lane_id: LaneId | None = None  # None: every lane
    limit: ScanLimit = 1_000  # deleted by this call
    cursor: Cursor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.older_than_ms is not None and self.keep_last is not None:
            raise InvalidInput("keep_last", self.keep_last, "must not be given together with older_than_ms")


class ExecutionsTrimmed(Outcome, frozen=True, kw_only=True, tag="trimmed"):
    """How many were deleted; with a cursor there may be more, and another call goes on from it."""

    deleted: int = 0
    cursor: str | None = None

    @property
    def more(self) -> bool:
        return self.cursor is not None


TrimExecutionsResult: TypeAlias = ExecutionsTrimmed

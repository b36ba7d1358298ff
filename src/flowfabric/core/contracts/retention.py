"""Retention: delete finished executions."""

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

    The execution's own policy (`stream_policy.retention_ttl_ms`) takes precedence, both to delete it earlier
    and to keep it longer. Without `older_than_ms` and `keep_last`, only executions with such a policy are deleted.
    """

    older_than_ms: DurationMs | None = None  # since the end
    keep_last: KeepCount | None = None  # per lane and partition; the stand-alone executions of a lane count together
    lane_id: LaneId | None = None  # None: every lane
    limit: ScanLimit = 1_000  # how many this call deletes at most
    cursor: Cursor | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.older_than_ms is not None and self.keep_last is not None:
            raise InvalidInput("keep_last", self.keep_last, "must not be given together with older_than_ms")


class ExecutionsTrimmed(Outcome, frozen=True, kw_only=True, tag="trimmed"):
    """How many were deleted; with a cursor there may be more, and the next call continues there."""

    deleted: int = 0
    cursor: str | None = None

    @property
    def more(self) -> bool:
        return self.cursor is not None


TrimExecutionsResult: TypeAlias = ExecutionsTrimmed

"""Log records of the attempts of an execution: how they are kept, and how they are read."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Checked, DurationMs, Outcome, Rule, ScanLimit
from flowfabric.core.ids import AttemptId, AttemptIndex, ExecutionId, TimestampMs
from flowfabric.errors import InvalidInput


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A record to keep. level: as in `logging`, 20 is info."""

    at_ms: TimestampMs
    level: int
    message: str
    logger: str = ""


def _entries(field: str, value: Any) -> tuple[LogEntry, ...]:
    if not isinstance(value, tuple | list) or not 1 <= len(value) <= limits.BATCH_MAX_ITEMS:
        raise InvalidInput(field, type(value).__name__, f"must be 1 to {limits.BATCH_MAX_ITEMS} entries")
    for at, each in enumerate(value):
        if not isinstance(each, LogEntry):
            raise InvalidInput(f"{field}[{at}]", type(each).__name__, "must be a LogEntry")
        limits.whole(f"{field}[{at}].at_ms", each.at_ms, 0, limits.TIMESTAMP_MAX_MS)
        limits.whole(f"{field}[{at}].level", each.level, 0, limits.MAX_LOG_LEVEL)
        limits.text(f"{field}[{at}].message", each.message, 0, limits.LOG_MESSAGE_MAX_BYTES)
        limits.text(f"{field}[{at}].logger", each.logger, 0, limits.NAME_MAX_BYTES)
    return tuple(value)


LogEntries: TypeAlias = Annotated[tuple[LogEntry, ...], msgspec.Meta(max_length=limits.BATCH_MAX_ITEMS), Rule(_entries)]
LogCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_LOG_RECORDS)]
LogBytes: TypeAlias = Annotated[int, msgspec.Meta(ge=limits.MIN_LOG_BYTES, le=limits.MAX_LOG_BYTES)]
LogLevel: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_LOG_LEVEL)]
LogNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.TIMESTAMP_MAX_MS)]
Writer: TypeAlias = Annotated[str, Rule(lambda field, value: limits.label(field, value, 1, limits.KID_MAX_BYTES))]


class AppendLogsArgs(Checked, frozen=True, kw_only=True):
    """Keep records of an attempt, also of one that has ended. Beyond the bounds of the execution the oldest go.

    writer: names the process that numbers its records from `first_number` on, so that a repeated call keeps none twice.
    """

    execution_id: ExecutionId
    attempt_index: AttemptIndex
    attempt_id: AttemptId
    writer: Writer
    first_number: LogNumber
    entries: LogEntries
    max_records: LogCount = limits.DEFAULT_LOG_RECORDS
    max_bytes: LogBytes = limits.DEFAULT_LOG_BYTES
    max_age_ms: DurationMs = limits.DEFAULT_LOG_AGE_MS


class LogsAppended(Outcome, frozen=True, kw_only=True, tag="appended"):
    """How many of the records were new."""

    appended: int


AppendLogsResult: TypeAlias = LogsAppended


class ReadLogsArgs(Checked, frozen=True, kw_only=True):
    """Records of one execution, oldest first, from the start or after a cursor."""

    execution_id: ExecutionId
    cursor: Cursor | None = None
    attempt_index: AttemptIndex | None = None
    min_level: LogLevel = 0
    limit: ScanLimit = 100


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A kept record."""

    cursor: str
    attempt_index: AttemptIndex
    at_ms: TimestampMs  # when it was logged
    level: int
    message: str
    logger: str = ""


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some records, and the position after the last one that was looked at."""

    records: tuple[LogRecord, ...] = ()
    cursor: str | None = None
    more: bool = False

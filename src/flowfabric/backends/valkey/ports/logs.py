"""LogPort on Valkey: one stream per execution."""

from __future__ import annotations

from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller
from flowfabric.backends.valkey.library.records import reading
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack


class ValkeyLogs:
    """Log records of handlers."""

    _caller: FunctionCaller

    async def append_logs(self, args: c.AppendLogsArgs) -> c.AppendLogsResult:
        fields = await self._caller.call_execution(
            "append_logs",
            args.execution_id,
            attempt_index=args.attempt_index,
            attempt_id=args.attempt_id,
            writer=args.writer,
            first_number=args.first_number,
            max_records=args.max_records,
            max_bytes=args.max_bytes,
            max_age_ms=args.max_age_ms,
            entries=to_msgpack([(each.at_ms, each.level, each.logger, each.message) for each in args.entries]),
        )
        return c.LogsAppended(appended=fields.number(0))

    async def read_logs(self, args: c.ReadLogsArgs) -> c.LogPage:
        fields = await self._caller.call_execution(
            "read_logs",
            args.execution_id,
            after=args.cursor,
            attempt_index=args.attempt_index,
            min_level=args.min_level,
            limit=args.limit,
        )
        with reading("logs of execution", args.execution_id):
            return c.LogPage(
                records=tuple(map(_record, fields.entries(2))),
                cursor=fields.text(1) or args.cursor,
                more=fields.text(0) == "1",
            )


def _record(row: Fields) -> c.LogRecord:
    return c.LogRecord(
        cursor=row.text(0),
        attempt_index=row.number(1),
        at_ms=row.number(2),
        level=row.number(3),
        logger=row.text(4),
        message=row.text(5),
    )

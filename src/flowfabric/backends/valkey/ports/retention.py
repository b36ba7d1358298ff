"""RetentionPort on Valkey."""

from __future__ import annotations

from flowfabric.backends.valkey.library.calls import FunctionCaller
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.library.keys import index_of, tags_of
from flowfabric.backends.valkey.ports.maintenance import tags_in_use
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import contracts as c
from flowfabric.core.partition import PartitionConfig

# A position in a partition: the lane, and the end time and id of the last execution that was checked.
Place = tuple[str, int, str]

_BEGINNING: Place = ("", 0, "")
# A deletion takes about 40 us of server time, and other callers wait for the whole call.
_DELETED_PER_CALL = 100
_MOST_CALLS = 100


class ValkeyRetention:
    """Delete finished executions."""

    _caller: FunctionCaller
    _client: Client
    partitions: PartitionConfig

    async def trim_executions(self, args: c.TrimExecutionsArgs) -> c.TrimExecutionsResult:
        index, place = _decode(args.cursor)
        deleted = calls = 0
        for tag in await tags_in_use(self._client, tags_of(self.partitions)[index:]):
            at = index_of(tag)
            after: Place | None = place if at == index else _BEGINNING
            while after is not None:
                if deleted == args.limit or calls == _MOST_CALLS:
                    return c.ExecutionsTrimmed(deleted=deleted, cursor=encode_cursor("trim", at, *after))
                gone, after = await self._trim(tag, args, after, min(_DELETED_PER_CALL, args.limit - deleted))
                deleted, calls = deleted + gone, calls + 1
        return c.ExecutionsTrimmed(deleted=deleted)

    async def _trim(self, tag: str, args: c.TrimExecutionsArgs, after: Place, limit: int) -> tuple[int, Place | None]:
        lane, ended_at, last_id = after
        fields = await self._caller.call_partition(
            "trim_executions",
            tag,
            lane_id=args.lane_id,
            older_than_ms=args.older_than_ms,
            keep_last=args.keep_last,
            from_lane=lane,
            after_ms=ended_at if lane else None,
            after_id=last_id,
            limit=limit,
        )
        reached = (fields.text(1), fields.number(2), fields.text(3)) if fields.text(1) else None
        return fields.number(0), reached


def _decode(cursor: str | None) -> tuple[int, Place]:
    if cursor is None:
        return 0, _BEGINNING
    index, lane, ended_at, last_id = decode_cursor("trim", cursor, tuple[int, str, int, str])
    return index, (lane, ended_at, last_id)

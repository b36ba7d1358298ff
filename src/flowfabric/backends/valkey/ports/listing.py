"""ListingPort on Valkey."""

from __future__ import annotations

from collections import Counter

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import FunctionCaller, Value, at_once
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.library.records import reading
from flowfabric.backends.valkey.rows.merge import Place, Source, fill, first, settled
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput

_LANES_PER_CALL = 200


class ValkeyListing:
    """List and count executions."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def list_executions(self, args: c.ListExecutionsArgs) -> c.ListExecutionsPage:
        place = _decode_place(args)
        sources = [_Executions(self._caller, tag, args, place) for tag in keys.tags_of(self.partitions)]
        newest = args.order is c.ListOrder.NEWEST
        await fill(sources, args.limit, newest=newest)
        found, rest = settled(sources, args.limit, newest=newest)
        if len(found) == args.limit:
            reached: Place | None = found[-1][0] if rest else None
        else:
            reached = first(sources, newest=newest)
        cursor = encode_cursor("executions", args.order, *reached) if reached else None
        return c.ListExecutionsPage(executions=tuple(each for _, each in found), next_cursor=cursor)

    async def count_executions(self, lane_id: LaneId | None = None) -> list[c.LaneCounts]:
        named = LaneId(lane_id) if lane_id is not None else None
        counts: dict[LaneId, Counter[PublicState]] = {named: Counter()} if named else {}
        ages: dict[LaneId, int] = {}
        for rows in await at_once(self._count(tag, named) for tag in keys.tags_of(self.partitions)):
            for lane, age, *pairs in rows:
                with reading("lane", lane):
                    found = counts.setdefault(LaneId(lane), Counter())
                    found.update({PublicState(state): int(n) for state, n in zip(pairs[::2], pairs[1::2], strict=True)})
                    if age:
                        ages[LaneId(lane)] = max(int(age), ages.get(LaneId(lane), 0))
        return [
            c.LaneCounts(lane_id=lane, counts=dict(+counts[lane]), oldest_waiting_ms=ages.get(lane))
            for lane in sorted(counts)
        ]

    async def _count(self, tag: str, lane_id: LaneId | None) -> list[list[str]]:
        rows: list[list[str]] = []
        from_lane = ""
        while True:
            fields = await self._caller.call_partition(
                "count_executions", tag, lane_id=lane_id, from_lane=from_lane, limit=_LANES_PER_CALL
            )
            rows += fields.rows(1)
            from_lane = fields.text(0)
            if not from_lane:
                return rows


class _Executions(Source[c.ExecutionSummary]):
    def __init__(self, caller: FunctionCaller, tag: str, args: c.ListExecutionsArgs, place: Place | None) -> None:
        super().__init__()
        self._caller = caller
        self._tag = tag
        self._place = place
        self._args: dict[str, Value] = {
            "namespace": args.namespace,
            "lane_id": args.lane_id,
            "execution_kind": args.execution_kind,
            "public_state": args.public_state,
            "order": args.order,
            "created_since_ms": args.created_since_ms,
            "created_until_ms": args.created_until_ms,
            "tags": [keys.label(key, value) for key, value in args.tags.items()],
        }

    async def ask(self, count: int) -> None:
        after_ms, after_id = self._place or (None, "")
        fields = await self._caller.call_partition(
            "list_executions", self._tag, **self._args, after_ms=after_ms, after_id=after_id, limit=count
        )
        for row in fields.rows(3):
            with reading("execution", row[0]):
                self.found.append((_place_of(row), _summary(row)))
        self.finished = fields.text(0) == "0"
        if not self.finished:
            self.reached = self._place = (fields.number(1), fields.text(2))


def _decode_place(args: c.ListExecutionsArgs) -> Place | None:
    if args.cursor is None:
        return None
    order, created_at, execution_id = decode_cursor("executions", args.cursor, tuple[str, int, str])
    if order != args.order:
        raise InvalidInput("order", args.order, f"must stay the cursor's, {order}")
    return created_at, execution_id


def _place_of(row: list[str]) -> Place:
    return int(row[6]), row[0]


def _summary(row: list[str]) -> c.ExecutionSummary:
    return c.ExecutionSummary(
        execution_id=ExecutionId(row[0]),
        namespace=Namespace(row[1] or "default"),
        lane_id=LaneId(row[2]),
        execution_kind=row[3],
        public_state=PublicState(row[4]),
        priority=int(row[5]),
        created_at=int(row[6]),
    )

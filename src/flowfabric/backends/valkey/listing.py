"""ListingPort on Valkey, and what reads over all partitions share: parts merged in order, and opaque cursors."""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from flowfabric.backends.valkey import keys
from flowfabric.backends.valkey.calls import Fields, FunctionCaller, Value, at_once
from flowfabric.backends.valkey.client import Reply
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import END
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily
from flowfabric.core.states import PublicState
from flowfabric.errors import BadReply, InvalidInput

T = TypeVar("T")

# What sorts a merged list: (created_at, id) for executions, (at_ms, partition, id of the line) for events.
Place = tuple[Any, ...]
# A place in one event log: the id of a line as two numbers, and how many lines came up to it.
Line = tuple[int, int, int]

# How often one call of a port may ask its partitions again, and how many of them at the same time.
_ROUNDS = 8
_LANES_PER_CALL = 200
_FIRST_PART = 8


class ValkeyListing:
    """Which executions there are, and how many."""

    _caller: FunctionCaller
    partitions: PartitionConfig

    async def list_executions(self, args: c.ListExecutionsArgs) -> c.ListExecutionsPage:
        place = _decode_place(args)
        sources = [_Executions(self._caller, tag, args, place) for tag in tags_of(self.partitions)]
        newest = args.order is c.ListOrder.NEWEST
        await fill(sources, args.limit, newest=newest)
        found, rest = settled(sources, args.limit, newest=newest)
        if len(found) == args.limit:
            reached: Place | None = found[-1][0] if rest else None
        else:
            reached = _first(sources, newest=newest)
        cursor = encode_cursor("executions", args.order, *reached) if reached else None
        return c.ListExecutionsPage(executions=tuple(each for _, each in found), next_cursor=cursor)

    async def count_executions(self, lane_id: LaneId | None = None) -> list[c.LaneCounts]:
        named = LaneId(lane_id) if lane_id is not None else None
        counts: dict[LaneId, Counter[PublicState]] = {named: Counter()} if named else {}
        ages: dict[LaneId, int] = {}
        for rows in await at_once(self._count(tag, named) for tag in tags_of(self.partitions)):
            for lane, age, *pairs in rows:
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
            fields = await call_partition(
                self._caller, "count_executions", tag, lane_id=lane_id, from_lane=from_lane, limit=_LANES_PER_CALL
            )
            rows += texts(fields, 1)
            from_lane = fields.text(0)
            if not from_lane:
                return rows


class Source(ABC, Generic[T]):
    """One partition's part of a merged list: what was found, and how far it was looked through."""

    def __init__(self) -> None:
        self.found: list[tuple[Place, T]] = []
        self.reached: Place | None = None  # None: not asked yet
        self.finished = False

    @abstractmethod
    async def ask(self, count: int) -> None:
        """Find up to `count` more; move `reached` on, or set `finished` when there are no more."""


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
            "tags": [f"{key}={value}" for key, value in args.tags.items()],
        }

    async def ask(self, count: int) -> None:
        after_ms, after_id = self._place or (None, "")
        fields = await call_partition(
            self._caller, "list_executions", self._tag, **self._args, after_ms=after_ms, after_id=after_id, limit=count
        )
        self.found += [(_place_of(row), _summary(row)) for row in texts(fields, 3)]
        self.finished = fields.text(0) == "0"
        if not self.finished:
            self.reached = self._place = (fields.number(1), fields.text(2))


class EventLines(Source[tuple[c.Event, Line]]):
    """The log of one partition, from a place on."""

    def __init__(self, caller: FunctionCaller, tag: str, args: c.ReadEventsArgs, place: Line | None) -> None:
        super().__init__()
        self.tag = tag
        self.truncated = False
        self._caller = caller
        self._start = self._scanned = place
        self._latest_ms = 0
        self._args: dict[str, Value] = {
            "execution_id": args.execution_id,
            "namespace": args.namespace,
            "lane_id": args.lane_id,
            "execution_kind": args.execution_kind,
            "events": args.events,
        }

    async def ask(self, count: int) -> None:
        ms, seq, ordinal = self._scanned or (0, 0, 0)
        after = f"{ms}-{seq}" if self._scanned else ""
        fields = await call_partition(
            self._caller, "read_events", self.tag, **self._args, after=after, ordinal=ordinal, limit=count
        )
        self.truncated = self.truncated or fields.text(0) == "1"
        self.finished = fields.text(1) == "0"
        if fields.text(2):
            self._scanned = line_of(fields.text(2), fields.text(3))
        partition = index_of(self.tag)
        for row in texts(fields, 5):
            line = line_of(row[0], row[1])
            self.found.append((self._place(row[6], line), (_event(row, partition, line), line)))
        if fields.text(4) and self._scanned:
            self.reached = self._place(fields.text(4), self._scanned)

    def _place(self, at_ms: str, line: Line) -> Place:
        """Lines stay in the order of their log, even where a server's clock went back."""
        self._latest_ms = max(self._latest_ms, int(at_ms))
        return self._latest_ms, index_of(self.tag), *line[:2]

    def place_after(self, taken: set[Place]) -> Line | None:
        """Where the next page starts: after all that was looked at, or after the last line that was taken."""
        after = self._start
        for place, (_, line) in self.found:
            if place not in taken:
                return after
            after = line
        return self._scanned


async def fill(sources: Sequence[Source[T]], limit: int, *, newest: bool = False) -> None:
    """Ask until the first `limit` of the merged list are known, or the rounds are used up.

    The first round asks for a small part of each: with many partitions most of a page comes from a few of them.
    """
    part = min(limit, max(10, limit // _FIRST_PART))
    for _ in range(_ROUNDS):
        known = sorted((place for source in sources for place, _ in source.found), reverse=newest)
        last = known[limit - 1] if len(known) >= limit else None
        behind = [source for source in sources if not source.finished and _is_behind(source, last, newest=newest)]
        if not behind:
            return
        await at_once(source.ask(part) for source in behind)
        part = limit


def _is_behind(source: Source[T], last: Place | None, *, newest: bool) -> bool:
    if source.reached is None or last is None:
        return True
    return source.reached > last if newest else source.reached < last


def settled(sources: Sequence[Source[T]], limit: int, *, newest: bool = False) -> tuple[list[tuple[Place, T]], bool]:
    """The first `limit` that nothing can come before any more, and whether anything may follow them."""
    bound = _first(sources, newest=newest)
    found = sorted((each for source in sources for each in source.found), key=lambda each: each[0], reverse=newest)
    if bound is not None:
        found = [each for each in found if (each[0] >= bound if newest else each[0] <= bound)]
    total = sum(len(source.found) for source in sources)
    return found[:limit], bound is not None or total > limit


def _first(sources: Iterable[Source[T]], *, newest: bool) -> Place | None:
    """How far all partitions have been looked through; None: to the end."""
    places = [source.reached for source in sources if not source.finished and source.reached is not None]
    return (max(places) if newest else min(places)) if places else None


def tags_of(partitions: PartitionConfig) -> list[str]:
    return [Partition(PartitionFamily.FLOW, index).tag for index in range(partitions.num_flow_partitions)]


async def call_partition(caller: FunctionCaller, operation: str, tag: str, **args: Value) -> Fields:
    return await caller.call(operation, {"partition": keys.events(tag)}, args, subject=tag)


def texts(fields: Fields, at: int) -> list[list[str]]:
    """A field that is a list of lists of text."""
    rows = fields.values[at]
    if not isinstance(rows, list):
        raise BadReply(f"{fields.operation}: field {at} is not a list")
    return [_row(fields.operation, row) for row in rows]


def _row(operation: str, row: Reply) -> list[str]:
    if not isinstance(row, list):
        raise BadReply(f"{operation}: expected a list of rows")
    return [cell.decode(errors="surrogateescape") if isinstance(cell, bytes) else str(cell) for cell in row]


def encode_cursor(kind: str, *parts: object) -> str:
    """A place as text that says nothing to whoever carries it; `kind` keeps lists apart."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode([kind, *parts])).rstrip(b"=").decode()


def decode_cursor(kind: str, text: str, types: Any) -> Any:
    """What encode_cursor was given; text that is no cursor of this kind is refused."""
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        found, *parts = msgspec.msgpack.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
        if found == kind:
            return msgspec.convert(parts, types)
    except (ValueError, TypeError, binascii.Error, msgspec.MsgspecError):
        pass
    raise InvalidInput("cursor", text, f"must be a cursor that an earlier page of {kind} gave")


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


def index_of(tag: str) -> int:
    return int(tag[4:-1])


def line_of(line_id: str, ordinal: str) -> Line:
    ms, _, seq = line_id.partition("-")
    return int(ms), int(seq), int(ordinal)


def _event(row: list[str], partition: int, line: Line) -> c.Event:
    return c.Event(
        execution_id=ExecutionId(row[3]),
        event=row[2],
        at_ms=int(row[6]),
        lease_epoch=int(row[5]),
        attempt_index=int(row[4]) if row[4] else None,
        outcome=row[7] or None,
        cursor=encode_lines({partition: line}),
    )


def encode_lines(places: dict[int, Line]) -> str:
    return encode_cursor("events", sorted((index, *line) for index, line in places.items()))


def decode_lines(cursor: str | None) -> dict[int, Line]:
    if cursor is None or cursor == END:
        return {}
    (rows,) = decode_cursor("events", cursor, tuple[list[tuple[int, int, int, int]]])
    return {index: (ms, seq, ordinal) for index, ms, seq, ordinal in rows}

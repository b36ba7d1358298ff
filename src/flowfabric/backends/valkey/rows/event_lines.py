"""Merge the event logs into one list, with cursors that name a line of each log."""

from __future__ import annotations

from typing import Final, NamedTuple

from flowfabric.backends.valkey.library.calls import FunctionCaller, Value, at_once
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.library.keys import index_of
from flowfabric.backends.valkey.library.records import reading
from flowfabric.backends.valkey.rows.merge import Place, Source
from flowfabric.core import contracts as c
from flowfabric.core.contracts.events import END
from flowfabric.core.ids import BudgetId, ExecutionId
from flowfabric.core.partition import Partition, PartitionFamily

_FACTS: Final = ("namespace", "lane_id", "execution_kind", "flow_id")


class EventLines(Source[tuple[c.Event, int]]):
    """The log of one partition after a line. `number` identifies the log in cursors."""

    def __init__(self, caller: FunctionCaller, tag: str, args: c.ReadEventsArgs, after: int) -> None:
        super().__init__()
        self.number = log_number(tag)
        self._tag = tag
        self.truncated = False
        self._caller = caller
        self._start = self._scanned = after
        self._latest_ms = 0
        self._args: dict[str, Value] = {
            "execution_id": args.execution_id,
            "namespace": args.namespace,
            "lane_id": args.lane_id,
            "execution_kind": args.execution_kind,
            "flow_id": args.flow_id,
            "events": args.events,
        }

    async def ask(self, count: int) -> None:
        fields = await self._caller.call_partition(
            "read_events", self._tag, **self._args, after=self._scanned, limit=count
        )
        self.truncated = self.truncated or fields.text(0) == "1"
        self.finished = fields.text(1) == "0"
        self._scanned = fields.number(2)
        with reading("event log of partition", self._tag):
            for row in fields.rows(4):
                line = int(row[0])
                self.found.append((self._place(row[5], line), (_event(row, self.number, line), line)))
            if fields.text(3):
                self.reached = self._place(fields.text(3), self._scanned)

    def _place(self, at_ms: str, line: int) -> Place:
        """Lines keep the order of their log, even if a server's clock went back."""
        self._latest_ms = max(self._latest_ms, int(at_ms))
        return self._latest_ms, self.number, line

    def place_after(self, taken: set[Place]) -> int:
        """Where the next page starts: after all lines that were read, or after the last line that was taken."""
        after = self._start
        for place, (_, line) in self.found:
            if place not in taken:
                return after
            after = line
        return self._scanned


def _event(row: list[str], log: int, line: int) -> c.Event:
    is_budget = log < 0
    return c.Event(
        execution_id=None if is_budget else ExecutionId(row[2]),
        event=row[1],
        at_ms=int(row[5]),
        lease_epoch=int(row[4]),
        attempt_index=int(row[3]) if row[3] else None,
        outcome=row[6] or None,
        cursor=encode_lines({log: line}),
        budget_id=BudgetId.trusted(row[2].rpartition(":")[2]) if is_budget else None,
    )


class Line(NamedTuple):
    """A line as the log has it."""

    number: int
    at_ms: bytes
    text: bytes


def told(line: Line, tag: str) -> c.Event:
    """The event of a line that was read from the log of a partition."""
    name, subject, attempt, epoch, outcome = line.text.decode(errors="surrogateescape").split(" ", 4)
    row = [str(line.number), name, subject, attempt, epoch or "0", line.at_ms.decode(), outcome]
    return _event(row, log_number(tag), line.number)


async def owners_of(caller: FunctionCaller, events: list[tuple[int, c.Event]]) -> tuple[c.EventOwner, ...]:
    """The owners of events, each looked up once."""
    asked: dict[Partition, dict[str, str]] = {}  # by id, a line of it
    ids = []
    for log, event in events:
        partition = _partition(log)
        subject = event.execution_id or f"{partition.tag}:{event.budget_id}"
        asked.setdefault(partition, {})[subject] = f"{event.event} {subject}"
        ids.append(subject)
    replies = await at_once(
        caller.call_partition("list_event_owners", partition.tag, lines=[*lines.values()])
        for partition, lines in asked.items()
    )
    found: dict[str, c.EventOwner] = {}
    for (partition, lines), fields in zip(asked.items(), replies, strict=True):
        for subject, row in zip(lines, fields.rows(0), strict=True):
            known = {name: value for name, value in zip(_FACTS, row, strict=True) if value}
            found[subject] = c.EventOwner(partition=partition, **known)
    return tuple(found[subject] for subject in ids)


def _partition(log: int) -> Partition:
    return Partition(PartitionFamily.FLOW, log) if log >= 0 else Partition(PartitionFamily.BUDGET, -1 - log)


def log_number(tag: str) -> int:
    """The index of a partition of executions; those of budgets count down from -1."""
    return -1 - int(tag[3:-1]) if tag.startswith("{b:") else index_of(tag)


def encode_lines(places: dict[int, int]) -> str:
    """The cursor after a line of each partition's log; line 0 is the start."""
    return encode_cursor("events", sorted((index, line) for index, line in places.items() if line))


def decode_lines(cursor: str | None) -> dict[int, int]:
    if cursor is None or cursor == END:
        return {}
    (rows,) = decode_cursor("events", cursor, tuple[list[tuple[int, int]]])
    return dict(rows)

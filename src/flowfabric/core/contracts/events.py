"""Events: lines of the durable transition log, and the filters to read them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, ExecutionKind, Rule, ScanLimit
from flowfabric.core.ids import AttemptIndex, BudgetId, ExecutionId, FlowId, LaneId, LeaseEpoch, Namespace, TimestampMs
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput

# A position in each of up to 65,536 logs; with the usual 256 it takes some 5 kB.
CURSOR_MAX_BYTES = 2_097_152
# A cursor after the latest line, to follow new ones.
END = "end"


class EventKind(StrEnum):
    """The kind of a log line."""

    CREATED = "created"
    REPLACED = "replaced"
    CLAIMED = "claimed"
    RECLAIMED = "reclaimed"
    RESUMED = "resumed"
    REQUEUED = "requeued"
    PROGRESS = "progress"
    DELAYED = "delayed"
    WAITING_CHILDREN = "waiting_children"
    SUSPENDED = "suspended"
    SIGNALLED = "signalled"
    SIGNAL_REJECTED = "signal_rejected"
    WOKEN = "woken"
    ESCALATED = "escalated"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    PROMOTED = "promoted"
    PRIORITY_CHANGED = "priority_changed"
    RETRY_SCHEDULED = "retry_scheduled"
    LEASE_EXPIRED = "lease_expired"
    LEASE_REVOKED = "lease_revoked"
    REPLAYED = "replayed"
    RETRIED = "retried"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    FLOW_COMPLETED = "flow_completed"
    FLOW_FAILED = "flow_failed"
    FLOW_CANCELLED = "flow_cancelled"
    FLOW_REOPENED = "flow_reopened"
    BUDGET_SOFT_BREACHED = "budget_soft_breached"
    BUDGET_HARD_BREACHED = "budget_hard_breached"


# The events that end an execution, and its state afterwards.
ENDINGS = {
    EventKind.COMPLETED: PublicState.COMPLETED,
    EventKind.FAILED: PublicState.FAILED,
    EventKind.CANCELLED: PublicState.CANCELLED,
    EventKind.EXPIRED: PublicState.EXPIRED,
    EventKind.SKIPPED: PublicState.SKIPPED,
}


def _kinds(field: str, value: Any) -> tuple[EventKind, ...]:
    if not isinstance(value, tuple | list | set | frozenset):
        raise InvalidInput(field, value, "must be a collection of event kinds")
    try:
        return tuple(sorted({EventKind(kind) for kind in value}))
    except ValueError:
        raise InvalidInput(field, value, f"must hold only {', '.join(EventKind)}") from None


EventKinds: TypeAlias = Annotated[tuple[EventKind, ...], Rule(_kinds)]
Cursor: TypeAlias = Annotated[str, Rule(lambda field, value: limits.label(field, value, 1, CURSOR_MAX_BYTES))]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an execution (a transition or progress), of a flow (its end or restart), or of a budget limit.

    The event of a flow has the flow's id in place of the execution's. The event of a budget has no id, and its
    `outcome` gives the dimension, the usage and the limit: `tokens 81 of 80`.
    """

    execution_id: ExecutionId | None = None
    event: str  # an EventKind; text, because a newer library may have more kinds
    at_ms: TimestampMs
    lease_epoch: LeaseEpoch = 0
    attempt_index: AttemptIndex | None = None  # None: never claimed
    outcome: str | None = None  # how it ended, why an attempt started or failed, the progress in percent
    cursor: str  # read its partition from here to get the events after it
    budget_id: BudgetId | None = None  # the budget whose limit was exceeded

    @property
    def flow_id(self) -> FlowId | None:
        """The flow of the event; None for an execution or a budget."""
        if self.execution_id is None or not self.event.startswith("flow_"):
            return None
        return FlowId(self.execution_id.uuid)


class ReadEventsArgs(Checked, frozen=True, kw_only=True):
    """Read the events after `cursor` that match all given filters; without a cursor, from the oldest event on.

    An execution's namespace, lane, kind and flow come from its record, so they match only while it exists. A
    flow has neither lane nor kind. A budget has only the namespace or the lane of its scope.
    """

    execution_id: ExecutionId | None = None
    namespace: Namespace | None = None
    lane_id: LaneId | None = None
    execution_kind: ExecutionKind | None = None
    flow_id: FlowId | None = None  # this flow and its members
    events: EventKinds = ()
    partition: Partition | None = None
    cursor: Cursor | None = None
    limit: ScanLimit = 100
    owners: bool = False  # include the owners of the lines

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partition is None:
            return
        if self.partition.family is PartitionFamily.QUOTA:
            raise InvalidInput("partition", self.partition.tag, "must be one of executions or budgets, like {fp:7}")
        if self.execution_id is not None and self.execution_id.tag != self.partition.tag:
            raise InvalidInput("partition", self.partition.tag, f"must be the execution's, {self.execution_id.tag}")


class EventOwner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The filterable attributes of an event's subject; None where it has none, or no longer exists."""

    partition: Partition
    namespace: str | None = None
    lane_id: str | None = None
    execution_kind: str | None = None
    flow_id: str | None = None


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events, oldest first, with the cursor for the next page.

    A page may be short or empty while `more` is true: each call reads a bounded number of lines. `truncated`:
    lines between the given cursor and this page were trimmed from the log. `owners`, if requested, has one
    entry per event.
    """

    events: tuple[Event, ...] = ()
    cursor: str | None = None
    more: bool = False
    truncated: bool = False
    owners: tuple[EventOwner, ...] = ()

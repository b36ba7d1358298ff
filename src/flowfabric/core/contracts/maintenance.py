"""What the engine asks of a store: who shares its work, what is due next, and indexes put right."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Capabilities, Checked, Rule, ScanLimit
from flowfabric.core.contracts.workers import Lanes
from flowfabric.core.ids import TimestampMs
from flowfabric.core.partition import Partition
from flowfabric.errors import InvalidInput

ReplicaId: TypeAlias = Annotated[str, Rule(lambda field, value: limits.label(field, value, 1, limits.NAME_MAX_BYTES))]
ShareTtlMs: TypeAlias = Annotated[int, msgspec.Meta(ge=100, le=limits.LEASE_TTL_MAX_MS)]


class HoldShareArgs(Checked, frozen=True, kw_only=True):
    """An engine says that it lives, for `ttl_ms` from now; when it is silent for longer, its share is the others'."""

    replica_id: ReplicaId
    ttl_ms: ShareTtlMs
    leave: bool = False  # give the share up at once


class EngineShares(msgspec.Struct, frozen=True, kw_only=True):
    """Who lives now, sorted; the same for all, so each can tell which partitions are its own."""

    replicas: tuple[str, ...]


class NextDue(msgspec.Struct, frozen=True, kw_only=True):
    """When the earliest due work of a partition is due; None: nothing is waiting for a time."""

    at_ms: TimestampMs | None
    now_ms: TimestampMs
    limits_at_ms: TimestampMs | None = None  # when it has something to pay to limits, or to ask of them


class RepairIndexesArgs(Checked, frozen=True, kw_only=True):
    """Compare a bounded number of index entries with their records, and put right what differs.

    An entry leads to its record, and the record tells all entries it must have. So a record that is in one index at
    least is found; one that no index knows is not. Deadlines that were lost stay lost: records do not hold them.
    """

    partition: Partition
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class IndexesRepaired(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries were looked at, and how many were added or taken away; with a cursor there is more."""

    checked: int = 0
    repaired: int = 0
    cursor: str | None = None


class WorkerOffer(Checked, frozen=True, kw_only=True):
    """What some live worker offers: one offer stands for all workers with these lanes and capabilities."""

    lanes: Lanes
    capabilities: Capabilities = ()


def _offers(field: str, value: Any) -> tuple[WorkerOffer, ...]:
    if not isinstance(value, tuple | list | set | frozenset) or not all(isinstance(x, WorkerOffer) for x in value):
        raise InvalidInput(field, value, "must be a collection of WorkerOffer")
    return tuple(value)


class ReevaluateBlockedArgs(Checked, frozen=True, kw_only=True):
    """Look again at executions of a partition that are held back, and let go those whose reason is gone.

    Gone is: the lane is active again; one of `offers` has the lane and all capabilities that were missing; nothing is
    left that a lease was given back for. What an operator, a budget or a quota holds back stays.
    """

    partition: Partition
    cursor: Cursor | None = None
    limit: ScanLimit = 100
    offers: Annotated[tuple[WorkerOffer, ...], msgspec.Meta(max_length=limits.MAX_OFFERS), Rule(_offers)] = ()


class BlockedReevaluated(msgspec.Struct, frozen=True, kw_only=True):
    """How many were looked at, and how many were let go; with a cursor there is more."""

    checked: int = 0
    unblocked: int = 0
    cursor: str | None = None

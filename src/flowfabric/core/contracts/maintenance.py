"""Engine calls: shares of replicas, the next due work, index repair and blocked executions."""

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
    """Engine heartbeat: the share is held for `ttl_ms`; without another call the other engines take it over."""

    replica_id: ReplicaId
    ttl_ms: ShareTtlMs
    leave: bool = False  # release the share at once


class EngineShares(msgspec.Struct, frozen=True, kw_only=True):
    """The live replicas, sorted, equal for all callers, so each can compute its own partitions."""

    replicas: tuple[str, ...]


class NextDue(msgspec.Struct, frozen=True, kw_only=True):
    """When the earliest work of a partition is due; None: no scheduled work."""

    at_ms: TimestampMs | None
    now_ms: TimestampMs
    limits_at_ms: TimestampMs | None = None  # when its limits need a call of drain_admissions
    ends_at_ms: TimestampMs | None = None  # when an execution ended whose watchers were not told yet


class RepairIndexesArgs(Checked, frozen=True, kw_only=True):
    """Compare a bounded number of index entries with their records, and correct the differences.

    An entry leads to its record, and the record determines all its entries. So a record in at least one index
    is repaired; a record in no index is not found. Lost deadlines stay lost: records do not contain them.
    """

    partition: Partition
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class IndexesRepaired(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries were checked, and how many were added or removed; with a cursor there is more."""

    checked: int = 0
    repaired: int = 0
    cursor: str | None = None


class WorkerOffer(Checked, frozen=True, kw_only=True):
    """Lanes and capabilities of live workers; equal workers share one offer."""

    lanes: Lanes
    capabilities: Capabilities = ()


def _offers(field: str, value: Any) -> tuple[WorkerOffer, ...]:
    if not isinstance(value, tuple | list | set | frozenset) or not all(isinstance(x, WorkerOffer) for x in value):
        raise InvalidInput(field, value, "must be a collection of WorkerOffer")
    return tuple(value)


class ReevaluateBlockedArgs(Checked, frozen=True, kw_only=True):
    """Check the blocked executions of a partition again, and release those whose reason is gone.

    A reason is gone when the lane is active again, when one of `offers` has the lane and all missing
    capabilities, or when no dependency is left. Blocks by an operator, a budget or a quota stay.
    """

    partition: Partition
    cursor: Cursor | None = None
    limit: ScanLimit = 100
    offers: Annotated[tuple[WorkerOffer, ...], msgspec.Meta(max_length=limits.MAX_OFFERS), Rule(_offers)] = ()


class BlockedReevaluated(msgspec.Struct, frozen=True, kw_only=True):
    """How many were checked, and how many were unblocked; with a cursor there is more."""

    checked: int = 0
    unblocked: int = 0
    cursor: str | None = None

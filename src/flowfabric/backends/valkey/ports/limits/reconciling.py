"""ReconcilePort on Valkey: compare what limits hold with the records they hold it for.

A record has its ticket or lease before a limit holds anything under it, and tickets are never reused. So a hold for a
ticket or lease that no record has is leaked, and releasing it is safe.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, Value
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.ports.limits.admissions import ValkeyAdmissions
from flowfabric.backends.valkey.ports.maintenance import tags_with
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.ids import BudgetId, QuotaPolicyId
from flowfabric.core.partition import Partition, PartitionFamily, PartitionKey
from flowfabric.errors import FlowFabricError, InvalidInput, Unavailable

_HOLDER: Final = re.compile(r"((\{fp:\d+\}):[0-9a-f-]{36})(?:#(\d{1,15}))?")
_AT_ONCE: Final = 100
_PER_CALL: Final = 256
_INDEX: Final = {PartitionFamily.QUOTA: "quota_policies", PartitionFamily.BUDGET: "budget_policies"}


class _Holder(NamedTuple):
    """The holder of something in a limit: a ticket of a quota, or a lease of a budget."""

    tag: str
    execution_id: str
    ticket: int
    lease_epoch: int
    suffix: str  # the key that a quota counts it under

    @property
    def item(self) -> tuple[str, int, int]:
        return (self.execution_id, self.ticket, self.lease_epoch)


class _Place(NamedTuple):
    """The position of a pass over the limits of a partition."""

    limit_id: str = ""  # the current limit, or the last one that was checked
    suffix: str = ""
    place: str = ""  # position within the current limit; "" when it is done

    @property
    def is_done(self) -> bool:
        return not (self.suffix or self.place)


class ValkeyReconciling(ValkeyAdmissions):
    """Find and release leaked holds."""

    _client: Client

    async def limit_partitions_in_use(self) -> list[Partition]:
        found: list[Partition] = []
        for family, index in _INDEX.items():
            tags = [Partition(family, number).tag for number in range(self._count_of(family))]
            found += [PartitionKey(tag).parse() for tag in await tags_with(self._client, tags, index)]
        return found

    async def reconcile_limits(self, args: c.ReconcileLimitsArgs) -> c.LimitsReconciled:
        family, tag, limit = args.partition.family, self._limit_tag(args.partition), min(args.limit, _AT_ONCE)
        at = _decode(tag, args.cursor)
        todo = [at.limit_id] if not at.is_done else await self._list_limits(_index(tag, family), at.limit_id, limit)
        is_last, checked, released = at.is_done and len(todo) < limit, 0, 0
        for limit_id in todo:
            at = at if at.limit_id == limit_id and not at.is_done else _Place(limit_id)
            seen, gone, at = await self._look_at_limit(family, at, limit)
            checked, released = checked + seen, released + gone
            if not at.is_done or checked >= limit:
                is_last = is_last and at.is_done and limit_id == todo[-1]
                break
        return c.LimitsReconciled(
            checked=checked, released=released, cursor=None if is_last else encode_cursor("limits", tag, *at)
        )

    async def forget_parked_claims(self, *, limit: int = 100) -> int:
        forgotten = 0
        for tag in await tags_with(self._client, keys.tags_of(self.partitions), "parked_lanes"):
            fields = await self._caller.call_partition("forget_parked", tag, limit=limit)
            forgotten += fields.number(1)
        return forgotten

    async def _look_at_limit(self, family: PartitionFamily, at: _Place, limit: int) -> tuple[int, int, _Place]:
        """Check some holders of a limit: how many, how many were released, and where to continue."""
        try:
            holders, after = await (self._admitted if family is PartitionFamily.QUOTA else self._holds)(at, limit)
            return len(holders), await self._release(family, at.limit_id, await self._unheld(holders)), after
        except Unavailable:
            raise
        except FlowFabricError:  # absent or unreadable: skip it
            return 0, 0, _Place(at.limit_id)

    async def _admitted(self, at: _Place, limit: int) -> tuple[list[_Holder], _Place]:
        key = keys.quota(QuotaPolicyId(at.limit_id), self.partitions)
        given: dict[str, Value] = {"suffix": at.suffix, "place": at.place, "limit": limit}
        fields = await self._caller.call("list_admitted", {"quota": key}, given, subject=at.limit_id)
        found = [_admitted(row) for row in fields.entries(0)]
        return [each for each in found if each is not None], _Place(at.limit_id, fields.text(1), fields.text(2))

    async def _holds(self, at: _Place, limit: int) -> tuple[list[_Holder], _Place]:
        key = keys.budget(BudgetId(at.limit_id), self.partitions)
        given: dict[str, Value] = {"after": at.place, "limit": limit}
        fields = await self._caller.call("list_holders", {"budget": key}, given, subject=at.limit_id)
        return [_holding(row) for row in fields.entries(0)], _Place(at.limit_id, "", fields.text(1))

    async def _unheld(self, holders: Sequence[_Holder]) -> list[_Holder]:
        by_tag: dict[str, list[_Holder]] = defaultdict(list)
        for each in holders:
            by_tag[each.tag].append(each)
        found: list[_Holder] = []
        for tag, of_tag in by_tag.items():
            for start in range(0, len(of_tag), _PER_CALL):
                some = of_tag[start : start + _PER_CALL]
                items = to_msgpack([each.item for each in some])
                fields = await self._caller.call_partition("find_unheld", tag, items=items)
                found += [some[int(number) - 1] for number in fields.texts(0)]
        return found

    async def _release(self, family: PartitionFamily, limit_id: str, unheld: Sequence[_Holder]) -> int:
        """It is unknown whether they started, so their starts stay in the window."""
        if not unheld:
            return 0
        if family is PartitionFamily.QUOTA:
            for start in range(0, len(unheld), _PER_CALL):
                some = unheld[start : start + _PER_CALL]
                items = [(each.execution_id, each.ticket, 0, each.suffix) for each in some]
                await self.release_slots(QuotaPolicyId(limit_id), items)
        else:
            await self.settle_stretches(BudgetId(limit_id), [_stretch(each) for each in unheld])
        return len(unheld)

    def _count_of(self, family: PartitionFamily) -> int:
        is_quota = family is PartitionFamily.QUOTA
        return self.partitions.num_quota_partitions if is_quota else self.partitions.num_budget_partitions

    def _limit_tag(self, partition: Partition) -> str:
        if partition.family not in _INDEX or partition.index >= self._count_of(partition.family):
            raise InvalidInput("partition", partition.tag, "must be one of quotas or budgets, like {q:7} or {b:7}")
        return partition.tag


def _index(tag: str, family: PartitionFamily) -> str:
    return f"ff:idx:{tag}:{_INDEX[family]}"


def _decode(tag: str, cursor: str | None) -> _Place:
    if cursor is None:
        return _Place()
    of_tag, *place = decode_cursor("limits", cursor, tuple[str, str, str, str])
    if of_tag != tag:
        raise InvalidInput("partition", tag, f"must stay the cursor's, {of_tag}")
    return _Place(*place)


def _admitted(row: Fields) -> _Holder | None:
    """None for a holder that is not one of our executions: nothing is known of it."""
    found = _HOLDER.fullmatch(row.text(1))
    if found is None:
        return None
    return _Holder(found[2], found[1], int(found[3] or 0), 0, row.text(0))


def _holding(row: Fields) -> _Holder:
    execution_id = row.text(0)
    return _Holder(keys.tag_of(execution_id), execution_id, 0, row.number(1), "")


def _stretch(holder: _Holder) -> dict[str, Value]:
    """The end of a lease of which only its holds are left."""
    return {
        "execution_id": holder.execution_id,
        "lease_epoch": holder.lease_epoch,
        "wall_time_ms": 0,
        "attempts": 0,
        "has_reserved": "1",
    }

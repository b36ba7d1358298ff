"""MaintenancePort on Valkey: engine shares, due work, index repair, re-evaluation of blocked executions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import Fields, FunctionCaller, Value, at_once
from flowfabric.backends.valkey.library.cursors import decode_cursor, encode_cursor
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import capability
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.partition import Partition, PartitionConfig, PartitionFamily
from flowfabric.errors import InvalidInput


class ValkeyMaintenance:
    """Upkeep that an engine asks for."""

    _caller: FunctionCaller
    _client: Client
    partitions: PartitionConfig

    async def hold_share(self, args: c.HoldShareArgs) -> c.EngineShares:
        fields = await self._caller.call(
            "hold_share",
            {"shares": keys.ENGINE_SHARES},
            {"replica_id": args.replica_id, "ttl_ms": args.ttl_ms, "leave": int(args.leave)},
            subject=args.replica_id,
        )
        replicas = cast("list[bytes]", fields.values[0])
        return c.EngineShares(replicas=tuple(sorted(replica.decode() for replica in replicas)))

    async def partitions_in_use(self) -> list[Partition]:
        tags = await tags_in_use(self._client, keys.tags_of(self.partitions))
        return [Partition(PartitionFamily.FLOW, keys.index_of(tag)) for tag in tags]

    async def next_due(self, partition: Partition) -> c.NextDue:
        fields = await self._caller.call_partition("next_due", tag_of(partition, self.partitions))
        return c.NextDue(
            at_ms=fields.number(0) if fields.text(0) else None,
            now_ms=fields.number(1),
            limits_at_ms=fields.number(2) if fields.text(2) else None,
            ends_at_ms=fields.number(3) if fields.text(3) else None,
        )

    async def read_watched_ends(
        self, partition: Partition, *, done: Sequence[c.WatchedEnd] = (), limit: int = 100
    ) -> list[c.WatchedEnd]:
        told = [text for each in done for text in (each.execution_id, each.watcher_id)]
        tag = tag_of(partition, self.partitions)
        flat = (await self._caller.call_partition("watched_ends", tag, limit=limit, done=told)).texts(0)
        return [
            c.WatchedEnd(execution_id=ExecutionId(ended), watcher_id=ExecutionId(watcher))
            for ended, watcher in zip(flat[::2], flat[1::2], strict=True)
        ]

    async def repair_indexes(self, args: c.RepairIndexesArgs) -> c.IndexesRepaired:
        fields, cursor = await self._tour("repair_indexes", args)
        return c.IndexesRepaired(checked=fields.number(0), repaired=fields.number(1), cursor=cursor)

    async def reevaluate_blocked(self, args: c.ReevaluateBlockedArgs) -> c.BlockedReevaluated:
        offers = ["\n".join((capability.to_csv(each.capabilities), *each.lanes)) for each in args.offers]
        fields, cursor = await self._tour("reevaluate_blocked", args, offers=offers)
        return c.BlockedReevaluated(checked=fields.number(0), unblocked=fields.number(1), cursor=cursor)

    async def _tour(
        self, operation: str, args: c.RepairIndexesArgs | c.ReevaluateBlockedArgs, **more: Value
    ) -> tuple[Fields, str | None]:
        """Scan some entries of a partition; return where to continue, or None at the end."""
        tag = tag_of(args.partition, self.partitions)
        lane, key, score, last_id = _decode_place(operation, tag, args.cursor)
        fields = await self._caller.call_partition(
            operation, tag, from_lane=lane, from_key=key, after_score=score, after_id=last_id, limit=args.limit, **more
        )
        place = [fields.text(at) for at in range(2, 6)]
        return fields, encode_cursor(operation, tag, *place) if any(place) else None


def _decode_place(operation: str, tag: str, cursor: str | None) -> tuple[str, ...]:
    if cursor is None:
        return ("", "", "", "")
    of_tag, *place = decode_cursor(operation, cursor, tuple[str, str, str, str, str])
    if of_tag != tag:
        raise InvalidInput("partition", tag, f"must stay the cursor's, {of_tag}")
    return tuple(place)


def tag_of(partition: Partition, partitions: PartitionConfig) -> str:
    """The hash tag of a partition of executions; other partitions are refused."""
    if partition.family not in (PartitionFamily.FLOW, PartitionFamily.EXECUTION):
        raise InvalidInput("partition", partition.tag, "must be one of executions, like {fp:7}")
    if partition.index >= partitions.num_flow_partitions:
        raise InvalidInput("partition", partition.tag, f"must be one of {partitions.num_flow_partitions}")
    return partition.tag


async def tags_in_use(client: Client, tags: Sequence[str]) -> list[str]:
    """The partitions that hold executions: in a small store most hold none."""
    return await tags_with(client, tags, "lanes")


async def tags_with(client: Client, tags: Sequence[str], index: str) -> list[str]:
    """The partitions that have index entries."""
    names = [f"ff:idx:{tag}:{index}" for tag in tags]
    found = await at_once(client.execute("EXISTS", name, key=name, repeatable=True) for name in names)
    return [tag for tag, exists in zip(tags, found, strict=True) if exists == 1]

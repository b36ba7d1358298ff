"""LanePort on Valkey: one call per partition, since each partition of a lane may live on another node."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.calls import FunctionCaller, Value, at_once, flat_to_dict
from flowfabric.backends.valkey.library.records import optional_number, read_directly, reading
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import PartitionConfig, lane_partitions
from flowfabric.core.rules.execution.turns import lane_shares
from flowfabric.core.states import LaneState

_SETTLED_PER_CALL = 100


class ValkeyLanes:
    """List lanes, pause them, and set their limits."""

    _caller: FunctionCaller
    _client: Client
    partitions: PartitionConfig

    async def set_lane_state(self, args: c.SetLaneStateArgs) -> c.SetLaneStateResult:
        tags = keys.tags_of(self.partitions)
        await at_once(self._call_lane("set_lane_state", tag, args.lane_id, state=args.state) for tag in tags)
        return c.LaneStateSet(partitions=len(tags))

    async def configure_lane(self, args: c.ConfigureLaneArgs) -> c.ConfigureLaneResult:
        shares = _shares(args, self.partitions)
        tags = keys.tags_of(self.partitions)
        await at_once(self._configure(tag, args, shares.get(tag, args.max_concurrency)) for tag in tags)
        return c.LaneConfigured(partitions=len(tags))

    async def describe_lane(self, lane_id: LaneId) -> c.LaneSettings:
        shard = lane_partitions(LaneId(lane_id), self.partitions)[0]
        key = keys.lane_config(shard.tag, lane_id)
        reply = await read_directly(self._client, "HGETALL", key)
        with reading("settings of lane", lane_id):
            found = flat_to_dict(reply)
            return c.LaneSettings(
                lane_id=LaneId(lane_id),
                state=LaneState(found.get("state", LaneState.ACTIVE)),
                max_concurrency=optional_number(found, "max_concurrency"),
                key_concurrency=optional_number(found, "key_concurrency"),
                ageing_ms_per_priority=optional_number(found, "ageing_ms_per_priority"),
                shared_queue=found.get("shared_queue") == "1",
            )

    async def list_lanes(self, args: c.ListLanesArgs) -> c.ListLanesPage:
        wanted = args.limit + 1
        pages = await at_once(self._lanes(tag, args.cursor, wanted) for tag in keys.tags_of(self.partitions))
        with reading("list of lanes"):
            lanes = sorted({LaneId(name) for page in pages for name in page})
        more = len(lanes) > args.limit
        return c.ListLanesPage(lanes=tuple(lanes[: args.limit]), next_cursor=lanes[args.limit - 1] if more else None)

    async def _configure(self, tag: str, args: c.ConfigureLaneArgs, share: int | None) -> None:
        must_settle = await self._call_lane(
            "configure_lane",
            tag,
            args.lane_id,
            lane_id=args.lane_id,
            max_concurrency=args.max_concurrency,
            share=share,
            key_concurrency=args.key_concurrency,
            ageing_ms_per_priority=args.ageing_ms_per_priority,
            shared_queue="1" if args.shared_queue else None,
        )
        cursor = ""
        while must_settle == "1":
            fields = await self._caller.call_partition(
                "settle_lane", tag, lane_id=args.lane_id, cursor=cursor, limit=_SETTLED_PER_CALL
            )
            cursor = fields.text(0)
            if not cursor:
                return

    async def _call_lane(self, operation: str, tag: str, lane: LaneId, **args: Value) -> str:
        named = {"lane_config": keys.lane_config(tag, lane)}
        return (await self._caller.call(operation, named, args, subject=lane)).text(0)

    async def _lanes(self, tag: str, after: LaneId | None, limit: int) -> list[str]:
        return (await self._caller.call_partition("list_lanes", tag, after=after, limit=limit)).texts(0)


def _shares(args: c.ConfigureLaneArgs, partitions: PartitionConfig) -> dict[str, int]:
    if args.max_concurrency is None:
        return {}
    return lane_shares(args.max_concurrency, [shard.tag for shard in lane_partitions(args.lane_id, partitions)])


def _number(found: dict[str, str], name: str) -> int | None:
    return int(found[name]) if name in found else None

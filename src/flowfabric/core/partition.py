"""Partitions, and the hash tags that keep the keys of one partition on one slot."""

from __future__ import annotations

import binascii
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Self

import msgspec

from flowfabric.core import limits
from flowfabric.errors import InvalidInput

if TYPE_CHECKING:
    from flowfabric.core.ids import BudgetId, FlowId, LaneId, QuotaPolicyId


class PartitionFamily(StrEnum):
    FLOW = "flow"
    EXECUTION = "execution"  # an alias of flow: same tag, same count
    BUDGET = "budget"
    QUOTA = "quota"

    @property
    def prefix(self) -> str:
        return _PREFIXES[self]


_PREFIXES = {
    PartitionFamily.FLOW: "fp",
    PartitionFamily.EXECUTION: "fp",
    PartitionFamily.BUDGET: "b",
    PartitionFamily.QUOTA: "q",
}

# Execution is left out on purpose: a tag cannot tell the alias from its family.
_FAMILIES = {"fp": PartitionFamily.FLOW, "b": PartitionFamily.BUDGET, "q": PartitionFamily.QUOTA}


class PartitionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How many partitions each family and each lane has; fixed for the life of a store, because ids carry the index."""

    num_flow_partitions: int = 256
    num_budget_partitions: int = 32
    num_quota_partitions: int = 32
    lane_shards: int = 1

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limits.whole(name, getattr(self, name), 1, limits.MAX_U16)
        if self.lane_shards > self.num_flow_partitions:
            problem = f"must be at most num_flow_partitions, which is {self.num_flow_partitions}"
            raise InvalidInput("lane_shards", self.lane_shards, problem)


class Partition(msgspec.Struct, frozen=True):
    """One partition of one family."""

    family: PartitionFamily
    index: int

    def __post_init__(self) -> None:
        if not isinstance(self.family, PartitionFamily):
            raise InvalidInput("family", self.family, f"must be one of {', '.join(PartitionFamily)}")
        limits.whole("index", self.index, 0, limits.MAX_U16)

    @property
    def tag(self) -> str:
        """The hash tag with its braces: keys that contain it share a cluster slot."""
        return f"{{{self.family.prefix}:{self.index}}}"

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.tag)


# Leading zeros would name a second tag, and so a second slot, for the same index.
_BODY = re.compile(r"([^:{}]*):([^:{}]*)")
_INDEX = re.compile(r"0|[1-9][0-9]{0,4}")


class PartitionKey(str):
    """A partition as callers see it: opaque text to pass back."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        _parse_key(text)
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return f"PartitionKey({super().__repr__()})"

    def parse(self) -> Partition:
        """The partition it names; an execution's partition comes back as the flow's."""
        return _parse_key(self)


def _parse_key(text: object) -> Partition:
    if not isinstance(text, str) or len(text) < 2 or text[0] != "{" or text[-1] != "}":
        raise InvalidInput("partition_key", text, "must be enclosed in braces, like {fp:7}")
    body = _BODY.fullmatch(text[1:-1])
    if body is None:
        raise InvalidInput("partition_key", text, "must hold a prefix and an index, like {fp:7}")
    prefix, index = body.groups()
    if prefix not in _FAMILIES:
        raise InvalidInput("partition_key", text, f"must start with one of {', '.join(_FAMILIES)}")
    if not _INDEX.fullmatch(index) or int(index) > limits.MAX_U16:
        problem = f"must end with an index from 0 to {limits.MAX_U16} without leading zeros"
        raise InvalidInput("partition_key", text, problem)
    return Partition(_FAMILIES[prefix], int(index))


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, the checksum behind cluster slots."""
    return binascii.crc_hqx(data, 0)


def flow_partition(flow_id: FlowId, config: PartitionConfig) -> Partition:
    """The partition of a flow and all of its members."""
    index = _uuid_crc("flow_id", flow_id) % config.num_flow_partitions
    return Partition(PartitionFamily.FLOW, index)


def lane_partitions(lane_id: LaneId, config: PartitionConfig) -> list[Partition]:
    """The shards of a lane for its stand-alone executions; programs without shards use the first."""
    return [_lane_shard(lane_id, config, shard) for shard in range(config.lane_shards)]


def execution_partition(
    lane_id: LaneId,
    config: PartitionConfig,
    uuid: str,
    idempotency_key: str | None = None,
    concurrency_key: str | None = None,
) -> Partition:
    """The shard of one stand-alone execution: its concurrency key's, its idempotency key's, or its uuid's.

    All executions of a concurrency key must share the partition that counts them. So it takes precedence over
    the idempotency key, which finds an earlier submit only in the same partition.
    """
    if concurrency_key is not None:
        key = limits.label("concurrency_key", concurrency_key, 1, limits.CONCURRENCY_KEY_MAX_BYTES)
        chosen = crc16(key.encode())
    elif idempotency_key is not None:
        key = limits.label("idempotency_key", idempotency_key, 1, limits.IDEMPOTENCY_KEY_MAX_BYTES)
        chosen = crc16(key.encode())
    else:
        chosen = _uuid_crc("execution_id", uuid)
    return _lane_shard(lane_id, config, chosen % config.lane_shards)


def _lane_shard(lane_id: LaneId, config: PartitionConfig, shard: int) -> Partition:
    """Spread shards evenly over the range, so that a lane has no shard twice."""
    count = config.num_flow_partitions
    offset = shard * count // config.lane_shards
    return Partition(PartitionFamily.FLOW, (crc16(lane_id.encode()) + offset) % count)


def budget_partition(budget_id: BudgetId, config: PartitionConfig) -> Partition:
    index = _uuid_crc("budget_id", budget_id) % config.num_budget_partitions
    return Partition(PartitionFamily.BUDGET, index)


def quota_partition(quota_policy_id: QuotaPolicyId, config: PartitionConfig) -> Partition:
    index = _uuid_crc("quota_policy_id", quota_policy_id) % config.num_quota_partitions
    return Partition(PartitionFamily.QUOTA, index)


def _uuid_crc(field: str, text: str) -> int:
    try:
        return crc16(bytes.fromhex(text.replace("-", "")))
    except ValueError:
        raise InvalidInput(field, text, "must be a UUID") from None

"""Ids as distinct types: each is text that was parsed when it was made, so bad text stops at the edge.

They are `str`, so they go into keys, queries and JSON as they are; they are different classes, so a type
checker refuses a lease where an attempt belongs.
"""

from __future__ import annotations

import re
from secrets import token_bytes
from typing import Annotated, ClassVar, Self, TypeAlias
from uuid import UUID

import msgspec

from flowfabric.core import limits
from flowfabric.core.partition import Partition, PartitionConfig, execution_partition, flow_partition
from flowfabric.errors import InvalidInput

TimestampMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.TIMESTAMP_MAX_MS)]
LeaseEpoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_SAFE_INTEGER)]
AttemptIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_U32)]

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID_TEXT = re.compile(_UUID)
_EXECUTION_TEXT = re.compile(r"\{fp:(0|[1-9][0-9]{0,4})\}:" + _UUID)
_LANE_TEXT = re.compile(r"[\x20-\x7e]*")


def _random_uuid() -> str:
    """The text of a random UUID, by a third of the work that the standard library does for it."""
    digits = token_bytes(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class TextId(str):
    """Text that is checked when it is made; `field` is its name in errors."""

    __slots__ = ()
    field: ClassVar[str] = "id"

    def __new__(cls, text: str) -> Self:
        if type(text) is cls:
            return text
        return super().__new__(cls, cls._checked(text))

    @classmethod
    def trusted(cls, text: str) -> Self:
        """Text that comes back from the store, and was checked before it went there."""
        return str.__new__(cls, text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"

    @classmethod
    def _checked(cls, text: object) -> str:
        return limits.label(cls.field, text, 1, limits.NAME_MAX_BYTES)


class UuidId(TextId):
    """A lower-case hyphenated UUID."""

    __slots__ = ()

    @classmethod
    def new(cls) -> Self:
        return cls.trusted(_random_uuid())

    @classmethod
    def new_beginning(cls) -> str:
        """What the ids begin with that one call may make: all but their last group, in which they are counted."""
        return _random_uuid()[:24]

    @classmethod
    def _checked(cls, text: object) -> str:
        if isinstance(text, str) and _UUID_TEXT.fullmatch(text):
            return text
        raise InvalidInput(cls.field, text, "must be a lower-case hyphenated UUID")


class ExecutionId(TextId):
    """`{fp:N}:<uuid>`: the partition travels in the id, so nobody ever hashes or looks it up again."""

    __slots__ = ()
    field = "execution_id"

    @classmethod
    def for_flow(cls, flow_id: FlowId, config: PartitionConfig) -> Self:
        """A fresh id for a member of `flow_id`."""
        return cls.deterministic_for_flow(flow_id, config, _random_uuid())

    @classmethod
    def for_lane(
        cls,
        lane_id: LaneId,
        config: PartitionConfig,
        *,
        idempotency_key: str | None = None,
        concurrency_key: str | None = None,
    ) -> Self:
        """A fresh id for a stand-alone execution of `lane_id`.

        Its concurrency key decides the shard, or its idempotency key when it has no other.
        """
        return cls.deterministic_for_lane(
            lane_id, config, _random_uuid(), idempotency_key=idempotency_key, concurrency_key=concurrency_key
        )

    @classmethod
    def deterministic_for_flow(cls, flow_id: FlowId, config: PartitionConfig, uuid: str | UUID) -> Self:
        """The id of `uuid` in the flow's partition; the same as long as the partition count is."""
        return cls(f"{flow_partition(flow_id, config).tag}:{uuid}")

    @classmethod
    def deterministic_for_lane(
        cls,
        lane_id: LaneId,
        config: PartitionConfig,
        uuid: str | UUID,
        *,
        idempotency_key: str | None = None,
        concurrency_key: str | None = None,
    ) -> Self:
        """The id of `uuid` in the lane's shard for it, or for a key; the same as long as the partition counts are."""
        partition = execution_partition(lane_id, config, str(uuid), idempotency_key, concurrency_key)
        return cls(f"{partition.tag}:{uuid}")

    @property
    def tag(self) -> str:
        return self[: self.index("}") + 1]

    @property
    def partition_index(self) -> int:
        return int(self[4 : self.index("}")])

    @property
    def uuid(self) -> str:
        return self[-36:]

    @classmethod
    def _checked(cls, text: object) -> str:
        match = _EXECUTION_TEXT.fullmatch(text) if isinstance(text, str) else None
        if match and int(match[1]) <= limits.MAX_U16:
            return match[0]
        problem = f"must look like {{fp:N}}:<lower-case uuid> with N from 0 to {limits.MAX_U16}"
        raise InvalidInput(cls.field, text, problem)


class FlowId(UuidId):
    __slots__ = ()
    field = "flow_id"

    @classmethod
    def for_lane(cls, lane_id: LaneId, config: PartitionConfig, uuid: str | UUID | None = None) -> Self:
        """An id whose flow lives where the lane's stand-alone executions do: a worker ends and claims both in one call.

        A fresh one, or always the same for a uuid.
        """
        given = str(uuid or _random_uuid())
        return cls.in_partition(execution_partition(lane_id, config, given), config, given)

    @classmethod
    def in_partition(cls, place: Partition, config: PartitionConfig, uuid: str | UUID) -> Self:
        """The id of a uuid, of which the last digits are changed until the flow belongs to the partition."""
        number = UUID(str(uuid)).int
        head, first = number & ~0xFFFF, number & 0xFFFF
        for step in range(0x10000):  # all checksums there are come up once
            found = cls(str(UUID(int=head | (first + step) & 0xFFFF)))
            if flow_partition(found, config) == place:
                return found
        raise AssertionError("no uuid belongs to the partition")


class BudgetId(UuidId):
    __slots__ = ()
    field = "budget_id"


class QuotaPolicyId(UuidId):
    __slots__ = ()
    field = "quota_policy_id"


class ReservationId(UuidId):
    __slots__ = ()
    field = "reservation_id"


class LeaseId(UuidId):
    __slots__ = ()
    field = "lease_id"


class AttemptId(UuidId):
    __slots__ = ()
    field = "attempt_id"


class SignalId(UuidId):
    __slots__ = ()
    field = "signal_id"


class WaitpointId(UuidId):
    __slots__ = ()
    field = "waitpoint_id"


class SuspensionId(UuidId):
    __slots__ = ()
    field = "suspension_id"


class EdgeId(UuidId):
    __slots__ = ()
    field = "edge_id"


class LaneId(TextId):
    """The name of a lane: printable ASCII, because it is part of key names people type."""

    __slots__ = ()
    field = "lane_id"

    @classmethod
    def _checked(cls, text: object) -> str:
        lane = limits.text(cls.field, text, 1, limits.LANE_ID_MAX_BYTES)
        if not _LANE_TEXT.fullmatch(lane):
            raise InvalidInput(cls.field, text, "must be printable ASCII")
        return lane


class Namespace(TextId):
    __slots__ = ()
    field = "namespace"


class WorkerId(TextId):
    __slots__ = ()
    field = "worker_id"


class WorkerInstanceId(TextId):
    __slots__ = ()
    field = "worker_instance_id"


class WaitpointKey(TextId):
    """The name a suspension gave to a waitpoint; free text within bounds."""

    __slots__ = ()
    field = "waitpoint_key"


class SecretText(TextId):
    """Text that never shows itself in logs or messages."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<redacted>)"

    def __str__(self) -> str:
        return "<redacted>"

    def __format__(self, spec: str) -> str:
        return format("<redacted>", spec)

    def reveal(self) -> str:
        """The text itself, to be sent and not to be written down."""
        return str.__str__(self)


class WaitpointToken(SecretText):
    """`kid:hex`, what a signaller must present.

    Empty and malformed text is let through: the store answers it like any other wrong token, so a guesser
    learns nothing from where the refusal came from.
    """

    __slots__ = ()
    field = "waitpoint_token"

    @classmethod
    def _checked(cls, text: object) -> str:
        if not isinstance(text, str):
            raise InvalidInput(cls.field, "<redacted>", "must be text")
        if len(text) > limits.WAITPOINT_TOKEN_MAX_BYTES or not text.isascii():
            problem = f"must be at most {limits.WAITPOINT_TOKEN_MAX_BYTES} ASCII characters"
            raise InvalidInput(cls.field, "<redacted>", problem)
        return text

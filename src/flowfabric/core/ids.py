"""Ids as distinct types: each is parsed when it is created, so bad text stops at the edge.

They are `str`, so they go into keys, queries and JSON unchanged. They are different classes, so a type
checker refuses a lease id where an attempt id belongs.
"""

from __future__ import annotations

import re
from secrets import token_bytes
from typing import Annotated, ClassVar, Self, TypeAlias
from uuid import UUID, uuid5

import msgspec

from flowfabric.core import limits
from flowfabric.core.partition import Partition, PartitionConfig, execution_partition, flow_partition
from flowfabric.errors import InvalidInput

TimestampMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.TIMESTAMP_MAX_MS)]
LeaseEpoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_SAFE_INTEGER)]
AttemptIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_U32)]

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID_TEXT = re.compile(_UUID)
_BUDGET_NAMES = UUID("6f0f9a0e-6d0f-5c55-9d6c-3f6f3c2f7f11")  # fixed: names lead to ids in every program
_EXECUTION_TEXT = re.compile(r"\{fp:(0|[1-9][0-9]{0,4})\}:" + _UUID)
_EXECUTION_SHORT = re.compile(r"(0|[1-9][0-9]{0,4})-(" + _UUID + ")")
_LANE_TEXT = re.compile(r"[\x20-\x7e]*")


def _random_uuid() -> str:
    """The text of a random UUID, three times as fast as the standard library."""
    digits = token_bytes(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class TextId(str):
    """Text that is checked when it is created; `field` is its name in errors."""

    __slots__ = ()
    field: ClassVar[str] = "id"

    def __new__(cls, text: str) -> Self:
        if type(text) is cls:
            return text
        return super().__new__(cls, cls._checked(text))

    @classmethod
    def trusted(cls, text: str) -> Self:
        """Wrap text from the store, which was checked before it was stored."""
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
        """The prefix of ids created in one call: all but the last group, which counts them."""
        return _random_uuid()[:24]

    @classmethod
    def fits(cls, text: object) -> bool:
        return isinstance(text, str) and _UUID_TEXT.fullmatch(text) is not None

    @classmethod
    def _checked(cls, text: object) -> str:
        if isinstance(text, str) and _UUID_TEXT.fullmatch(text):
            return text
        raise InvalidInput(cls.field, text, "must be a lower-case hyphenated UUID")


class ExecutionId(TextId):
    """`{fp:N}:<uuid>`: the id contains its partition, so no lookup or hash is needed later.

    This is the text that the store and its keys have. People read and type `short`, `N-<uuid>`, which needs no quotes
    in shells and URLs. Both forms are accepted wherever an id is parsed, and both give the same id.
    """

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

        The concurrency key decides the shard; without one, the idempotency key does.
        """
        return cls.deterministic_for_lane(
            lane_id, config, _random_uuid(), idempotency_key=idempotency_key, concurrency_key=concurrency_key
        )

    @classmethod
    def deterministic_for_flow(cls, flow_id: FlowId, config: PartitionConfig, uuid: str | UUID) -> Self:
        """The id of `uuid` in the flow's partition; stable while the partition count is."""
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
        """The id of `uuid` in its shard of the lane, or in that of a key; stable while the partition counts are."""
        partition = execution_partition(lane_id, config, str(uuid), idempotency_key, concurrency_key)
        return cls(f"{partition.tag}:{uuid}")

    @property
    def short(self) -> str:
        """`N-<uuid>`, the form for people: in commands, URLs, logs and messages."""
        return f"{self.partition_index}-{self.uuid}"

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
        if isinstance(text, str):
            if (match := _EXECUTION_TEXT.fullmatch(text)) and int(match[1]) <= limits.MAX_U16:
                return match[0]
            if (match := _EXECUTION_SHORT.fullmatch(text)) and int(match[1]) <= limits.MAX_U16:
                return f"{{fp:{match[1]}}}:{match[2]}"
        problem = f"must look like N-<lower-case uuid> or {{fp:N}}:<lower-case uuid>, with N from 0 to {limits.MAX_U16}"
        raise InvalidInput(cls.field, text, problem)


class FlowId(UuidId):
    __slots__ = ()
    field = "flow_id"

    @classmethod
    def for_lane(cls, lane_id: LaneId, config: PartitionConfig, uuid: str | UUID | None = None) -> Self:
        """An id whose flow shares a partition with the lane's stand-alone executions.

        A worker then ends and claims both in one call. Without a uuid the id is new; a uuid always gives the same id.
        """
        given = str(uuid or _random_uuid())
        return cls.in_partition(execution_partition(lane_id, config, given), config, given)

    @classmethod
    def in_partition(cls, place: Partition, config: PartitionConfig, uuid: str | UUID) -> Self:
        """The id of a uuid whose last digits are changed until the flow belongs to the partition."""
        number = UUID(str(uuid)).int
        head, first = number & ~0xFFFF, number & 0xFFFF
        for step in range(0x10000):  # every checksum occurs once
            found = cls(str(UUID(int=head | (first + step) & 0xFFFF)))
            if flow_partition(found, config) == place:
                return found
        raise AssertionError("no uuid belongs to the partition")


class BudgetId(UuidId):
    __slots__ = ()
    field = "budget_id"

    @classmethod
    def named(cls, name: str, owner: str | None = None) -> Self:
        """The id of the budget with this name; its owner is a namespace, or the store."""
        return cls(str(uuid5(_BUDGET_NAMES, f"{owner or ''}/{name}")))

    @classmethod
    def of(cls, id_or_name: str) -> Self:
        """An id as it is, or the id of the store's own budget with this name."""
        return cls(id_or_name) if cls.fits(id_or_name) else cls.named(id_or_name)


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
    """The name of a lane: printable ASCII, because people type it in key names."""

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
    """The name that a suspension gives to a waitpoint; free text within bounds."""

    __slots__ = ()
    field = "waitpoint_key"


class SecretText(TextId):
    """Text that logs and messages never show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<redacted>)"

    def __str__(self) -> str:
        return "<redacted>"

    def __format__(self, spec: str) -> str:
        return format("<redacted>", spec)

    def reveal(self) -> str:
        """The secret text, to be sent and never logged."""
        return str.__str__(self)


class WaitpointToken(SecretText):
    """`kid:hex`, the token a signaller must present.

    Empty and malformed text is accepted here: the store refuses it like any other wrong token, so the refusal
    reveals nothing.
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

"""Field types of the contracts, and the base class that checks them.

The annotation of a field defines it completely: `lease_ttl_ms: LeaseTtlMs` is a whole number within the
bounds of a lease, `lane_id: LaneId` is a parsed id. `Checked` reads the annotations once per class.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from enum import StrEnum
from functools import cache, partial
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec.structs import astuple, force_setattr

from flowfabric.core import codec, limits
from flowfabric.core.capability import capability_set
from flowfabric.core.tags import tag_map
from flowfabric.errors import InvalidInput, InvalidPolicy

Check: TypeAlias = Callable[[str, Any], Any]


class Rule:
    """A check inside an annotation: it returns the normalized value, or refuses it."""

    def __init__(self, check: Check) -> None:
        self.check = check


def _text(low: int, high: int) -> Rule:
    return Rule(lambda field, value: limits.text(field, value, low, high))


def _label(low: int, high: int) -> Rule:
    return Rule(lambda field, value: limits.label(field, value, low, high))


def _json_object(field: str, value: Any) -> str:
    if not limits.text(field, value, 0, limits.POLICY_JSON_MAX_BYTES, error=InvalidPolicy):
        return ""
    codec.from_json(dict[str, Any], value, error=InvalidPolicy, root=field)
    return str(value)


def _json_text(field: str, value: Any) -> str:
    limits.text(field, value, 1, limits.ROUTE_SNAPSHOT_MAX_BYTES)
    codec.from_json(Any, value, root=field)
    return str(value)


Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]
ProgressPct: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.PROGRESS_PCT_MAX)]
DurationMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_DURATION_MS)]
LeaseTtlMs: TypeAlias = Annotated[int, msgspec.Meta(ge=limits.LEASE_TTL_MIN_MS, le=limits.LEASE_TTL_MAX_MS)]
GrantTtlMs: TypeAlias = Annotated[int, msgspec.Meta(ge=limits.GRANT_TTL_MIN_MS, le=limits.GRANT_TTL_MAX_MS)]
ReclaimCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_POLICY_COUNT)]
Concurrency: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_CONCURRENCY)]
AgeingMs: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_DURATION_MS)]
BatchCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.BATCH_MAX_ITEMS)]
ScanLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.SCAN_LIMIT_MAX)]

Payload: TypeAlias = Annotated[bytes, Rule(limits.payload)]
Encoding: TypeAlias = Annotated[str, _label(1, limits.ENCODING_MAX_BYTES)]
ExecutionKind: TypeAlias = Annotated[str, _label(1, limits.EXECUTION_KIND_MAX_BYTES)]
CreatorIdentity: TypeAlias = Annotated[str, _label(0, limits.CREATOR_IDENTITY_MAX_BYTES)]
IdempotencyKey: TypeAlias = Annotated[str, _label(1, limits.IDEMPOTENCY_KEY_MAX_BYTES)]
ConcurrencyKey: TypeAlias = Annotated[str, _label(1, limits.CONCURRENCY_KEY_MAX_BYTES)]
FailureCategory: TypeAlias = Annotated[str, _label(1, limits.FAILURE_CATEGORY_MAX_BYTES)]
Reason: TypeAlias = Annotated[str, _text(0, limits.REASON_MAX_BYTES)]
ProgressMessage: TypeAlias = Annotated[str, _text(1, limits.PROGRESS_MESSAGE_MAX_BYTES)]
CapabilityHash: TypeAlias = Annotated[str, _label(1, limits.CAPABILITY_HASH_MAX_BYTES)]
AdmissionSummary: TypeAlias = Annotated[str, _text(1, limits.ADMISSION_SUMMARY_MAX_BYTES)]
RouteSnapshotJson: TypeAlias = Annotated[str, Rule(_json_text)]
AttemptPolicyJson: TypeAlias = Annotated[str, Rule(_json_object)]
Tags: TypeAlias = Annotated[
    dict[str, str], msgspec.Meta(max_length=limits.MAX_TAGS), Rule(lambda field, value: tag_map(value, field))
]
Capabilities: TypeAlias = Annotated[
    tuple[str, ...],
    msgspec.Meta(max_length=limits.MAX_CAPABILITIES),
    Rule(lambda field, value: capability_set(value, field)),
]


class Checked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A struct that checks and normalizes every field when it is built.

    Decoding refuses unknown members: a caller that still sends `now` must learn that it has no effect.
    """

    def __post_init__(self) -> None:
        for given, (name, default, exact, check) in zip(astuple(self), _checks(type(self)), strict=True):
            if given is default or type(given) is exact:
                continue
            value = check(name, given)
            if value is not given:
                force_setattr(self, name, value)


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome"):
    """One possible outcome of a call; `outcome` distinguishes the members of a result's union."""


@cache
def _checks(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any, type[Any] | None, Check], ...]:
    """For each field: its name, its default, a type whose values need no check, and the check for all others."""
    fields = msgspec.structs.fields(kind)
    return tuple((field.name, field.default, _exact(field.type), _check_for(field.type)) for field in fields)


def _exact(annotation: Any) -> type[Any] | None:
    """A type that needs no further check: an id, which was checked when created, an enum, another contract."""
    options = [option for option in get_args(annotation) or (annotation,) if option is not type(None)]
    is_plain = get_origin(annotation) in (None, Union, types.UnionType) and len(options) == 1
    only = options[0] if is_plain else None
    return only if isinstance(only, type) and only not in (str, bytes, int) else None


def _check_for(annotation: Any) -> Check:
    if get_origin(annotation) in (Union, types.UnionType):
        (inner,) = (option for option in get_args(annotation) if option is not type(None))
        return partial(_optional, _check_for(inner))
    if get_origin(annotation) is not Annotated:
        return _plain_check(annotation)
    base, *details = get_args(annotation)
    for detail in details:
        if isinstance(detail, Rule):
            return detail.check
        if isinstance(detail, msgspec.Meta) and isinstance(detail.ge, int) and isinstance(detail.le, int):
            return partial(_whole, detail.ge, detail.le)
    return _plain_check(base)


def _plain_check(kind: type[Any]) -> Check:
    if issubclass(kind, StrEnum):
        return partial(_member, kind)
    if issubclass(kind, str) and kind is not str:
        return partial(_id, kind)
    return partial(_instance, kind)


def _optional(check: Check, field: str, value: Any) -> Any:
    return None if value is None else check(field, value)


def _whole(low: int, high: int, field: str, value: Any) -> int:
    return limits.whole(field, value, low, high)


def _member(kind: type[StrEnum], field: str, value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field, value, f"must be one of {', '.join(kind)}") from None


def _id(kind: type[str], field: str, value: Any) -> str:
    if type(value) is kind:
        return value
    try:
        return kind(value)
    except InvalidInput as error:
        raise codec.relocate(error, field) from None


def _instance(kind: type[Any], field: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise InvalidInput(field, value, f"must be {kind.__name__}")
    return value

"""The execution policy: retries, timeouts, routing and retention of an execution.

Every part is checked when it is built. Field names in errors are paths from the top of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core import codec, limits
from flowfabric.core.capability import capability_set
from flowfabric.core.ids import BudgetId, QuotaPolicyId
from flowfabric.errors import InvalidInput, InvalidPolicy

T = TypeVar("T")


class TimeoutBehavior(StrEnum):
    """What the timeout of a suspension does."""

    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    AUTO_RESUME = "auto_resume"
    AUTO_RESUME_WITH_TIMEOUT_SIGNAL = "auto_resume_with_timeout_signal"
    ESCALATE = "escalate"


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of the policy; a misspelt member is refused rather than ignored."""


class FixedBackoff(_Part, frozen=True, kw_only=True, tag_field="type", tag="fixed"):
    """The same pause before every retry."""

    delay_ms: int = 1_000

    def __post_init__(self) -> None:
        _duration("retry_policy.backoff.delay_ms", self.delay_ms)


class ExponentialBackoff(_Part, frozen=True, kw_only=True, tag_field="type", tag="exponential"):
    """A pause that grows with every retry up to `max_delay_ms`; jitter takes up to half of it away."""

    initial_delay_ms: int = 1_000
    max_delay_ms: int = 60_000
    multiplier: float = 2.0
    jitter: bool = False

    def __post_init__(self) -> None:
        path = "retry_policy.backoff"
        _duration(f"{path}.initial_delay_ms", self.initial_delay_ms)
        _duration(f"{path}.max_delay_ms", self.max_delay_ms)
        if self.max_delay_ms < self.initial_delay_ms:
            problem = f"must be at least initial_delay_ms, which is {self.initial_delay_ms}"
            raise InvalidPolicy(f"{path}.max_delay_ms", self.max_delay_ms, problem)
        _multiplier(f"{path}.multiplier", self.multiplier)
        _instance(f"{path}.jitter", self.jitter, bool)


Backoff: TypeAlias = FixedBackoff | ExponentialBackoff


class RetryPolicy(_Part, frozen=True, kw_only=True):
    """How often a failed attempt is retried, and after which pause."""

    max_retries: int = limits.DEFAULT_MAX_RETRIES
    backoff: Backoff = msgspec.field(default_factory=ExponentialBackoff)
    retryable_categories: tuple[str, ...] = ()  # empty: every category

    def __post_init__(self) -> None:
        _count("retry_policy.max_retries", self.max_retries, limits.MAX_RETRIES)
        _instance("retry_policy.backoff", self.backoff, FixedBackoff, ExponentialBackoff)
        path = "retry_policy.retryable_categories"
        categories = _items(path, self.retryable_categories, limits.MAX_RETRYABLE_CATEGORIES, _category)
        force_setattr(self, "retryable_categories", categories)


class TimeoutPolicy(_Part, frozen=True, kw_only=True):
    """Limits on one attempt and on the execution as a whole, counted from their starts."""

    attempt_timeout_ms: int | None = None
    execution_deadline_ms: int | None = None
    max_reclaim_count: int | None = None

    def __post_init__(self) -> None:
        _duration("timeout_policy.attempt_timeout_ms", self.attempt_timeout_ms, low=1)
        _duration("timeout_policy.execution_deadline_ms", self.execution_deadline_ms, low=1)
        _count("timeout_policy.max_reclaim_count", self.max_reclaim_count)


class SuspensionPolicy(_Part, frozen=True, kw_only=True):
    default_timeout_ms: int | None = None
    timeout_behavior: TimeoutBehavior = TimeoutBehavior.FAIL

    def __post_init__(self) -> None:
        _duration("suspension_policy.default_timeout_ms", self.default_timeout_ms, low=1)
        force_setattr(self, "timeout_behavior", _behavior(self.timeout_behavior))


class FallbackTier(_Part, frozen=True, kw_only=True):
    provider: str
    model: str
    timeout_ms: int | None = None

    def __post_init__(self) -> None:
        _label("fallback_policy.tiers.provider", self.provider)
        _label("fallback_policy.tiers.model", self.model)
        _duration("fallback_policy.tiers.timeout_ms", self.timeout_ms, low=1)


class FallbackPolicy(_Part, frozen=True, kw_only=True):
    tiers: tuple[FallbackTier, ...] = ()

    def __post_init__(self) -> None:
        tiers = _items("fallback_policy.tiers", self.tiers, limits.MAX_FALLBACK_TIERS, _tier)
        force_setattr(self, "tiers", tiers)


class RoutingRequirements(_Part, frozen=True, kw_only=True):
    """Which workers may run it."""

    required_capabilities: tuple[str, ...] = ()
    preferred_locality: str | None = None
    isolation_level: str | None = None

    def __post_init__(self) -> None:
        path = "routing_requirements"
        tokens = capability_set(self.required_capabilities, f"{path}.required_capabilities")
        force_setattr(self, "required_capabilities", tokens)
        if self.preferred_locality is not None:
            _label(f"{path}.preferred_locality", self.preferred_locality)
        if self.isolation_level is not None:
            _label(f"{path}.isolation_level", self.isolation_level)


class StreamPolicy(_Part, frozen=True, kw_only=True):
    """How frames are kept; `retention_ttl_ms` bounds the finished execution as a whole."""

    durability_mode: str = "buffered"
    retention_maxlen: int = limits.DEFAULT_RETENTION_MAXLEN
    retention_ttl_ms: int | None = None

    def __post_init__(self) -> None:
        _label("stream_policy.durability_mode", self.durability_mode)
        _count("stream_policy.retention_maxlen", self.retention_maxlen, limits.MAX_RETENTION_MAXLEN)
        _duration("stream_policy.retention_ttl_ms", self.retention_ttl_ms)


class ExecutionPolicy(_Part, frozen=True, kw_only=True):
    """The whole policy; the store's defaults apply to absent parts."""

    priority: int | None = None
    delay_until: int | None = None
    retry_policy: RetryPolicy | None = None
    timeout_policy: TimeoutPolicy | None = None
    max_reclaim_count: int | None = None
    suspension_policy: SuspensionPolicy | None = None
    fallback_policy: FallbackPolicy | None = None
    max_replay_count: int | None = None
    budget_ids: tuple[BudgetId, ...] = ()
    routing_requirements: RoutingRequirements | None = None
    dedup_window_ms: int | None = None
    stream_policy: StreamPolicy | None = None
    max_signals_per_execution: int | None = None
    max_signals_per_waitpoint: int | None = None
    max_signal_bytes_per_waitpoint: int | None = None
    quota_policy_ids: tuple[QuotaPolicyId, ...] = ()

    def __post_init__(self) -> None:
        if self.priority is not None:
            _whole("priority", self.priority, limits.PRIORITY_MIN, limits.PRIORITY_MAX)
        if self.delay_until is not None:
            _whole("delay_until", self.delay_until, 0, limits.TIMESTAMP_MAX_MS)
        _duration("dedup_window_ms", self.dedup_window_ms, low=1)
        if self.max_signal_bytes_per_waitpoint is not None:
            _whole("max_signal_bytes_per_waitpoint", self.max_signal_bytes_per_waitpoint, 0, limits.MAX_SIGNAL_BYTES)
        for name in _COUNTS:
            _count(name, getattr(self, name))
        for name, kind in _PARTS.items():
            _instance(name, getattr(self, name), kind, type(None))
        budgets = _items("budget_ids", self.budget_ids, limits.MAX_BUDGET_IDS, _budget)
        force_setattr(self, "budget_ids", budgets)
        quotas = _items("quota_policy_ids", self.quota_policy_ids, limits.MAX_QUOTA_POLICY_IDS, _quota_policy)
        force_setattr(self, "quota_policy_ids", quotas)


_COUNTS = ("max_reclaim_count", "max_replay_count", "max_signals_per_execution", "max_signals_per_waitpoint")
_PARTS = {
    "retry_policy": RetryPolicy,
    "timeout_policy": TimeoutPolicy,
    "suspension_policy": SuspensionPolicy,
    "fallback_policy": FallbackPolicy,
    "routing_requirements": RoutingRequirements,
    "stream_policy": StreamPolicy,
}


def policy_to_json(policy: ExecutionPolicy) -> str:
    """The policy as stored: compact, without nulls and defaults."""
    members = msgspec.to_builtins(policy, enc_hook=codec.encode_id)
    if policy.retry_policy is not None:
        members["retry_policy"] = _retry_members(policy.retry_policy)
    return _bounded(members)


def policy_from_json(data: str | bytes) -> ExecutionPolicy:
    _check_size(data)
    return codec.from_json(ExecutionPolicy, data, error=InvalidPolicy)


def retry_policy_to_json(policy: RetryPolicy) -> str:
    return _bounded(_retry_members(policy))


def retry_policy_from_json(data: str | bytes) -> RetryPolicy:
    """Only the retry part, as a failing worker may send it."""
    _check_size(data)
    return codec.from_json(RetryPolicy, data, error=InvalidPolicy, root="retry_policy")


def _retry_members(policy: RetryPolicy) -> dict[str, Any]:
    # Server functions read an absent max_retries as 0 and an absent backoff as fixed.
    members: dict[str, Any] = msgspec.to_builtins(policy)
    return members | {"max_retries": policy.max_retries, "backoff": msgspec.to_builtins(policy.backoff)}


def _bounded(members: dict[str, Any]) -> str:
    data = codec.to_json(members)
    _check_size(data)
    return data.decode()


def _check_size(data: str | bytes) -> None:
    if not isinstance(data, (str, bytes)):
        raise InvalidPolicy("policy", data, "must be JSON text")
    size = len(data.encode(errors="replace")) if isinstance(data, str) else len(data)
    if size > limits.POLICY_JSON_MAX_BYTES:
        problem = f"must be at most {limits.POLICY_JSON_MAX_BYTES} bytes of JSON"
        raise InvalidPolicy("policy", f"{size} bytes", problem)


def _whole(path: str, value: object, low: int, high: int) -> None:
    limits.whole(path, value, low, high, error=InvalidPolicy)


def _duration(path: str, value: int | None, *, low: int = 0) -> None:
    if value is not None:
        _whole(path, value, low, limits.MAX_DURATION_MS)


def _count(path: str, value: int | None, high: int = limits.MAX_POLICY_COUNT) -> None:
    if value is not None:
        _whole(path, value, 0, high)


def _label(path: str, value: object) -> None:
    limits.label(path, value, 1, limits.POLICY_LABEL_MAX_BYTES, error=InvalidPolicy)


def _multiplier(path: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InvalidPolicy(path, value, "must be a number")
    if value < 1:
        raise InvalidPolicy(path, value, "must be at least 1")
    if value > limits.MAX_BACKOFF_MULTIPLIER:
        raise InvalidPolicy(path, value, f"must be at most {limits.MAX_BACKOFF_MULTIPLIER}")


def _instance(path: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise InvalidPolicy(path, value, f"must be {names}")


def _items(path: str, value: object, high: int, check: Callable[[str, Any], T]) -> tuple[T, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidPolicy(path, value, "must be a list")
    items = tuple(check(path, item) for item in value)
    if len(items) > high:
        raise InvalidPolicy(path, len(items), f"must hold at most {high} entries")
    if len(set(items)) < len(items):
        raise InvalidPolicy(path, items, "must not repeat an entry")
    return items


def _category(path: str, value: object) -> str:
    return limits.label(path, value, 1, limits.FAILURE_CATEGORY_MAX_BYTES, error=InvalidPolicy)


def _tier(path: str, value: object) -> FallbackTier:
    if not isinstance(value, FallbackTier):
        raise InvalidPolicy(path, value, "must hold FallbackTier")
    return value


def _budget(path: str, value: str) -> BudgetId:
    try:
        return BudgetId(value)
    except InvalidInput:
        raise InvalidPolicy(path, value, "must hold lower-case hyphenated UUIDs") from None


def _quota_policy(path: str, value: str) -> QuotaPolicyId:
    try:
        return QuotaPolicyId(value)
    except InvalidInput:
        raise InvalidPolicy(path, value, "must hold lower-case hyphenated UUIDs") from None


def _behavior(value: str) -> TimeoutBehavior:
    try:
        return TimeoutBehavior(value)
    except ValueError:
        problem = f"must be one of {', '.join(TimeoutBehavior)}"
        raise InvalidPolicy("suspension_policy.timeout_behavior", value, problem) from None

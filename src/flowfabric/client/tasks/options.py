"""Options of a task. Only this layer takes seconds, `timedelta` and `datetime`; layers below use milliseconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from copy import copy
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

from flowfabric.core import limits
from flowfabric.core.capability import capability_set
from flowfabric.core.contracts import DuplicateMode
from flowfabric.core.ids import BudgetId, LaneId
from flowfabric.core.policy import ExecutionPolicy, RetryPolicy, RoutingRequirements, StreamPolicy, TimeoutPolicy
from flowfabric.core.tags import tag_map
from flowfabric.errors import InvalidInput

Duration: TypeAlias = float | timedelta  # seconds, or a timedelta
OnDuplicate: TypeAlias = (
    DuplicateMode | Literal["return_existing", "reject", "replace_while_waiting", "debounce", "until_success"]
)
Idempotency: TypeAlias = Literal["always", "until_success"]
ChangedSteps: TypeAlias = Literal["safe", "keep", "rerun", "fail"]


class Options(TypedDict, total=False):
    """The options by name; `TaskOptions` documents them."""

    lane: str
    priority: int
    retry: RetryPolicy | int | None
    timeout: Duration | None
    deadline: Duration | datetime | None
    delay: Duration | datetime | None
    capabilities: Collection[str]
    tags: Mapping[str, str]
    idempotency_key: str | None
    idempotency_window: Duration | None
    idempotency: Idempotency
    on_duplicate: OnDuplicate
    concurrency_key: str | None
    keep_for: Duration | None
    changed_steps: ChangedSteps
    budgets: Collection[str]
    quotas: Collection[str]


OPTION_NAMES: Final = frozenset(Options.__annotations__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """How a task's executions are run; validated when created."""

    lane: str = "default"
    priority: int = 0  # 0 to 9000, higher first
    retry: RetryPolicy | int | None = None  # a number of retries with growing backoff; None: no retry
    timeout: Duration | None = None  # of one attempt
    deadline: Duration | datetime | None = None  # of the whole execution: a duration since its submission, or a time
    delay: Duration | datetime | None = None  # before the first attempt
    capabilities: Collection[str] = ()  # that the worker must offer
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    idempotency_key: str | None = None  # submitting again finds the earlier execution
    idempotency_window: Duration | None = None  # how long the key is remembered; None: a day
    idempotency: Idempotency = "always"  # until_success: an execution that failed, expired or was cancelled frees it
    on_duplicate: OnDuplicate = DuplicateMode.RETURN_EXISTING  # what submitting again does
    concurrency_key: str | None = None  # executions with the same key take turns, as the lane configures
    keep_for: Duration | None = None  # after its end, instead of the store's retention
    changed_steps: ChangedSteps = "safe"  # what to do when the code does not fit the recorded steps
    budgets: Collection[str] = ()  # it spends from, besides those of its lane, namespace and flow: ids or names
    quotas: Collection[str] = ()  # ids of quota policies that admit it, besides those of its lane, namespace and flow

    def __post_init__(self) -> None:
        limits.whole("priority", self.priority, limits.PRIORITY_MIN, limits.PRIORITY_MAX)
        for name in ("idempotency_key", "concurrency_key"):
            if getattr(self, name) is not None:
                limits.label(name, getattr(self, name), 1, limits.IDEMPOTENCY_KEY_MAX_BYTES)
        object.__setattr__(self, "on_duplicate", _duplicate_mode(self.on_duplicate))
        _ = self.duplicate_mode
        object.__setattr__(self, "tags", tag_map(self.tags))
        changed_steps("changed_steps", self.changed_steps)
        _ = self.lane_id, self.policy  # computed once; invalid values raise here
        duration_or_moment("delay", self.delay)

    def changed(self, **changes: Unpack[Options]) -> TaskOptions:
        """A copy with these changes. Fast, because each submission may have its own key."""
        check_names(changes)
        made = copy(self)
        vars(made).update(changes)
        for derived, sources in _DERIVED.items():
            if not sources.isdisjoint(changes):
                vars(made).pop(derived, None)
        made.__post_init__()
        return made

    @property
    def duplicate_mode(self) -> DuplicateMode:
        """`on_duplicate`, or what `idempotency` makes of it."""
        on_duplicate = DuplicateMode(self.on_duplicate)
        if self.idempotency not in get_args(Idempotency):
            raise InvalidInput("idempotency", self.idempotency, f"must be one of {', '.join(get_args(Idempotency))}")
        if self.idempotency == "always" or on_duplicate is DuplicateMode.UNTIL_SUCCESS:
            return on_duplicate
        if on_duplicate is not DuplicateMode.RETURN_EXISTING:
            raise InvalidInput("idempotency", self.idempotency, f"cannot be combined with on_duplicate {on_duplicate}")
        return DuplicateMode.UNTIL_SUCCESS

    @cached_property
    def lane_id(self) -> LaneId:
        return LaneId(self.lane)

    @cached_property
    def policy(self) -> ExecutionPolicy | None:
        """The policy that the store keeps with the execution; None when it has only defaults."""
        parts: dict[str, Any] = {
            "retry_policy": RetryPolicy(max_retries=self.retry) if isinstance(self.retry, int) else self.retry,
            "timeout_policy": self._timeout_policy(),
            "routing_requirements": self._routing(),
            "stream_policy": self._stream_policy(),
            "dedup_window_ms": self._dedup_window_ms(),
            "budget_ids": _budget_ids(self.budgets),
            "quota_policy_ids": _ids("quotas", self.quotas),
        }
        given = {name: part for name, part in parts.items() if part is not None}
        return ExecutionPolicy(**given) if given else None

    def _timeout_policy(self) -> TimeoutPolicy | None:
        attempt = None if self.timeout is None else ms("timeout", self.timeout, low=1)
        # The store counts it from the submission, so client clocks do not matter.
        whole, _ = duration_or_moment("deadline", self.deadline, low=1)
        if attempt is None and whole is None:
            return None
        return TimeoutPolicy(attempt_timeout_ms=attempt, execution_deadline_ms=whole)

    def _routing(self) -> RoutingRequirements | None:
        if not self.capabilities:
            return None
        return RoutingRequirements(required_capabilities=capability_set(self.capabilities, "capabilities"))

    def _dedup_window_ms(self) -> int | None:
        return None if self.idempotency_window is None else ms("idempotency_window", self.idempotency_window, low=1)

    def _stream_policy(self) -> StreamPolicy | None:
        return None if self.keep_for is None else StreamPolicy(retention_ttl_ms=ms("keep_for", self.keep_for))


# Cached properties, and the options they depend on.
_DERIVED: Final = {
    "lane_id": frozenset({"lane"}),
    "policy": frozenset(
        {"retry", "timeout", "deadline", "capabilities", "idempotency_window", "keep_for", "budgets", "quotas"}
    ),
}


def check_names(given: Collection[str]) -> None:
    """Refuse unknown options, which a type checker would have found."""
    for name in given:
        if name not in OPTION_NAMES:
            valid = ", ".join(sorted(OPTION_NAMES))
            raise InvalidInput(name, name, f"unknown option {name!r}; valid options: {valid}")


def ms(field: str, duration: Duration, *, low: int = 0) -> int:
    """A duration in milliseconds."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = duration
    else:
        raise InvalidInput(field, duration, "must be a number of seconds or a timedelta")
    if not low <= seconds * 1000 <= limits.MAX_DURATION_MS:
        problem = f"must be from {low / 1000:g} to {limits.MAX_DURATION_MS // 1000} seconds"
        raise InvalidInput(field, duration, problem)
    return round(seconds * 1000)


def moment_ms(field: str, moment: datetime) -> int:
    """A time as milliseconds since 1970."""
    if not isinstance(moment, datetime):
        raise InvalidInput(field, moment, "must be a datetime")
    if moment.tzinfo is None:
        raise InvalidInput(field, moment, "must have a time zone, like datetime.now(UTC)")
    return limits.whole(field, round(moment.timestamp() * 1000), 0, limits.TIMESTAMP_MAX_MS)


def duration_or_moment(field: str, given: Duration | datetime | None, *, low: int = 0) -> tuple[int | None, int | None]:
    """Milliseconds of a duration or of a time: the first is set for a duration, the second for a time."""
    if given is None:
        return None, None
    if isinstance(given, datetime):
        return None, moment_ms(field, given)
    return ms(field, given, low=low), None


def changed_steps(field: str, given: str) -> ChangedSteps:
    """Check the policy for steps that have changed since they were recorded."""
    if given not in get_args(ChangedSteps):
        raise InvalidInput(field, given, f"must be one of {', '.join(get_args(ChangedSteps))}")
    return cast("ChangedSteps", given)


def _ids(field: str, given: Collection[str]) -> tuple[str, ...] | None:
    """The ids of limits, which the policy validates; None without any."""
    if isinstance(given, str):
        raise InvalidInput(field, given, "must be a list of ids")
    return tuple(given) or None


def _budget_ids(given: Collection[str]) -> tuple[BudgetId, ...] | None:
    """Ids, or names of budgets that belong to the store."""
    found = _ids("budgets", given)
    return None if found is None else tuple(BudgetId.of(each) for each in found)


def _duplicate_mode(given: str) -> DuplicateMode:
    try:
        return DuplicateMode(given)
    except ValueError:
        raise InvalidInput("on_duplicate", given, f"must be one of {', '.join(DuplicateMode)}") from None

"""Budgets: spending limits by dimension, and the amounts spent."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, DurationMs, Outcome, Rule
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.contracts.limits.attachments import LimitScope, ScopeId, check_owner, optional_scope, stored_scope
from flowfabric.core.ids import BudgetId, ExecutionId, Namespace, ReservationId, TimestampMs
from flowfabric.errors import InvalidInput

_DIMENSION = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")


BudgetName: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 1, limits.POLICY_LABEL_MAX_BYTES))
]


class OnHardLimit(StrEnum):
    """What a breach does. In each case no execution starts on the budget until it is reset or raised (G10)."""

    REJECT = "reject"  # reports that exceed the limit are refused; reports that fit still count
    BLOCK = "block"  # every report and reservation is refused until the reset or raise
    CANCEL_PENDING = "cancel_pending"  # the engine cancels executions of the scope that have not started
    CANCEL_ALL = "cancel_all"  # the engine cancels all executions of the scope
    SUSPEND = "suspend"  # the worker suspends the execution until an operator decides


def _dimension(field: str, value: Any) -> str:
    if not isinstance(value, str) or not _DIMENSION.fullmatch(value) or len(value) > limits.DIMENSION_MAX_BYTES:
        problem = f"must be a letter, then letters, digits or _ . : -, at most {limits.DIMENSION_MAX_BYTES} in all"
        raise InvalidInput(field, value, problem)
    return value


def _dimensions(field: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, tuple | list):
        raise InvalidInput(field, value, "must be a list of names")
    names = tuple(_dimension(field, each) for each in value)
    if len(names) > limits.MAX_DIMENSIONS:
        raise InvalidInput(field, len(names), f"must hold at most {limits.MAX_DIMENSIONS} dimensions")
    if len(set(names)) < len(names):
        raise InvalidInput(field, names, "must not repeat a dimension")
    return names


def _amounts(field: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, tuple | list):
        raise InvalidInput(field, value, "must be a list of whole numbers")
    return tuple(limits.whole(field, each, 0, limits.MAX_AMOUNT) for each in value)


_FEW: Final = msgspec.Meta(max_length=limits.MAX_DIMENSIONS)
Dimensions: TypeAlias = Annotated[tuple[str, ...], _FEW, Rule(_dimensions)]
Amounts: TypeAlias = Annotated[tuple[int, ...], _FEW, Rule(_amounts)]
DedupKey: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 1, limits.DEDUP_KEY_MAX_BYTES))
]
Label: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 0, limits.POLICY_LABEL_MAX_BYTES))
]


def _check_lengths(dimensions: tuple[str, ...], amounts: tuple[int, ...], field: str, *, at_least: int = 1) -> None:
    if len(dimensions) < at_least:
        raise InvalidInput("dimensions", dimensions, f"must hold at least {at_least}")
    if len(amounts) != len(dimensions):
        raise InvalidInput(field, amounts, f"must hold {len(dimensions)} amounts, one per dimension")


def _check_limits(dimensions: tuple[str, ...], hard: tuple[int, ...], soft: tuple[int, ...]) -> None:
    _check_lengths(dimensions, hard, "hard_limits")
    _check_lengths(dimensions, soft, "soft_limits")
    for name, most, told in zip(dimensions, hard, soft, strict=True):
        if most and told > most:
            raise InvalidInput("soft_limits", told, f"must be at most {most}, the hard limit of {name}")


class CreateBudgetArgs(Checked, frozen=True, kw_only=True):
    """A budget for the executions of a scope; without a scope, for executions that name it in their policy.

    A limit of 0 means no limit. A total may reach its hard limit but not exceed it. Each crossing of a soft limit is
    reported once. The store counts `wall_time_ms` and `attempts` itself if they have a limit.
    """

    budget_id: BudgetId
    scope_type: LimitScope | None = None
    scope_id: ScopeId | None = None
    dimensions: Dimensions
    hard_limits: Amounts
    soft_limits: Amounts
    enforcement_mode: Label = "strict"  # informational only
    on_hard_limit: OnHardLimit = OnHardLimit.REJECT
    on_soft_limit: Label = "warn"  # informational only
    reset_interval_ms: DurationMs = 0  # 0: reset by hand only
    namespace: Namespace | None = None  # the owner, fixed; None: the scope's namespace, or the store
    name: BudgetName | None = None  # its id is BudgetId.named(name, owner) then

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name is not None:
            check_name(self.budget_id, self.name, self.owner)
        force_setattr(self, "scope_id", optional_scope(self.scope_type, self.scope_id))
        check_owner(self.namespace, self.scope_type, self.scope_id)
        _check_limits(self.dimensions, self.hard_limits, self.soft_limits)

    @property
    def owner(self) -> str | None:
        """The namespace that it belongs to; None: the store."""
        return self.scope_id if self.scope_type is LimitScope.NAMESPACE else self.namespace


def check_name(budget_id: BudgetId, name: str, owner: str | None) -> None:
    """The name decides the id, so that a name leads to its budget and belongs to one."""
    if BudgetId.fits(name):
        raise InvalidInput("name", name, "must not look like an id")
    if budget_id != BudgetId.named(name, owner):
        raise InvalidInput("budget_id", budget_id, f"must be {BudgetId.named(name, owner)}, the id of the name")


class BudgetCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    budget_id: BudgetId


class BudgetAlreadySatisfied(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    """It already exists and was not changed."""

    budget_id: BudgetId


CreateBudgetResult: TypeAlias = BudgetCreated | BudgetAlreadySatisfied


class ReportUsageAdminArgs(Checked, frozen=True, kw_only=True):
    """Count usage if all of it fits, otherwise none. A `dedup_key` counts once per day."""

    budget_id: BudgetId
    dimensions: Dimensions
    deltas: Amounts
    dedup_key: DedupKey | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths(self.dimensions, self.deltas, "deltas")


class ReportUsageArgs(ReportUsageAdminArgs, frozen=True, kw_only=True):
    """Report usage of an execution, which is also recorded on its ledger.

    With the execution's namespace, budgets of other namespaces are not found.
    """

    execution_id: ExecutionId
    namespace: Namespace | None = None


class UsageCounted(Outcome, frozen=True, kw_only=True, tag="ok"):
    pass


class SoftBreach(Outcome, frozen=True, kw_only=True, tag="soft_breach"):
    """Counted; a soft limit was crossed by this report or an earlier one."""

    dimension: str
    current_usage: int
    soft_limit: int
    is_crossing: bool = True  # crossed by this report; every crossing is one event


class HardBreach(Outcome, frozen=True, kw_only=True, tag="hard_breach"):
    """A hard limit was exceeded. A report was not counted; actual spend was, and is now above the limit.

    current_usage is the amount that counts against the limit, including reservations where the amount must fit.
    """

    dimension: str
    current_usage: int
    hard_limit: int
    on_hard_limit: str = OnHardLimit.REJECT


class UsageAlreadyApplied(Outcome, frozen=True, kw_only=True, tag="already_applied"):
    """The dedup key or reservation was counted before; nothing changed."""


ReportUsageResult: TypeAlias = UsageCounted | SoftBreach | HardBreach | UsageAlreadyApplied


class RecordSpendArgs(ReportUsageAdminArgs, frozen=True, kw_only=True):
    """Count actual spend regardless of limits; an execution's spend is recorded on its ledger."""

    execution_id: ExecutionId | None = None
    namespace: Namespace | None = None  # of the execution; see ReportUsageArgs


class ReleaseBudgetArgs(Checked, frozen=True, kw_only=True):
    """Refund everything that an execution spent on a budget since its last reset."""

    budget_id: BudgetId
    execution_id: ExecutionId


class BudgetReleased(Outcome, frozen=True, kw_only=True, tag="released"):
    pass


class NothingToRelease(Outcome, frozen=True, kw_only=True, tag="noop"):
    """It has spent nothing, or was refunded before."""


ReleaseBudgetResult: TypeAlias = BudgetReleased | NothingToRelease


class ResetBudgetArgs(Checked, frozen=True, kw_only=True):
    """Start a new period: usage is 0, a breach ends, and the next reset is one interval away."""

    budget_id: BudgetId


class BudgetReset(Outcome, frozen=True, kw_only=True, tag="reset"):
    next_reset_at: TimestampMs | None = None


ResetBudgetResult: TypeAlias = BudgetReset


class SetBudgetLimitsArgs(Checked, frozen=True, kw_only=True):
    """Change limits while the budget is in use. Dimensions that are not named keep theirs; 0 removes a limit.

    Raising a limit ends the breach of its dimension. A limit below the current usage is a breach at once.
    """

    budget_id: BudgetId
    dimensions: Dimensions
    hard_limits: Amounts
    soft_limits: Amounts

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_limits(self.dimensions, self.hard_limits, self.soft_limits)


class BudgetLimitsSet(msgspec.Struct, frozen=True, kw_only=True):
    is_open: bool  # executions may start on it


class OnCrash(StrEnum):
    """What an open reservation counts when its attempt ends without settling it, as in a crash."""

    RETURN = "return"  # the amounts reported so far; the rest returns to the budget
    SPEND = "spend"  # all of it, because the rest may have been spent too


class ReserveBudgetArgs(Checked, frozen=True, kw_only=True):
    """The owner of a lease reserves amounts before it spends them: all of them, or none.

    They count against the limits until they are settled. When the lease ends, open reservations are returned; if the
    attempt ended with it, what it is known to have used counts first.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    budget_id: BudgetId
    reservation_id: ReservationId
    dimensions: Dimensions
    amounts: Amounts
    namespace: Namespace | None = None  # of the execution; see ReportUsageArgs
    on_crash: OnCrash = OnCrash.RETURN

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths(self.dimensions, self.amounts, "amounts")


class BudgetReserved(Outcome, frozen=True, kw_only=True, tag="reserved"):
    """Reserved now, or by an earlier call with the same id."""


class BudgetHeldByOthers(Outcome, frozen=True, kw_only=True, tag="held_by_others"):
    """It would fit if less were reserved. This is no breach; it may fit after other reservations settle."""

    dimension: str
    current_usage: int
    hard_limit: int


ReserveBudgetResult: TypeAlias = BudgetReserved | BudgetHeldByOthers | HardBreach | UsageAlreadyApplied


class SettleReservationArgs(Checked, frozen=True, kw_only=True):
    """End a reservation with the actual spend, which always counts; without amounts all of it is returned.

    If it does not end, these are the totals used so far. They count if the attempt ends without settling it.
    """

    execution_id: ExecutionId
    budget_id: BudgetId
    reservation_id: ReservationId
    dimensions: Dimensions = ()
    amounts: Amounts = ()
    namespace: Namespace | None = None  # of the execution; see ReportUsageArgs
    ends: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths(self.dimensions, self.amounts, "amounts", at_least=0)


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a budget. A dimension that is not listed has no limit or no usage."""

    budget_id: BudgetId
    scope_type: str
    scope_id: str
    enforcement_mode: str
    usage: dict[str, int]
    hard_limits: dict[str, int]
    soft_limits: dict[str, int]
    breach_count: int
    soft_breach_count: int
    last_breach_at: TimestampMs | None = None
    last_breach_dim: str | None = None
    next_reset_at: TimestampMs | None = None
    created_at: TimestampMs | None = None
    reserved: dict[str, int] = {}
    breached_at: TimestampMs | None = None  # None: not breached
    on_hard_limit: str = OnHardLimit.REJECT
    on_soft_limit: str = ""
    reset_interval_ms: int = 0
    reset_count: int = 0
    last_reset_at: TimestampMs | None = None
    namespace: str | None = None  # the owner; None: the store
    name: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "scope_id", stored_scope(self.scope_type, self.scope_id))


class DueBudgetsReset(msgspec.Struct, frozen=True, kw_only=True):
    """Which budgets were reset, and when the next reset is due; None: no budget has an interval."""

    budget_ids: tuple[BudgetId, ...] = ()
    next_at_ms: TimestampMs | None = None
    now_ms: TimestampMs


class BudgetNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A limit was passed, and the engine has not handled it yet."""

    kind: Literal["soft", "hard"]
    budget_id: BudgetId
    dimension: str
    at_ms: TimestampMs

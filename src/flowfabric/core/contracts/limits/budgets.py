"""Budgets: what may be spent, by dimension, and what was."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, DurationMs, Outcome, Rule
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.contracts.limits.attachments import LimitScope, ScopeId, check_optional_scope, check_owner
from flowfabric.core.ids import BudgetId, ExecutionId, Namespace, ReservationId, TimestampMs
from flowfabric.errors import InvalidInput

_DIMENSION = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*")


class OnHardLimit(StrEnum):
    """What a breach leads to. In each case nothing new starts on the budget until it is reset or raised (G10)."""

    REJECT = "reject"  # what would cross the limit is refused, what fits is still counted
    BLOCK = "block"  # every report and reservation is refused until then
    CANCEL_PENDING = "cancel_pending"  # the engine cancels executions of the scope that have not started
    CANCEL_ALL = "cancel_all"  # the engine cancels all executions of the scope
    SUSPEND = "suspend"  # the worker suspends the execution, and a person decides


def _dimension(field: str, value: Any) -> str:
    if not isinstance(value, str) or not _DIMENSION.fullmatch(value) or len(value) > limits.DIMENSION_MAX_BYTES:
        problem = f"must be a letter, then letters, digits and _ . : -, at most {limits.DIMENSION_MAX_BYTES} in all"
        raise InvalidInput(field, value, problem)
    return value


def _dimensions(field: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, tuple | list):
        raise InvalidInput(field, value, "must be a list of names")
    names = tuple(_dimension(field, each) for each in value)
    if len(names) > limits.MAX_DIMENSIONS:
        raise InvalidInput(field, len(names), f"must be at most {limits.MAX_DIMENSIONS}")
    if len(set(names)) < len(names):
        raise InvalidInput(field, names, "must not name a dimension twice")
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
        raise InvalidInput("dimensions", dimensions, f"must be at least {at_least}")
    if len(amounts) != len(dimensions):
        raise InvalidInput(field, amounts, f"must be {len(dimensions)}, one for each dimension")


def _check_limits(dimensions: tuple[str, ...], hard: tuple[int, ...], soft: tuple[int, ...]) -> None:
    _check_lengths(dimensions, hard, "hard_limits")
    _check_lengths(dimensions, soft, "soft_limits")
    for name, most, told in zip(dimensions, hard, soft, strict=True):
        if most and told > most:
            raise InvalidInput("soft_limits", told, f"must not be above the hard limit of {name}, which is {most}")


class CreateBudgetArgs(Checked, frozen=True, kw_only=True):
    """A budget for the executions of a scope; without one, for those that name it in their policy.

    A limit of 0 is none. A total may reach its hard limit and not pass it; passing the soft limit is told once each
    time. `wall_time_ms` and `attempts` are counted by themselves where they have a limit.
    """

    budget_id: BudgetId
    scope_type: LimitScope | None = None
    scope_id: ScopeId | None = None
    dimensions: Dimensions
    hard_limits: Amounts
    soft_limits: Amounts
    enforcement_mode: Label = "strict"  # for people; nothing reads it
    on_hard_limit: OnHardLimit = OnHardLimit.REJECT
    on_soft_limit: Label = "warn"  # for people; nothing reads it
    reset_interval_ms: DurationMs = 0  # 0: only by hand
    namespace: Namespace | None = None  # whose it is, for ever; None: of the namespace it is for, or the store's own

    def __post_init__(self) -> None:
        super().__post_init__()
        check_optional_scope(self.scope_type, self.scope_id)
        check_owner(self.namespace, self.scope_type, self.scope_id)
        _check_limits(self.dimensions, self.hard_limits, self.soft_limits)


class BudgetCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    budget_id: BudgetId


class BudgetAlreadySatisfied(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    """It exists, and was left as it is."""

    budget_id: BudgetId


CreateBudgetResult: TypeAlias = BudgetCreated | BudgetAlreadySatisfied


class ReportUsageAdminArgs(Checked, frozen=True, kw_only=True):
    """Count usage if it fits, all of it or nothing; the same `dedup_key` counts once within a day."""

    budget_id: BudgetId
    dimensions: Dimensions
    deltas: Amounts
    dedup_key: DedupKey | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths(self.dimensions, self.deltas, "deltas")


class ReportUsageArgs(ReportUsageAdminArgs, frozen=True, kw_only=True):
    """The same in the name of an execution, on whose ledger it is kept.

    With the namespace of the execution, a budget of another namespace is not there.
    """

    execution_id: ExecutionId
    namespace: Namespace | None = None


class UsageCounted(Outcome, frozen=True, kw_only=True, tag="ok"):
    pass


class SoftBreach(Outcome, frozen=True, kw_only=True, tag="soft_breach"):
    """Counted, and a soft limit is passed: by this report, or by an earlier one."""

    dimension: str
    current_usage: int
    soft_limit: int
    is_crossing: bool = True  # by this report; every crossing is one event


class HardBreach(Outcome, frozen=True, kw_only=True, tag="hard_breach"):
    """A hard limit is in the way: a report was not counted; what was really spent is, and is above it now.

    current_usage is what counts against the limit: with what is reserved, where the amount would have to fit beside it.
    """

    dimension: str
    current_usage: int
    hard_limit: int
    on_hard_limit: str = OnHardLimit.REJECT


class UsageAlreadyApplied(Outcome, frozen=True, kw_only=True, tag="already_applied"):
    """Its dedup key, or its reservation, was counted before; nothing was changed."""


ReportUsageResult: TypeAlias = UsageCounted | SoftBreach | HardBreach | UsageAlreadyApplied


class RecordSpendArgs(ReportUsageAdminArgs, frozen=True, kw_only=True):
    """Count what was really spent, whatever the limits; an execution's is kept on its ledger."""

    execution_id: ExecutionId | None = None
    namespace: Namespace | None = None  # of the execution, as in ReportUsageArgs


class ReleaseBudgetArgs(Checked, frozen=True, kw_only=True):
    """Take back all that an execution has spent on a budget since its last reset."""

    budget_id: BudgetId
    execution_id: ExecutionId


class BudgetReleased(Outcome, frozen=True, kw_only=True, tag="released"):
    pass


class NothingToRelease(Outcome, frozen=True, kw_only=True, tag="noop"):
    """It has spent nothing, or that was given back before."""


ReleaseBudgetResult: TypeAlias = BudgetReleased | NothingToRelease


class ResetBudgetArgs(Checked, frozen=True, kw_only=True):
    """Begin a new period: nothing is used, a breach is over, and the next reset is an interval away."""

    budget_id: BudgetId


class BudgetReset(Outcome, frozen=True, kw_only=True, tag="reset"):
    next_reset_at: TimestampMs | None = None


ResetBudgetResult: TypeAlias = BudgetReset


class SetBudgetLimitsArgs(Checked, frozen=True, kw_only=True):
    """Change limits while the budget is in use; dimensions that are not named keep theirs, and 0 lifts a limit.

    A raise ends the breach of its dimension. A limit below what is used already is a breach at once.
    """

    budget_id: BudgetId
    dimensions: Dimensions
    hard_limits: Amounts
    soft_limits: Amounts

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_limits(self.dimensions, self.hard_limits, self.soft_limits)


class BudgetLimitsSet(msgspec.Struct, frozen=True, kw_only=True):
    is_open: bool  # something may start on it


class ReserveBudgetArgs(Checked, frozen=True, kw_only=True):
    """The owner of a lease holds amounts before it spends them: all of them, or nothing.

    They count against the limits until they are settled. What is open when the lease ends, however it ends, returns.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    budget_id: BudgetId
    reservation_id: ReservationId
    dimensions: Dimensions
    amounts: Amounts
    namespace: Namespace | None = None  # of the execution, as in ReportUsageArgs

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths(self.dimensions, self.amounts, "amounts")


class BudgetReserved(Outcome, frozen=True, kw_only=True, tag="reserved"):
    """Held now, or by the same call before."""


class BudgetHeldByOthers(Outcome, frozen=True, kw_only=True, tag="held_by_others"):
    """It would fit if less were reserved: this is no breach, and may fit when others have settled."""

    dimension: str
    current_usage: int
    hard_limit: int


ReserveBudgetResult: TypeAlias = BudgetReserved | BudgetHeldByOthers | HardBreach | UsageAlreadyApplied


class SettleReservationArgs(Checked, frozen=True, kw_only=True):
    """End a reservation with what was really spent, which always counts; with nothing, all of it returns."""

    execution_id: ExecutionId
    budget_id: BudgetId
    reservation_id: ReservationId
    dimensions: Dimensions = ()
    amounts: Amounts = ()
    namespace: Namespace | None = None  # of the execution, as in ReportUsageArgs

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_lengths(self.dimensions, self.amounts, "amounts", at_least=0)


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A budget as it stands. A dimension that is not named has no limit, or nothing was used of it."""

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
    breached_at: TimestampMs | None = None  # None: not breached, or not any more
    on_hard_limit: str = OnHardLimit.REJECT
    on_soft_limit: str = ""
    reset_interval_ms: int = 0
    reset_count: int = 0
    last_reset_at: TimestampMs | None = None
    namespace: str | None = None  # whose it is; None: the store's own


class DueBudgetsReset(msgspec.Struct, frozen=True, kw_only=True):
    """Which were reset, and when the next one is due; None: none has an interval."""

    budget_ids: tuple[BudgetId, ...] = ()
    next_at_ms: TimestampMs | None = None
    now_ms: TimestampMs


class BudgetNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A limit was passed, and nobody has acted on it yet."""

    kind: Literal["soft", "hard"]
    budget_id: BudgetId
    dimension: str
    at_ms: TimestampMs

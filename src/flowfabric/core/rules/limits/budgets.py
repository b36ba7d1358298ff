"""Budgets: which amounts fit, which limits a spend crosses, and when a breach begins and ends (G10, D20).

One rule holds for every limit: an amount fits when used + held + amount is at most the limit. A dimension without an
entry has no limit. `lib/limits/budget.lua` and `lib/limits/spending.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from flowfabric.core import limits
from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.limits import budgets as c
from flowfabric.core.rules.outcome import Changes, Line, Refusal

Amounts: TypeAlias = Mapping[str, int]
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Budget:
    """The row of a budget with its limits and totals by dimension. Limits and held amounts of 0 have no entry."""

    hard: Amounts = field(default_factory=dict)
    soft: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    held: Amounts = field(default_factory=dict)
    on_hard_limit: c.OnHardLimit = c.OnHardLimit.REJECT
    breached_at: int | None = None
    last_breach_at: int | None = None
    last_breach_dim: str | None = None
    breach_count: int = 0
    soft_breach_count: int = 0
    reset_interval_ms: int = 0
    next_reset_at: int | None = None
    period: int = 0  # how often the budget was reset
    last_reset_at: int | None = None
    last_updated_at: int = 0

    @property
    def is_breached(self) -> bool:
        return self.breached_at is not None

    def taken(self, name: str) -> int:
        """The amount that counts against the limit: spent, or reserved."""
        return self.used.get(name, 0) + self.held.get(name, 0)

    def fits(self, name: str, amount: int) -> bool:
        return name not in self.hard or self.taken(name) + amount <= self.hard[name]

    def is_over(self, name: str, amount: int = 0) -> bool:
        """Whether the amount would not fit even without reservations."""
        return name in self.hard and self.used.get(name, 0) + amount > self.hard[name]

    def is_above_soft(self, name: str) -> bool:
        return name in self.soft and self.used.get(name, 0) > self.soft[name]


class Obstacle(NamedTuple):
    """Why no execution may start on a budget now."""

    dimension: str
    taken: int
    limit: int


@dataclass(frozen=True, slots=True)
class Spend(Generic[R_co]):
    """The answer to the caller, the changes of the budget's row, and the amounts for the execution's ledger.

    Every line of `changes.events` is also a notice that the engine acts on, once for each kind and dimension.
    """

    result: R_co
    changes: Changes = field(default_factory=Changes)
    counted: Amounts = field(default_factory=dict)


Reported: TypeAlias = Spend[c.ReportUsageResult]


class Counted(NamedTuple):
    """The effect of counting amounts: a dimension above its soft limit, one over its hard limit, and the changes."""

    soft: str | None
    over: str | None
    is_crossing: bool
    changes: Changes


def total(pairs: Iterable[tuple[str, int]]) -> Amounts:
    """The amounts by dimension, in order of first mention; amounts of a repeated dimension are added."""
    amounts: dict[str, int] = {}
    for name, amount in pairs:
        amounts[name] = amounts.get(name, 0) + amount
    return amounts


def obstacle(budget: Budget) -> Obstacle | None:
    """Why no execution may start on the budget, or None. With several full dimensions, any of them is named."""
    name = budget.last_breach_dim if budget.is_breached else None
    if name is None:
        name = next((each for each in budget.hard if not budget.fits(each, 1)), None)
    return None if name is None else Obstacle(name, budget.taken(name), budget.hard.get(name, 0))


def first_full(budget: Budget, amounts: Amounts) -> str | None:
    """The first dimension without room for its amount."""
    return next((name for name, amount in amounts.items() if not budget.fits(name, amount)), None)


def check_countable(budget: Budget, amounts: Amounts) -> Refusal | None:
    """Refuse totals that would no longer be exact, and more dimensions than a budget may have."""
    for name, amount in amounts.items():
        if budget.used.get(name, 0) + amount > limits.MAX_SAFE_INTEGER:
            return invalid(f"amount.{name}", amount, f"a total of at most {limits.MAX_SAFE_INTEGER}")
    count = len({*budget.used, *amounts})
    if count > limits.MAX_DIMENSIONS:
        return invalid("dimensions", count, f"at most {limits.MAX_DIMENSIONS} of one budget")
    return None


def invalid(name: str, value: object, problem: str) -> Refusal:
    return Refusal("invalid_input", {"field": name, "value": value, "problem": problem})


def count(budget: Budget, amounts: Amounts, now: int) -> Counted:
    """Add the amounts to the totals. Crossing a soft limit is one event."""
    used = {**budget.used, **{name: budget.used.get(name, 0) + amount for name, amount in amounts.items() if amount}}
    changes = Changes({"used": used, "last_updated_at": now})
    after = changes.apply_to(budget)
    above = [name for name in amounts if after.is_above_soft(name)]
    crossed = [name for name in above if not budget.is_above_soft(name)]
    over = next((name for name in amounts if after.is_over(name)), None)
    for name in crossed:
        changes |= pass_soft(changes.apply_to(budget), name)
    return Counted(next(iter(crossed or above), None), over, bool(crossed), changes)


def pass_soft(budget: Budget, name: str) -> Changes:
    return Changes({"soft_breach_count": budget.soft_breach_count + 1}, (_line(budget, "soft", name),))


def breach(budget: Budget, name: str, now: int) -> Changes:
    """Begin a breach. It is recorded once until it ends, however often the limit is hit."""
    if budget.is_breached:
        return Changes()
    fields = {
        "breached_at": now, "last_breach_at": now, "last_breach_dim": name, "last_updated_at": now,
        "breach_count": budget.breach_count + 1,
    }  # fmt: skip
    return Changes(fields, (_line(budget, "hard", name),))


def reopen(budget: Budget) -> Changes:
    """End the breach of a dimension. If another one is over its limit, the budget stays breached in that one."""
    for name in budget.hard:
        if budget.is_over(name):
            return Changes({"last_breach_dim": name}, (_line(budget, "hard", name),))
    return Changes({"breached_at": None})


def _line(budget: Budget, kind: str, name: str) -> Line:
    event = EventKind.BUDGET_SOFT_BREACHED if kind == "soft" else EventKind.BUDGET_HARD_BREACHED
    limit = budget.soft[name] if kind == "soft" else budget.hard[name]
    return Line(str(event), f"{name} {budget.used.get(name, 0)} of {limit}")


def hard_breach(budget: Budget, name: str, usage: int) -> c.HardBreach:
    return c.HardBreach(
        dimension=name, current_usage=usage, hard_limit=budget.hard.get(name, 0), on_hard_limit=budget.on_hard_limit
    )


def _counted_result(budget: Budget, counted: Counted) -> c.UsageCounted | c.SoftBreach:
    if counted.soft is None:
        return c.UsageCounted()
    return c.SoftBreach(
        dimension=counted.soft,
        current_usage=budget.used[counted.soft],
        soft_limit=budget.soft[counted.soft],
        is_crossing=counted.is_crossing,
    )


def report(
    budget: Budget, amounts: Amounts, now: int, *, is_repeated: bool = False
) -> Refusal | Spend[c.ReportUsageResult]:
    """Count usage if all of it fits; otherwise record only the breach."""
    if refusal := check_countable(budget, amounts):
        return refusal
    if is_repeated:
        return Spend(c.UsageAlreadyApplied())
    if blocked := _blocking_dimension(budget):
        return Spend(hard_breach(budget, blocked, budget.taken(blocked)))
    full = first_full(budget, amounts)
    if full is not None:
        changes = breach(budget, full, now) if budget.is_over(full, amounts[full]) else Changes()
        return Spend(hard_breach(budget, full, budget.taken(full)), changes)
    counted = count(budget, amounts, now)
    return Spend(_counted_result(counted.changes.apply_to(budget), counted), counted.changes, amounts)


def _blocking_dimension(budget: Budget) -> str | None:
    """With `block`, a breached budget refuses every report and reservation, whether or not it would fit."""
    return budget.last_breach_dim if budget.is_breached and budget.on_hard_limit is c.OnHardLimit.BLOCK else None


def spend(
    budget: Budget, amounts: Amounts, now: int, *, is_repeated: bool = False
) -> Refusal | Spend[c.ReportUsageResult]:
    """Count actual spend regardless of the limits (G10)."""
    if refusal := check_countable(budget, amounts):
        return refusal
    return Spend(c.UsageAlreadyApplied()) if is_repeated else record(budget, amounts, now)


def record(budget: Budget, amounts: Amounts, now: int) -> Spend[c.UsageCounted | c.SoftBreach | c.HardBreach]:
    counted = count(budget, amounts, now)
    after = counted.changes.apply_to(budget)
    if counted.over is None:
        return Spend(_counted_result(after, counted), counted.changes, amounts)
    result = hard_breach(after, counted.over, after.used[counted.over])
    return Spend(result, counted.changes | breach(after, counted.over, now), amounts)


def release(budget: Budget, spent: Amounts) -> Spend[c.ReleaseBudgetResult]:
    """Refund what an execution has spent in this period; `spent` is its ledger, which is deleted."""
    if not spent:
        return Spend(c.NothingToRelease())
    given_back = {name: max(0, budget.used.get(name, 0) - amount) for name, amount in spent.items()}
    changes = Changes({"used": {**budget.used, **given_back}})
    if budget.is_breached and budget.last_breach_dim in spent:
        changes |= reopen(changes.apply_to(budget))
    return Spend(c.BudgetReleased(), changes)


class Limit(NamedTuple):
    """The limits of one dimension; 0 means no limit."""

    name: str
    hard: int
    soft: int


def set_limits(budget: Budget, wanted: Iterable[Limit], now: int) -> Refusal | Spend[c.BudgetLimitsSet]:
    """Change limits while the budget is in use. A raise ends the breach of its dimension."""
    listed = list(wanted)
    lifted = {each.name for each in listed if not each.hard and not each.soft}
    kept = len({*budget.hard, *budget.soft, *(each.name for each in listed)} - lifted)
    if kept > limits.MAX_DIMENSIONS:
        return invalid("dimensions", kept, f"at most {limits.MAX_DIMENSIONS} of one budget")
    changes = Changes({"last_updated_at": now})
    for each in listed:
        changes |= _set_limit(changes.apply_to(budget), each)
    after = changes.apply_to(budget)
    over = next((name for name in after.hard if after.is_over(name)), None)
    if over is not None:
        changes |= breach(after, over, now)
    return Spend(c.BudgetLimitsSet(is_open=obstacle(changes.apply_to(budget)) is None), changes)


def _set_limit(budget: Budget, wanted: Limit) -> Changes:
    name, before = wanted.name, budget.hard.get(wanted.name)
    changes = Changes({"hard": _with(budget.hard, name, wanted.hard), "soft": _with(budget.soft, name, wanted.soft)})
    after = changes.apply_to(budget)
    if after.is_above_soft(name) and not budget.is_above_soft(name):
        changes |= pass_soft(after, name)
    is_raised = before is not None and (not wanted.hard or wanted.hard > before)
    if is_raised and budget.is_breached and budget.last_breach_dim == name:
        changes |= reopen(changes.apply_to(budget))
    return changes


def _with(amounts: Amounts, name: str, amount: int) -> Amounts:
    rest = {each: value for each, value in amounts.items() if each != name}
    return {**rest, name: amount} if amount else rest

"""The periods of a budget, from one reset to the next. `lib/limits/period.lua` states the same rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowfabric.core.rules.limits import budgets
from flowfabric.core.rules.limits.budgets import Amounts, Budget
from flowfabric.core.rules.outcome import Changes


@dataclass(frozen=True, slots=True)
class Ledger:
    """The amounts one execution has spent on a budget in one period."""

    period: int = 0
    amounts: Amounts = field(default_factory=dict)

    def spent(self, budget: Budget) -> Amounts:
        """A reset begins a new period, in which earlier spend does not count."""
        return self.amounts if self.period == budget.period else {}

    def add(self, budget: Budget, amounts: Amounts) -> Ledger:
        before = self.spent(budget)
        added = {name: before.get(name, 0) + amount for name, amount in amounts.items() if amount}
        return Ledger(budget.period, {**before, **added})


def next_due(budget: Budget, now: int) -> int | None:
    """The next reset after a due one: on the schedule, even when late. None: by hand only."""
    interval = budget.reset_interval_ms
    if interval <= 0:
        return None
    due = now if budget.next_reset_at is None else budget.next_reset_at
    return due if due > now else due + interval * ((now - due) // interval + 1)


def begin(budget: Budget, now: int, next_at: int | None) -> Changes:
    """Begin a new period: totals are 0, a breach ends, open reservations stay."""
    changes = Changes({
        "used": dict.fromkeys(budget.used, 0), "period": budget.period + 1, "last_reset_at": now,
        "last_updated_at": now, "next_reset_at": next_at,
    })  # fmt: skip
    changes |= budgets.reopen(changes.apply_to(budget))
    return changes | Changes({"last_breach_at": None, "last_breach_dim": None})


def reset(budget: Budget, now: int) -> Changes:
    """A reset by hand: the next one is an interval away."""
    return begin(budget, now, now + budget.reset_interval_ms if budget.reset_interval_ms else None)


def reset_if_due(budget: Budget, now: int) -> Changes | None:
    """The scheduled reset; None while it is not due."""
    if budget.next_reset_at is not None and budget.next_reset_at > now:
        return None
    return begin(budget, now, next_due(budget, now))

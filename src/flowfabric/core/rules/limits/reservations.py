"""Reservations: amounts reserved on a budget before they are spent, until they are settled or returned.

An execution's reservations on one budget are loaded together. `lib/limits/reservation.lua` states the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from flowfabric.core import limits
from flowfabric.core.contracts.limits import budgets as c
from flowfabric.core.rules.limits import budgets
from flowfabric.core.rules.limits.budgets import Amounts, Budget, Spend
from flowfabric.core.rules.outcome import Changes, Refusal

MEASURED = ("wall_time_ms", "attempts")  # counted by the store itself on budgets that limit them


class Hold(NamedTuple):
    """One reservation, and the epoch of the lease that made it. used: the totals that were reported so far."""

    epoch: int
    amounts: Amounts
    on_crash: c.OnCrash = c.OnCrash.RETURN
    used: Amounts = MappingProxyType({})

    def note(self, spent: Amounts) -> Hold:
        """Totals only grow, so reports may arrive in any order."""
        return self._replace(used={**self.used, **{name: max(n, self.used.get(name, 0)) for name, n in spent.items()}})

    @property
    def crash_spend(self) -> dict[str, int]:
        """What counts if the attempt ends without settling it."""
        spent = dict(self.amounts) if self.on_crash is c.OnCrash.SPEND else {}
        for name, amount in self.used.items():
            spent[name] = max(amount, spent.get(name, 0))
        return {name: amount for name, amount in spent.items() if amount}


Holds: TypeAlias = Mapping[str, Hold]


@dataclass(frozen=True, slots=True)
class Settlement(Spend[c.ReportUsageResult]):
    """A spend that also ends reservations. crashed: what counted for those that were not settled."""

    dropped: tuple[str, ...] = field(default=())
    crashed: Mapping[str, Amounts] = field(default_factory=dict)


def reserve(
    budget: Budget, holds: Holds, reservation_id: str, wanted: Hold, now: int, *,
    closed_epoch: int = -1, is_settled: bool = False,
) -> Refusal | Spend[c.ReserveBudgetResult]:  # fmt: skip
    """Reserve all amounts or none. closed_epoch: the last lease of the execution that may no longer reserve."""
    if is_settled:
        return Spend(c.UsageAlreadyApplied())
    if reservation_id in holds:
        return Spend(c.BudgetReserved())
    if wanted.epoch <= closed_epoch:
        return Refusal("stale_lease")
    if len(holds) >= limits.MAX_OPEN_RESERVATIONS:
        return budgets.invalid("reservation_id", reservation_id, f"at most {limits.MAX_OPEN_RESERVATIONS} open at once")
    full = budgets.first_full(budget, wanted.amounts)
    is_blocked = full is None and budget.is_breached and budget.on_hard_limit is c.OnHardLimit.BLOCK
    name = budget.last_breach_dim if is_blocked else full
    if name is not None:
        return _refused(budget, name, now, is_over=full is not None and budget.is_over(full, wanted.amounts[full]))
    return Spend(c.BudgetReserved(), _change_held(budget, wanted.amounts, 1))


def _refused(budget: Budget, name: str, now: int, *, is_over: bool) -> Spend[c.ReserveBudgetResult]:
    changes = budgets.breach(budget, name, now) if is_over else Changes()
    if is_over or budget.is_breached:
        return Spend(budgets.hard_breach(budget, name, budget.taken(name)), changes)
    limit = budget.hard.get(name, 0)
    return Spend(c.BudgetHeldByOthers(dimension=name, current_usage=budget.taken(name), hard_limit=limit))


def _change_held(budget: Budget, amounts: Amounts, sign: int) -> Changes:
    held = {**budget.held}
    for name, amount in amounts.items():
        held[name] = max(0, held.get(name, 0) + sign * amount)
    return Changes({"held": {name: amount for name, amount in held.items() if amount}})


def settle(
    budget: Budget, holds: Holds, reservation_id: str, spent: Amounts, now: int, *,
    is_settled: bool = False, crashed: Amounts | None = None,
) -> Refusal | Settlement:  # fmt: skip
    """End a reservation with the actual spend, which always counts, once.

    crashed: what counted for it when its lease ended; a worker that settles it later adds the difference.
    """
    spent = {name: max(0, amount - (crashed or {}).get(name, 0)) for name, amount in spent.items()}
    if refusal := budgets.check_countable(budget, spent):
        return refusal
    if is_settled:
        return Settlement(c.UsageAlreadyApplied())
    dropped = (reservation_id,) if reservation_id in holds else ()
    changes = drop(budget, holds, dropped)
    step = budgets.record(changes.apply_to(budget), spent, now)
    return Settlement(step.result, changes | step.changes, step.counted, dropped)


def drop(budget: Budget, holds: Holds, reservation_ids: tuple[str, ...]) -> Changes:
    """Release some reservations."""
    changes = Changes()
    for each in reservation_ids:
        changes |= _change_held(changes.apply_to(budget), holds[each].amounts, -1)
    return changes


def end_stretch(
    budget: Budget, holds: Holds, epoch: int, measured: Amounts, now: int, *,
    is_repeated: bool = False, continues: bool = False,
) -> Settlement:  # fmt: skip
    """A lease has ended: return its open reservations, and count the measured amounts, once, and what was used.

    continues: the attempt has not ended, so it will report again what it used.
    """
    left = tuple(each for each, hold in holds.items() if hold.epoch <= epoch)
    changes = drop(budget, holds, left)
    limited = {*budget.hard, *budget.soft}
    counted = {name: measured[name] for name in MEASURED if name in limited and measured.get(name, 0) > 0}
    spends = {} if continues else {each: spent for each in left if (spent := holds[each].crash_spend)}
    spent = _total({} if is_repeated else counted, spends)
    if not spent:
        return Settlement(c.UsageCounted(), changes, {}, left)
    step = budgets.record(changes.apply_to(budget), spent, now)
    return Settlement(step.result, changes | step.changes, spent, left, spends)


def _total(counted: Amounts, spends: Mapping[str, Amounts]) -> dict[str, int]:
    """The sum, the measured amounts first and then the others by name: the first one over its limit is reported."""
    total = dict.fromkeys((*counted, *sorted({name for each in spends.values() for name in each})), 0)
    for each in (counted, *spends.values()):
        for name, amount in each.items():
            total[name] += amount
    return total

"""Limits in memory: one budget and the lives that spend on it; `core/rules` decides, the model keeps the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from flowfabric.core import contracts as c
from flowfabric.core.rules.limits import budgets, periods, reservations
from flowfabric.core.rules.limits.budgets import Spend
from flowfabric.core.rules.limits.periods import Ledger
from flowfabric.core.rules.limits.reservations import Hold, Settlement
from flowfabric.core.rules.outcome import Changes, Refusal

R = TypeVar("R")
MANY = 10**6
SOFT, HARD = str(c.EventKind.BUDGET_SOFT_BREACHED), str(c.EventKind.BUDGET_HARD_BREACHED)


@dataclass
class Stream:
    """The frames of one attempt; once it has ended, why."""

    frames: list[bytes] = field(default_factory=list)
    closed: str | None = None


@dataclass
class Life:
    """One execution: `pending` until a claim may get it, whether or not a limit keeps it from that."""

    has_budget: bool
    has_quota: bool
    state: str = "pending"  # or delayed, running, completed, failed, cancelled
    is_interrupted: bool = False  # the next claim goes on with the same attempt
    due_at: int = 0
    is_resumed: bool = False
    has_reserved: bool = False  # under this lease, or tried to
    numbered: int = 0  # frames that were sent in batches under this lease
    streams: list[Stream] = field(default_factory=list)

    @property
    def is_ended(self) -> bool:
        return self.state in ("completed", "failed", "cancelled")

    def start(self) -> None:
        self.is_resumed = self.is_interrupted
        if not self.is_interrupted:
            self.streams.append(Stream())
        self.state, self.is_interrupted, self.has_reserved, self.numbered = "running", False, False, 0

    def stop(self, state: str, closed: str | None, due_at: int = 0) -> None:
        """closed: why the attempt is over; None when it goes on."""
        was_open = self.state == "running" or self.is_interrupted
        self.state, self.is_interrupted, self.due_at = state, closed is None, due_at
        if was_open and closed:
            self.streams[-1].closed = closed


@dataclass
class Debt:
    """What the end of a stretch of running owes to the budget; the store's list says whether it was paid."""

    who: str
    epoch: int
    attempts: int
    has_reserved: bool
    continues: bool  # the attempt has not ended


class Budget:
    """One budget in memory, which `core/rules` decides about: tokens with limits, and attempts, which are counted."""

    def __init__(self, hard: int, soft: int) -> None:
        self.row = budgets.Budget(hard={"tokens": hard, "attempts": MANY}, soft={"tokens": soft})
        self.ledgers: dict[str, Ledger] = {}
        self.holds: dict[str, dict[str, Hold]] = {}  # by execution
        self.closed: dict[str, int] = {}  # the last lease epoch of each execution that may hold nothing any more
        self.seen: set[str] = set()  # keys of reports, and reservations that were settled
        self.crashed: dict[str, Mapping[str, int]] = {}  # what counted for reservations that were not settled
        self.told: list[tuple[str, str]] = []  # the lines of the event log

    @property
    def is_open(self) -> bool:
        return budgets.obstacle(self.row) is None

    @property
    def soft_limit(self) -> int:
        return self.row.soft.get("tokens", 0)

    def spent_by(self, who: str) -> Counter[str]:
        return +Counter(self.ledgers.get(who, Ledger()).spent(self.row))

    def apply(self, changes: Changes) -> None:
        self.row = changes.apply_to(self.row)
        self.told += [(line.event, line.outcome) for line in changes.events]

    def take(self, step: Refusal | Spend[R], who: str | None = None, key: str | None = None) -> R:
        """Write what a rule decided, and answer what its caller is told."""
        assert not isinstance(step, Refusal), step
        self.apply(step.changes)
        if who and step.counted:
            self.ledgers[who] = self.ledgers.get(who, Ledger()).add(self.row, step.counted)
        if key and step.counted:
            self.seen.add(key)
        return step.result

    def report(self, amount: int, who: str | None, key: str | None, now: int) -> c.ReportUsageResult:
        step = budgets.report(self.row, {"tokens": amount}, now, is_repeated=key in self.seen)
        return self.take(step, who, key)

    def spend(self, amount: int, who: str | None, key: str | None, now: int) -> c.ReportUsageResult:
        return self.take(budgets.spend(self.row, {"tokens": amount}, now, is_repeated=key in self.seen), who, key)

    def reserve(
        self, reservation_id: str, who: str, epoch: int, amount: int, now: int, on_crash: c.OnCrash
    ) -> c.ReserveBudgetResult:
        held, wanted = self.holds.setdefault(who, {}), Hold(epoch, {"tokens": amount}, on_crash)
        step = reservations.reserve(
            self.row, held, reservation_id, wanted, now,
            closed_epoch=self.closed.get(who, -1), is_settled=reservation_id in self.seen,
        )  # fmt: skip
        result = self.take(step)
        if isinstance(result, c.BudgetReserved):
            held[reservation_id] = wanted
        return result

    def settle(self, reservation_id: str, amount: int, who: str, now: int) -> c.ReportUsageResult:
        held = self.holds.get(who, {})
        step = reservations.settle(
            self.row, held, reservation_id, {"tokens": amount}, now, is_settled=reservation_id in self.seen,
            crashed=self.crashed.pop(reservation_id, None),
        )  # fmt: skip
        result = self.take(step, who, reservation_id)
        self.drop(held, step)
        return result

    def note(self, reservation_id: str, amount: int, who: str) -> None:
        held = self.holds.get(who, {})
        if reservation_id in held:
            held[reservation_id] = held[reservation_id].note({"tokens": amount})

    @staticmethod
    def drop(held: dict[str, Hold], step: Refusal | Settlement) -> None:
        assert isinstance(step, Settlement)
        for each in step.dropped:
            del held[each]

    def give_back(self, who: str) -> c.ReleaseBudgetResult:
        result = self.take(budgets.release(self.row, self.spent_by(who)))
        self.ledgers.pop(who, None)
        return result

    def reset(self, now: int) -> None:
        self.apply(periods.reset(self.row, now))

    def limit(self, hard: int, soft: int, now: int) -> c.BudgetLimitsSet:
        return self.take(budgets.set_limits(self.row, [budgets.Limit("tokens", hard, soft)], now))

    def pay(self, debt: Debt, now: int) -> None:
        """The holds that a lease has left open return, and its attempt is counted."""
        held = self.holds.get(debt.who, {})
        step = reservations.end_stretch(
            self.row, held, debt.epoch, {"attempts": debt.attempts}, now, continues=debt.continues
        )
        self.crashed |= step.crashed
        if debt.has_reserved:
            self.closed[debt.who] = max(debt.epoch, self.closed.get(debt.who, -1))
        self.take(step, debt.who)
        self.drop(held, step)

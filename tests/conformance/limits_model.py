"""A naive idea of limits in memory: one budget, one quota, and lives that emit frames between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from flowfabric.core import contracts as c
from flowfabric.core.ids import ReservationId

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


@dataclass
class Hold:
    who: str
    epoch: int
    amount: int


@dataclass
class Budget:
    """Tokens, with limits, and attempts, which are only counted. A limit of 0 is none."""

    hard: int
    soft: int
    used: int = 0
    attempts: int = 0
    is_breached: bool = False
    ledgers: dict[str, Counter[str]] = field(default_factory=dict)
    holds: dict[ReservationId, Hold] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)  # keys of reports, and reservations that were settled
    told: list[tuple[str, str]] = field(default_factory=list)  # what the event log says

    @property
    def held(self) -> int:
        return sum(each.amount for each in self.holds.values())

    @property
    def taken(self) -> int:
        return self.used + self.held

    @property
    def is_open(self) -> bool:
        return not self.is_breached and self.fits(1)

    def fits(self, amount: int) -> bool:
        return not self.hard or self.taken + amount <= self.hard

    def is_over(self, amount: int = 0) -> bool:
        return self.hard > 0 and self.used + amount > self.hard

    @property
    def is_above_soft(self) -> bool:
        return 0 < self.soft < self.used

    def tell(self, kind: str) -> None:
        self.told.append((kind, f"tokens {self.used} of {self.soft if kind == SOFT else self.hard}"))

    def breach(self) -> None:
        if not self.is_breached:
            self.is_breached = True
            self.tell(HARD)

    def reopen(self) -> None:
        self.is_breached = self.is_over()
        if self.is_breached:
            self.tell(HARD)

    def count(self, amount: int, who: str | None, key: str | None) -> bool:
        """Whether the soft limit was passed by it."""
        was_above = self.is_above_soft
        self.used += amount
        if who:
            self.ledgers.setdefault(who, Counter()).update(tokens=amount)
        if key:
            self.seen.add(key)
        if self.is_above_soft and not was_above:
            self.tell(SOFT)
            return True
        return False

    def counted(self, *, is_crossing: bool) -> c.ReportUsageResult:
        if self.is_above_soft:
            return c.SoftBreach(
                dimension="tokens", current_usage=self.used, soft_limit=self.soft, is_crossing=is_crossing
            )
        return c.UsageCounted()

    def refused(self, usage: int) -> c.HardBreach:
        return c.HardBreach(dimension="tokens", current_usage=usage, hard_limit=self.hard)

    def report(self, amount: int, who: str | None, key: str | None) -> c.ReportUsageResult:
        """Only if it fits."""
        if key in self.seen:
            return c.UsageAlreadyApplied()
        if not self.fits(amount):
            if self.is_over(amount):
                self.breach()
            return self.refused(self.taken)
        return self.counted(is_crossing=self.count(amount, who, key))

    def spend(self, amount: int, who: str | None, key: str | None) -> c.ReportUsageResult:
        """Whatever the limits."""
        if key in self.seen:
            return c.UsageAlreadyApplied()
        is_crossing = self.count(amount, who, key)
        if self.is_over():
            self.breach()
            return self.refused(self.used)
        return self.counted(is_crossing=is_crossing)

    def reserve(self, reservation_id: ReservationId, hold: Hold) -> c.ReserveBudgetResult:
        if self.fits(hold.amount):
            self.holds[reservation_id] = hold
            return c.BudgetReserved()
        if self.is_over(hold.amount):
            self.breach()
        if self.is_breached:
            return self.refused(self.taken)
        return c.BudgetHeldByOthers(dimension="tokens", current_usage=self.taken, hard_limit=self.hard)

    def settle(self, reservation_id: ReservationId, amount: int, who: str) -> c.ReportUsageResult:
        if reservation_id not in self.seen:
            self.holds.pop(reservation_id, None)
        return self.spend(amount, who, reservation_id)

    def give_back(self, who: str) -> c.ReleaseBudgetResult:
        spent = self.ledgers.pop(who, None)
        if not spent:
            return c.NothingToRelease()
        self.used -= spent["tokens"]
        self.attempts -= spent["attempts"]
        if self.is_breached and spent["tokens"]:
            self.reopen()
        return c.BudgetReleased()

    def reset(self) -> None:
        self.used = self.attempts = 0
        self.ledgers.clear()
        self.is_breached = False

    def limit(self, hard: int, soft: int) -> c.BudgetLimitsSet:
        was_above, before = self.is_above_soft, self.hard
        self.hard, self.soft = hard, soft
        if self.is_above_soft and not was_above:
            self.tell(SOFT)
        if self.is_breached and before and (not hard or hard > before):
            self.reopen()
        if self.is_over():
            self.breach()
        return c.BudgetLimitsSet(is_open=self.is_open)

    def pay(self, debt: Debt) -> None:
        """What a lease has left open returns, and its attempt is counted."""
        left = [each for each, hold in self.holds.items() if hold.who == debt.who and hold.epoch <= debt.epoch]
        for reservation_id in left:
            del self.holds[reservation_id]
        if debt.attempts:
            self.attempts += 1
            self.ledgers.setdefault(debt.who, Counter()).update(attempts=1)

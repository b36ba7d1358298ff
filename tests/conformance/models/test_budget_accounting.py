"""The books balance: whatever is reported, repeated, reserved, settled, released, reset, lost or drained twice, the
totals and every ledger are the sums of what was accepted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ReservationId
from flowfabric.core.partition import Partition, PartitionFamily
from tests.conformance.driver import BACKOFF, Driver, Subject
from tests.conformance.limiting import Limits
from tests.soaking import lives
from tests.stores.batched import partition_of
from tests.stores.probe import Store

pytestmark = pytest.mark.every_store

NAMES = ("tokens", "calls")
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 40), min_size=1)
dedups = st.none() | st.sampled_from(["a", "b", "c"])
who = st.integers(0, 1)


class Books(RuleBasedStateMachine):
    """Two executions spend on one budget, whose limits move, while leases are lost and drains come twice."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.probe = self.run(self.store.open())
        self.backend = self.probe.backend
        self.driver = Driver(self.probe)
        self.limits = Limits(self.driver)
        self.hard = Counter(tokens=100, calls=60, attempts=10**6)
        self.used: Counter[str] = Counter()
        self.ledgers: list[Counter[str]] = [Counter(), Counter()]
        self.seen: set[str] = set()
        self.holds: dict[ReservationId, tuple[int, int, dict[str, int]]] = {}
        self.settled: list[ReservationId] = []
        self.owed: list[tuple[int, int]] = []
        self.noted = [False, False]

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    def teardown(self) -> None:
        self.run(self.probe.close())
        self.runner.close()

    @initialize()
    def begin(self) -> None:
        self.budget_id = self.run(self.limits.budget(dict(self.hard)))
        self.subjects = [self.run(self.start()) for _ in range(2)]

    async def start(self) -> Subject:
        return await self.again(await self.driver.create(execution_deadline_at=None))

    async def again(self, x: Subject) -> Subject:
        """A lease that ends only when the test says so."""
        return await self.driver.run(x, attempt_timeout_ms=None, lease_ttl_ms=86_400_000)

    @property
    def held(self) -> Counter[str]:
        return sum((Counter(held) for _, _, held in self.holds.values()), Counter())

    def fits(self, deltas: dict[str, int]) -> bool:
        taken = self.used + self.held
        return all(not self.hard[name] or taken[name] + delta <= self.hard[name] for name, delta in deltas.items())

    def count(self, deltas: dict[str, int], at: int | None) -> None:
        self.used.update(deltas)
        if at is not None:
            self.ledgers[at].update(deltas)

    @rule(at=who, deltas=amounts, dedup=dedups)
    def report(self, at: int, deltas: dict[str, int], dedup: str | None) -> None:
        args = c.ReportUsageArgs(
            budget_id=self.budget_id, execution_id=self.subjects[at].execution_id, dimensions=tuple(deltas),
            deltas=tuple(deltas.values()), dedup_key=dedup,
        )  # fmt: skip
        result = self.run(self.backend.report_usage_and_check(args))
        self.compare(result, deltas, dedup, at, is_refused=not self.fits(deltas))

    @rule(at=st.none() | who, deltas=amounts, dedup=dedups)
    def spend(self, at: int | None, deltas: dict[str, int], dedup: str | None) -> None:
        x = self.subjects[at] if at is not None else None
        result = self.run(self.limits.spend(self.budget_id, x, dedup, **deltas))
        self.compare(result, deltas, dedup, at, is_refused=False)

    def compare(
        self,
        result: c.ReportUsageResult,
        deltas: dict[str, int],
        dedup: str | None,
        at: int | None,
        *,
        is_refused: bool,
    ) -> None:
        if dedup in self.seen:
            assert result == c.UsageAlreadyApplied()
            return
        if is_refused:
            assert isinstance(result, c.HardBreach)
            return
        assert not isinstance(result, c.UsageAlreadyApplied)
        self.count(deltas, at)
        if dedup:
            self.seen.add(dedup)

    @rule(at=who, deltas=amounts)
    def reserve(self, at: int, deltas: dict[str, int]) -> None:
        x = self.subjects[at]
        reservation_id, result = self.run(
            self.limits.reserve(self.budget_id, x, None, on_crash=c.OnCrash.RETURN, **deltas)
        )
        self.noted[at] = True
        assert isinstance(result, c.BudgetReserved) == self.fits(deltas)
        if isinstance(result, c.BudgetReserved):
            self.holds[reservation_id] = (at, x.fence.lease_epoch, deltas)
            self.run(self.limits.reserve(self.budget_id, x, reservation_id, on_crash=c.OnCrash.RETURN, **deltas))

    @rule(which=st.integers(0, 63), deltas=amounts)
    def settle(self, which: int, deltas: dict[str, int]) -> None:
        """One that is open, or was settled before."""
        known = [*self.holds, *self.settled]
        if not known:
            return
        reservation_id = known[which % len(known)]
        at = self.holds[reservation_id][0] if reservation_id in self.holds else 0
        result = self.run(self.limits.settle(self.budget_id, self.subjects[at], reservation_id, **deltas))
        if reservation_id in self.settled:
            assert result == c.UsageAlreadyApplied()
            return
        del self.holds[reservation_id]
        self.settled.append(reservation_id)
        self.count(deltas, at)

    @rule(at=who)
    def release(self, at: int) -> None:
        result = self.run(self.limits.release(self.budget_id, self.subjects[at]))
        spent = self.ledgers[at]
        assert (result == c.BudgetReleased()) == bool(+spent)
        self.used.subtract(spent)
        self.ledgers[at] = Counter()

    @rule()
    def reset(self) -> None:
        self.run(self.limits.reset(self.budget_id))
        self.used, self.ledgers = Counter(), [Counter(), Counter()]

    @rule(name=st.sampled_from(NAMES), hard=st.integers(0, 150))
    def limit(self, name: str, hard: int) -> None:
        self.run(self.limits.limit(self.budget_id, **{name: hard}))
        self.hard[name] = hard

    @rule(at=who, is_lost=st.booleans())
    def end_and_run_again(self, at: int, is_lost: bool) -> None:
        """The worker fails, or is killed; another one goes on."""
        x = self.subjects[at]
        if self.noted[at]:
            self.owed.append((at, x.fence.lease_epoch))
            if self.store.name == "batched" and not is_lost:
                self.pay()  # a finish call of the batch surface brings what it owes by itself
        self.noted[at] = False
        self.run(self.lose(x) if is_lost else self.retry(x))
        self.run(self.again(x))

    async def lose(self, x: Subject) -> None:
        await self.driver.revoke(x)
        partition = Partition(PartitionFamily.FLOW, x.execution_id.partition_index)
        await self.backend.run_due_work(b.RunDueWorkArgs(partition=partition))

    async def retry(self, x: Subject) -> None:
        await self.driver.fail(x, retry=True)
        await self.driver.clock.advance(BACKOFF)
        await self.driver.promote(x)

    @rule()
    def drain(self) -> None:
        self.run(self.limits.drain())
        self.pay()

    @rule()
    def drain_and_die(self) -> None:
        """What was owed is paid, and the one who paid it is killed before it is taken off the list."""
        self.run(self.pay_only())
        self.pay()

    async def pay_only(self) -> None:
        await self.probe.pay_and_die(partition_of(self.subjects[0].execution_id), self.budget_id)

    def pay(self) -> None:
        for at, epoch in self.owed:
            self.count({"attempts": 1}, at)
            gone = [each for each, (whose, made, _) in self.holds.items() if (whose, made) == (at, epoch)]
            for reservation_id in gone:
                del self.holds[reservation_id]
        self.owed = []

    @invariant()
    def the_books_balance(self) -> None:
        if not hasattr(self, "subjects"):
            return
        status = self.run(self.limits.status(self.budget_id))
        assert +Counter(status.usage) == +self.used
        assert +Counter(status.reserved) == +self.held
        for x, ledger in zip(self.subjects, self.ledgers, strict=True):
            found = self.run(self.backend.get_budget_ledger(self.budget_id, x.execution_id))
            assert +Counter(found) == +ledger
        over = [name for name in self.hard if self.hard[name] and self.used[name] > self.hard[name]]
        assert not over or status.breached_at is not None


def test_the_totals_are_the_sums_of_what_was_accepted(store: Store) -> None:
    machine = type("Books", (Books,), {"store": store})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=lives(store, 30, soak=200),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

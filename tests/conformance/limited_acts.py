"""What happens to executions with limits: acts that are made on the store and on the model alike, and compared."""

from __future__ import annotations

import random

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, ReservationId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import Conflict
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, WORKER, Driver, Subject
from tests.conformance.limiting import Limits
from tests.conformance.limits_model import Budget, Debt, Life
from tests.conformance.streaming import append_many, many

DAY = 86_400_000
# By then every limit that somebody waits for was looked at again, and every delay is over.
LONG = 60_000


class LimitedActs:
    """Workers, people and the engine on executions of one lane, with one budget and one quota."""

    def __init__(self, driver: Driver, chance: random.Random) -> None:
        self.driver, self.backend, self.limits = driver, driver.backend, Limits(driver)
        self.chance = chance
        self.lives: dict[ExecutionId, Life] = {}
        self.subjects: dict[ExecutionId, Subject] = {}
        self.debts: list[Debt] = []
        self.reservations: list[tuple[ReservationId, ExecutionId]] = []
        self.emitted = 0
        self.guests: list[Subject] = []  # whom another scheduler has let in
        self.budget, self.cap = Budget(hard=100, soft=60), 2

    async def begin(self) -> None:
        row = self.budget.row
        self.budget_id = await self.limits.budget(dict(row.hard), dict(row.soft), scope_type=None, scope_id=None)
        self.quota_id = await self.limits.quota(max_concurrent=self.cap)

    @property
    def now(self) -> int:
        return self.driver.clock.now_ms

    @property
    def partition(self) -> Partition:
        return Partition(PartitionFamily.FLOW, self.driver.mint().partition_index)

    def of(self, *states: str) -> list[ExecutionId]:
        return [each for each, life in self.lives.items() if life.state in states]

    def pick(self, *states: str) -> Subject | None:
        """One of those in these states, or None."""
        found = self.of(*states)
        return self.subjects[self.chance.choice(found)] if found else None

    # What workers do.

    async def submit(self, *, has_budget: bool, has_quota: bool) -> None:
        budgets, quotas = (self.budget_id,) * has_budget, (self.quota_id,) * has_quota
        x = await self.limits.submit(budgets=budgets, quotas=quotas, execution_deadline_at=None)
        self.subjects[x.execution_id], self.lives[x.execution_id] = x, Life(has_budget, has_quota)

    async def take(self, count: int) -> list[ExecutionId]:
        return self.started(await self.driver.take(count, lease_ttl_ms=DAY))

    def started(self, taken: list[Subject]) -> list[ExecutionId]:
        """Nothing runs that must not: it waited, its budget is open, and there is a slot for it."""
        for x in taken:
            life = self.lives[x.execution_id]
            assert life.state == "pending"
            assert self.budget.is_open or not life.has_budget
            life.start()
            assert x.attempt_index == len(life.streams) - 1
            self.subjects[x.execution_id] = x
        if any(self.lives[x.execution_id].has_quota for x in taken):
            assert self.slots_in_use <= self.cap
        return [x.execution_id for x in taken]

    @property
    def slots_in_use(self) -> int:
        return sum(life.state == "running" and life.has_quota for life in self.lives.values()) + len(self.guests)

    async def complete(self, x: Subject) -> None:
        await self.driver.complete(x)
        self.stopped(x, "completed", "attempt_success")

    async def complete_and_take(self, x: Subject, count: int) -> None:
        """The slot may pass on within the call."""
        asked = b.ClaimExecutionsArgs(
            lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=DAY, count=count
        )
        done = c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence, result_payload=b"")
        args = b.FinishExecutionsArgs(partition=self.partition, finish=(done,), claim=asked)
        result = await self.backend.finish_executions(args)
        self.stopped(x, "completed", "attempt_success")
        await self.pay_what_was_paid()
        self.started([self.driver.held(work) for work in result.claimed])

    async def fail(self, x: Subject, *, retry: bool) -> None:
        await self.driver.fail(x, retry=retry)
        self.stopped(x, "delayed" if retry else "failed", "attempt_failure", self.now + BACKOFF)

    async def delay(self, x: Subject) -> None:
        await self.driver.delay(x, self.now + BACKOFF)
        self.stopped(x, "delayed", None, self.now + BACKOFF)

    async def cancel(self, x: Subject) -> None:
        await self.driver.cancel(x)
        self.stopped(x, "cancelled", "attempt_cancelled")

    async def lose(self, x: Subject) -> None:
        """Its worker is gone, and the engine puts it back into the queue."""
        await self.driver.revoke(x)
        self.stopped(x, "pending", "lease_revoked")
        await self.run_due_work()

    def stopped(self, x: Subject, state: str, closed: str | None, due_at: int = 0) -> None:
        life = self.lives[x.execution_id]
        if life.state == "running" and (life.has_budget or life.has_reserved):
            attempts = int(not life.is_resumed)
            continues = state in ("delayed", "suspended") and closed is None
            self.debts.append(Debt(x.execution_id, x.fence.lease_epoch, attempts, life.has_reserved, continues))
        life.stop(state, closed, due_at)

    async def emit(self, x: Subject, count: int) -> None:
        for _ in range(count):
            payload = self.next_payload()
            await self.driver.append(x, payload)
            self.lives[x.execution_id].streams[-1].frames.append(payload)

    async def emit_together(self, x: Subject, count: int) -> None:
        """In one call whose answer is lost, so that it comes again; the next one must not overtake it."""
        life = self.lives[x.execution_id]
        payloads = [self.next_payload() for _ in range(count)]
        with pytest.raises(Conflict):
            await append_many(self.driver, many(x, life.numbered + 1, *payloads))
        for _ in range(2):
            await append_many(self.driver, many(x, life.numbered, *payloads))
        life.numbered += count
        life.streams[-1].frames += payloads

    def next_payload(self) -> bytes:
        self.emitted += 1
        return str(self.emitted).encode()

    # What is spent.

    async def reserve(self, x: Subject, amount: int) -> None:
        on_crash = self.chance.choice(list(c.OnCrash))
        reservation_id, result = await self.limits.reserve(self.budget_id, x, on_crash=on_crash, tokens=amount)
        self.lives[x.execution_id].has_reserved = True
        epoch = x.fence.lease_epoch
        assert result == self.budget.reserve(reservation_id, x.execution_id, epoch, amount, self.now, on_crash)
        self.reservations.append((reservation_id, x.execution_id))

    async def settle(self, amount: int) -> None:
        """One that is open, was refused, has returned, or was settled before."""
        if not self.reservations:
            return
        reservation_id, who = self.chance.choice(self.reservations)
        result = await self.limits.settle(self.budget_id, self.subjects[who], reservation_id, tokens=amount)
        assert result == self.budget.settle(reservation_id, amount, who, self.now)

    async def note_use(self, amount: int) -> None:
        """The totals so far; nothing counts yet."""
        if not self.reservations:
            return
        reservation_id, who = self.chance.choice(self.reservations)
        await self.limits.note(self.budget_id, self.subjects[who], reservation_id, tokens=amount)
        self.budget.note(reservation_id, amount, who)

    # What the engine does.

    async def run_due_work(self) -> None:
        await self.backend.run_due_work(b.RunDueWorkArgs(partition=self.partition))
        for life in self.lives.values():
            if life.state == "delayed" and life.due_at <= self.now:
                life.state = "pending"

    async def drain(self) -> None:
        await self.limits.drain()
        await self.pay_what_was_paid()

    async def pay_what_was_paid(self) -> None:
        """The store's list says what is still owed: whoever paid the rest, it counts from then on."""
        debts = await self.driver.probe.debts(self.partition)
        owed = {(who, epoch) for who, epoch, is_spending in debts if is_spending}
        for debt in [each for each in self.debts if (each.who, each.epoch) not in owed]:
            self.budget.pay(debt, self.now)
            self.debts.remove(debt)

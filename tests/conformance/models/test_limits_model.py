"""Random lives under limits: frames, spend, reservations, slots and changes of limits, against a model in memory."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import Conflict
from tests.conformance.driver import Driver, Subject
from tests.conformance.limited_acts import LONG, LimitedActs
from tests.conformance.limits_model import HARD, SOFT, Life
from tests.conformance.streaming import payloads, read
from tests.soaking import examples

pytestmark = pytest.mark.every_store

MOST = 8
LIVE, ENDED = ("pending", "delayed", "running"), ("completed", "failed", "cancelled")
PUBLIC = {"pending": {"waiting", "rate_limited"}, "running": {"active"}}
DEEDS = {
    "submit_one": 6, "claim": 8, "stop": 8, "complete_and_claim": 4, "append_frames": 8, "append_too_late": 2,
    "report_usage": 6, "record_spend": 4, "reserve_some": 5, "settle_one": 4, "note_some": 4, "release_budget": 2,
    "reset_budget": 2, "set_budget_limits": 3, "set_quota_limits": 2, "let_a_guest_in": 2, "let_a_guest_out": 2,
    "drain": 4, "let_time_pass": 4, "start_all_that_may": 3, "finish_all": 1,
}  # fmt: skip


class LimitedLives(LimitedActs):
    """Draws what happens next, and compares after it."""

    async def do_something(self) -> str:
        (deed,) = self.chance.choices(list(DEEDS), list(DEEDS.values()))
        await getattr(self, deed)()
        return deed

    @property
    def amount(self) -> int:
        return self.chance.randint(1, 40)

    @property
    def dedup(self) -> str | None:
        return self.chance.choice([None, None, None, f"k{self.chance.randint(0, 20)}"])

    async def submit_one(self) -> None:
        if len(self.of(*LIVE)) < MOST:
            has_budget, has_quota = self.chance.choice([(True, True), (True, False), (False, True), (False, False)])
            await self.submit(has_budget=has_budget, has_quota=has_quota)

    async def claim(self) -> None:
        await self.take(self.chance.randint(1, MOST))

    async def stop(self) -> None:
        how = self.chance.choice(["complete", "fail", "retry", "delay", "lose", "cancel"])
        x = self.pick(*(LIVE if how == "cancel" else ("running",)))
        if x is None:
            return
        if how in ("fail", "retry"):
            await self.fail(x, retry=how == "retry")
        else:
            await getattr(self, how)(x)

    async def complete_and_claim(self) -> None:
        if x := self.pick("running"):
            await self.complete_and_take(x, self.chance.randint(1, MOST))

    async def append_frames(self) -> None:
        if x := self.pick("running"):
            await self.chance.choice([self.emit, self.emit_together])(x, self.chance.randint(1, 3))

    async def append_too_late(self) -> None:
        x = self.pick("pending", "delayed", *ENDED)
        if x and x.attempted:
            with pytest.raises(Conflict):
                await self.driver.append(x)

    async def report_usage(self) -> None:
        x, amount, dedup = self.chance.choice([None, self.pick(*LIVE)]), self.amount, self.dedup
        if x:
            args = c.ReportUsageArgs(
                budget_id=self.budget_id, execution_id=x.execution_id, dimensions=("tokens",), deltas=(amount,),
                dedup_key=dedup,
            )  # fmt: skip
            result = await self.backend.report_usage_and_check(args)
        else:
            result = await self.limits.report(self.budget_id, dedup, tokens=amount)
        assert result == self.budget.report(amount, x.execution_id if x else None, dedup, self.now)

    async def record_spend(self) -> None:
        x, amount, dedup = self.chance.choice([None, self.pick(*LIVE)]), self.amount, self.dedup
        result = await self.limits.spend(self.budget_id, x, dedup, tokens=amount)
        assert result == self.budget.spend(amount, x.execution_id if x else None, dedup, self.now)

    async def reserve_some(self) -> None:
        if x := self.pick("running"):
            await self.reserve(x, self.amount)

    async def note_some(self) -> None:
        await self.note_use(self.amount)

    async def settle_one(self) -> None:
        await self.settle(self.amount)

    async def release_budget(self) -> None:
        if x := self.pick(*LIVE, *ENDED):
            assert await self.limits.release(self.budget_id, x) == self.budget.give_back(x.execution_id)

    async def reset_budget(self) -> None:
        await self.limits.reset(self.budget_id)
        self.budget.reset(self.now)

    async def set_budget_limits(self) -> None:
        hard = self.chance.choice([0, self.chance.randint(1, 200)])
        soft = self.chance.randint(0, hard or 150)
        result = await self.limits.limits(self.budget_id, {"tokens": hard}, {"tokens": soft})
        assert result == self.budget.limit(hard, soft, self.now)

    async def set_quota_limits(self) -> None:
        self.cap = self.chance.randint(1, 4)
        args = c.ConfigureQuotaPolicyArgs(quota_policy_id=self.quota_id, max_concurrent=self.cap)
        await self.backend.configure_quota_policy(args)

    async def let_a_guest_in(self) -> None:
        """Another scheduler asks the quota by itself."""
        before, guest = await self.slots(), Subject(self.driver.mint())
        args = c.CheckAdmissionArgs(
            quota_policy_id=self.quota_id, execution_id=guest.execution_id, window_seconds=0, rate_limit=0,
            concurrency_cap=self.cap,
        )  # fmt: skip
        result = await self.backend.check_admission(args)
        if before < self.cap:
            assert result == c.Admitted()
            assert await self.backend.check_admission(args) == c.AlreadyAdmitted()
            self.guests.append(guest)
        else:
            assert result == c.ConcurrencyExceeded()

    async def let_a_guest_out(self) -> None:
        if self.guests:
            guest = self.guests.pop()
            args = c.ReleaseAdmissionArgs(quota_policy_id=self.quota_id, execution_id=guest.execution_id)
            for _ in range(2):
                await self.backend.release_admission(args)

    async def let_time_pass(self) -> None:
        await self.driver.clock.advance(self.chance.choice([1, 1_000, 5_000]))
        await self.run_due_work()

    async def start_all_that_may(self) -> None:
        """Who waits for two limits may need a look at each, one after the other; nobody else waits for that long."""
        for _ in range(MOST + 1):
            await self.driver.clock.advance(LONG)
            await self.run_due_work()
            await self.drain()
            await self.take(MOST)
        assert await self.slots() == self.slots_in_use
        left = [self.lives[each] for each in self.of("pending")]
        assert not [each for each in left if self.is_room_for(each)]

    def is_room_for(self, life: Life) -> bool:
        return (self.budget.is_open or not life.has_budget) and (self.slots_in_use < self.cap or not life.has_quota)

    async def finish_all(self) -> None:
        """All slots and all holds are back when nobody runs any more."""
        for each in self.of("running"):
            await self.complete(self.subjects[each])
        await self.drain()
        assert not self.debts
        assert await self.slots() == len(self.guests)
        assert (await self.limits.status(self.budget_id)).reserved == {}

    async def slots(self) -> int:
        return (await self.limits.quota_status(self.quota_id)).running

    async def compare(self, ids: list[ExecutionId]) -> None:
        await self.driver.probe.check()
        await self.compare_budget(ids)
        await self.compare_slots()
        for each in ids:
            state = await self.backend.get_execution_state(each)
            assert state in PUBLIC.get(self.lives[each].state, {self.lives[each].state})
            await self.compare_streams(each)

    async def compare_budget(self, ids: list[ExecutionId]) -> None:
        """The totals and every ledger are the sums of what was accepted, and every passed limit was told once."""
        await self.pay_what_was_paid()
        status = await self.limits.status(self.budget_id)
        row = self.budget.row
        assert +Counter(status.usage) == +Counter(row.used)
        assert status.reserved == row.held
        assert (status.hard_limits, status.soft_limits) == (row.hard, row.soft)
        for name in ("breached_at", "last_breach_at", "last_breach_dim", "breach_count", "soft_breach_count"):
            assert getattr(status, name) == getattr(row, name), name
        assert (status.reset_count, status.last_reset_at) == (row.period, row.last_reset_at)
        for each in ids:
            ledger = await self.backend.get_budget_ledger(self.budget_id, each)
            assert ledger == self.budget.spent_by(each)
        args = c.ReadEventsArgs(
            events=(c.EventKind(SOFT), c.EventKind(HARD)), partition=self.limits.partition(self.budget_id), limit=1_000
        )
        page = await self.backend.read_events(args)
        assert [(each.event, each.outcome) for each in page.events] == self.budget.told

    async def compare_slots(self) -> None:
        """Slots are had by those that run, and by those whose end was not brought to the quota yet."""
        owed = len(await self.driver.probe.debts(self.partition))
        assert self.slots_in_use <= await self.slots() <= self.slots_in_use + owed

    async def compare_streams(self, each: ExecutionId) -> None:
        """A stream holds what was emitted, and is closed with its attempt."""
        for index, stream in enumerate(self.lives[each].streams):
            page = await read(self.driver, Subject(each), index)
            assert payloads(page) == stream.frames
            assert not stream.frames or page.closed_reason == stream.closed


@pytest.mark.parametrize("seed", range(examples(6, soak=40)))
async def test_limits_go_as_the_model_says(driver: Driver, seed: int) -> None:
    lives, said = LimitedLives(driver, random.Random(seed)), list[str]()
    await lives.begin()
    for _ in range(200):
        said.append(await lives.do_something())
        try:
            await lives.compare(lives.of(*LIVE))
        except AssertionError as error:
            error.add_note(f"after {' '.join(said)}")
            raise
    await lives.finish_all()
    await lives.compare(list(lives.lives))

"""Random lives under limits: frames, spend, reservations, slots and changes of limits, against a model in memory."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import Conflict
from tests.conformance.acts import agree
from tests.conformance.driver import Subject
from tests.conformance.invariants import check_store
from tests.conformance.limited_acts import LONG, LimitedActs
from tests.conformance.limits_model import HARD, SOFT
from tests.conformance.streaming import payloads, read
from tests.soaking import examples

MOST = 8
LIVE = ("pending", "delayed", "running")
PUBLIC = {"pending": {"waiting", "rate_limited"}, "running": {"active"}}
number = st.integers(0, 63)
amount = st.integers(1, 40)
dedup = st.none() | st.sampled_from(["a", "b", "c"])


class LimitedLives(LimitedActs):
    @precondition(lambda self: len(self.lives) < MOST)
    @rule(has_budget=st.booleans(), has_quota=st.booleans())
    def submit_one(self, has_budget: bool, has_quota: bool) -> None:
        self.submit(has_budget=has_budget, has_quota=has_quota)

    @rule(count=st.integers(1, MOST))
    def claim(self, count: int) -> None:
        self.take(count)

    @rule(who=number, how=st.sampled_from(["complete", "fail", "retry", "delay", "lose", "cancel"]))
    def stop(self, who: int, how: str) -> None:
        x = self.pick(who, *(LIVE if how == "cancel" else ("running",)))
        if x is None:
            return
        if how in ("fail", "retry"):
            self.fail(x, retry=how == "retry")
        else:
            {"complete": self.complete, "delay": self.delay, "lose": self.lose, "cancel": self.cancel}[how](x)

    @rule(who=number, count=st.integers(1, MOST))
    def stop_and_claim(self, who: int, count: int) -> None:
        if x := self.pick(who, "running"):
            self.complete_and_take(x, count)

    @rule(who=number, count=st.integers(1, 3), is_batch=st.booleans())
    def append_frames(self, who: int, count: int, is_batch: bool) -> None:
        if x := self.pick(who, "running"):
            (self.emit_together if is_batch else self.emit)(x, count)

    @rule(who=number)
    def append_too_late(self, who: int) -> None:
        x = self.pick(who, "pending", "delayed", "completed", "failed", "cancelled")
        if x and x.attempted:
            with pytest.raises(Conflict):
                self.run(self.driver.append(x))

    @rule(who=st.none() | number, amount=amount, key=dedup)
    def report_usage(self, who: int | None, amount: int, key: str | None) -> None:
        x = None if who is None else self.pick(who, *LIVE)
        if x:
            args = c.ReportUsageArgs(
                budget_id=self.budget_id, execution_id=x.execution_id, dimensions=("tokens",), deltas=(amount,),
                dedup_key=key,
            )  # fmt: skip
            result = self.run(self.backend.report_usage_and_check(args))
        else:
            result = self.run(self.limits.report(self.budget_id, key, tokens=amount))
        assert result == self.budget.report(amount, x and x.execution_id, key)

    @rule(who=st.none() | number, amount=amount, key=dedup)
    def record_spend(self, who: int | None, amount: int, key: str | None) -> None:
        x = None if who is None else self.pick(who, *LIVE)
        result = self.run(self.limits.spend(self.budget_id, x, key, tokens=amount))
        assert result == self.budget.spend(amount, x and x.execution_id, key)

    @rule(who=number, amount=amount)
    def reserve_budget(self, who: int, amount: int) -> None:
        if x := self.pick(who, "running"):
            self.reserve(x, amount)

    @rule(which=number, amount=amount)
    def settle_reservation(self, which: int, amount: int) -> None:
        self.settle(which, amount)

    @rule(who=number)
    def release_budget(self, who: int) -> None:
        if x := self.pick(who, *LIVE, "completed", "failed", "cancelled"):
            result = self.run(self.limits.release(self.budget_id, x))
            assert result == self.budget.give_back(x.execution_id)

    @rule()
    def reset_budget(self) -> None:
        self.run(self.limits.reset(self.budget_id))
        self.budget.reset()

    @rule(hard=st.integers(0, 150), soft=st.integers(0, 150))
    def set_budget_limits(self, hard: int, soft: int) -> None:
        soft = min(soft, hard) if hard else soft
        result = self.run(self.limits.limits(self.budget_id, {"tokens": hard}, {"tokens": soft}))
        assert result == self.budget.limit(hard, soft)

    @rule(cap=st.integers(1, 4))
    def set_quota_limits(self, cap: int) -> None:
        self.run(self.backend.configure_quota_policy(
            c.ConfigureQuotaPolicyArgs(quota_policy_id=self.quota_id, max_concurrent=cap)
        ))  # fmt: skip
        self.cap = cap

    @rule()
    def let_a_guest_in(self) -> None:
        """Another scheduler asks the quota by itself."""
        before = self.run(self.limits.quota_status(self.quota_id)).running
        guest = Subject(self.driver.mint())
        args = c.CheckAdmissionArgs(
            quota_policy_id=self.quota_id, execution_id=guest.execution_id, window_seconds=0, rate_limit=0,
            concurrency_cap=self.cap,
        )  # fmt: skip
        result = self.run(self.backend.check_admission(args))
        if before < self.cap:
            assert result == c.Admitted()
            assert self.run(self.backend.check_admission(args)) == c.AlreadyAdmitted()
            self.guests.append(guest)
        else:
            assert result == c.ConcurrencyExceeded()

    @rule(which=number)
    def let_a_guest_out(self, which: int) -> None:
        if self.guests:
            guest = self.guests.pop(which % len(self.guests))
            args = c.ReleaseAdmissionArgs(quota_policy_id=self.quota_id, execution_id=guest.execution_id)
            for _ in range(2):
                self.run(self.backend.release_admission(args))

    @rule()
    def engine_drains(self) -> None:
        self.drain()

    @rule(ms=st.sampled_from([1, 1_000, 5_000]))
    def time_passes(self, ms: int) -> None:
        self.run(self.driver.clock.advance(ms))
        self.run_due_work()

    @rule()
    def everything_that_may_start_does(self) -> None:
        """Once the engine has looked at all limits, a worker with room gets whatever they have room for."""
        self.run(self.driver.clock.advance(LONG))
        self.run_due_work()
        self.drain()
        self.pay_what_was_paid()
        room = max(0, self.cap - self.slots_in_use)
        assert self.run(self.limits.quota_status(self.quota_id)).running == self.slots_in_use
        may = [each for each in self.of("pending") if self.budget.is_open or not self.lives[each].has_budget]
        of_quota = [each for each in may if self.lives[each].has_quota]
        taken = self.take(MOST)
        assert len([each for each in taken if each in of_quota]) == min(room, len(of_quota))
        assert set(taken) - set(of_quota) == set(may) - set(of_quota)

    @rule()
    def everybody_is_done(self) -> None:
        """All slots and all holds are back."""
        for each in self.of("running"):
            self.complete(self.subjects[each])
        self.drain()
        self.pay_what_was_paid()
        assert not self.debts
        assert self.run(self.limits.quota_status(self.quota_id)).running == len(self.guests)
        assert self.run(self.limits.status(self.budget_id)).reserved == {}

    @invariant()
    def the_books_balance(self) -> None:
        self.pay_what_was_paid()
        status = self.run(self.limits.status(self.budget_id))
        expected = +Counter(tokens=self.budget.used, attempts=self.budget.attempts)
        assert +Counter(status.usage) == expected
        assert status.reserved == +Counter(tokens=self.budget.held)
        assert (status.breached_at is not None) == self.budget.is_breached
        assert status.soft_breach_count == [kind for kind, _ in self.budget.told].count(SOFT)
        for each in self.lives:
            ledger = self.run(self.backend.get_budget_ledger(self.budget_id, each))
            assert ledger == +self.budget.ledgers.get(each, Counter())

    @invariant()
    def every_passed_limit_is_told_once(self) -> None:
        args = c.ReadEventsArgs(events=(SOFT, HARD), partition=self.limits.partition(self.budget_id), limit=1_000)
        page = self.run(self.backend.read_events(args))
        assert [(each.event, each.outcome) for each in page.events] == self.budget.told

    @invariant()
    def slots_are_those_that_run_or_are_owed(self) -> None:
        taken = self.run(self.limits.quota_status(self.quota_id)).running
        key = f"ff:part:{self.partition.tag}:handovers"
        owed = self.run(self.backend.client.execute("ZCARD", key, key=key))
        assert self.slots_in_use <= taken <= self.slots_in_use + owed

    @invariant()
    def store_and_model_agree(self) -> None:
        self.run(check_store(self.backend.client))
        for each, life in self.lives.items():
            state = self.run(self.backend.get_execution_state(each))
            assert state in PUBLIC.get(life.state, {life.state}), (state, life)

    @invariant()
    def streams_hold_what_was_emitted_and_end_with_their_attempts(self) -> None:
        for each, life in self.lives.items():
            for index, stream in enumerate(life.streams):
                self.compare_stream(each, index, stream.frames, stream.closed)

    def compare_stream(self, each: ExecutionId, index: int, frames: list[bytes], closed: str | None) -> None:
        page = self.run(read(self.driver, Subject(each), index))
        assert payloads(page) == frames
        if frames:
            assert page.closed_reason == closed


def test_limits_go_as_the_model_says(store_url: str, topology: str) -> None:
    agree(LimitedLives, store_url, topology, max_examples=examples(25, soak=300), step_count=40)

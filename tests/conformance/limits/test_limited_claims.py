"""Executions with limits: claimed only when all of them have room, waiting in order until they have (D20, D21)."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.states import BlockingReason, PublicState
from flowfabric.errors import Limited
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, WORKER
from tests.conformance.limiting import Limits, ids, public
from tests.conformance.suspending import Suspender


class TestRate:
    async def test_starts_are_spread_over_the_window(self, limits: Limits) -> None:
        quota = await limits.quota(window_seconds=10, max_requests_per_window=2)
        made = [await limits.submit(quotas=(quota,)) for _ in range(5)]
        for x in await limits.driver.take(5):
            await limits.driver.complete(x)
        assert await limits.driver.take(5) == []
        drained = await limits.drain()
        assert drained.next_at_ms == limits.driver.clock.now_ms + 10_000, "known to the millisecond"
        await limits.driver.clock.advance(9_999)
        await limits.drain()
        assert await limits.driver.take(5) == []
        await limits.driver.clock.advance(1)
        await limits.drain()
        assert ids(await limits.driver.take(5)) == ids(made[2:4])
        assert await public(limits, made[4]) is PublicState.RATE_LIMITED

    async def test_going_on_is_no_new_start(self, limits: Limits) -> None:
        quota = await limits.quota(window_seconds=10, max_requests_per_window=1)
        x = await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await limits.driver.delay(held, limits.driver.clock.now_ms)
        assert ids(await limits.driver.take(1)) == [x.execution_id]


class TestBudgets:
    async def test_nothing_starts_on_a_breached_budget(self, limits: Limits) -> None:
        budget = await limits.budget({"tokens": 10})
        x = await limits.submit(budgets=(budget,))
        await limits.report(budget, tokens=11)
        assert await limits.driver.take(1) == []
        assert (await limits.driver.state(x)).blocking_reason is BlockingReason.WAITING_FOR_BUDGET

    async def test_nothing_starts_where_not_one_more_unit_fits(self, limits: Limits) -> None:
        budget = await limits.budget({"tokens": 10})
        await limits.submit(budgets=(budget,))
        await limits.report(budget, tokens=10)
        assert await limits.driver.take(1) == []

    @pytest.mark.parametrize("cure", ["reset", "raise", "release", "due"])
    async def test_what_opens_a_budget_lets_go_what_waits(self, limits: Limits, cure: str) -> None:
        budget = await limits.budget({"tokens": 10}, reset_interval_ms=60_000)
        spender, x = await limits.driver.create(lane_id=LaneId("other")), await limits.submit(budgets=(budget,))
        await limits.spend(budget, spender, tokens=10)
        assert await limits.driver.take(1) == []
        match cure:
            case "reset":
                await limits.reset(budget)
            case "raise":
                await limits.limit(budget, tokens=11)
            case "release":
                await limits.release(budget, spender)
            case "due":
                await limits.driver.clock.advance(60_000)
                await limits.backend.reset_due_budgets(limits.partition(budget))
        assert ids(await limits.driver.take(1)) == [x.execution_id]

    async def test_the_strictest_of_several_decides(self, limits: Limits) -> None:
        wide, narrow = await limits.budget({"tokens": 1_000}), await limits.budget({"calls": 1})
        quota = await limits.quota(max_concurrent=5)
        await limits.spend(narrow, calls=1)
        x = await limits.submit(budgets=(wide, narrow), quotas=(quota,))
        assert await limits.driver.take(1) == []
        assert (await limits.quota_status(quota)).running == 0
        await limits.reset(narrow)
        assert ids(await limits.driver.take(1)) == [x.execution_id]

    async def test_time_and_attempts_are_counted_by_themselves(self, limits: Limits) -> None:
        budget = await limits.budget({"wall_time_ms": 10_000, "attempts": 3})
        await limits.submit(budgets=(budget,))
        (held,) = await limits.driver.take(1)
        await limits.driver.clock.advance(700)
        await limits.driver.fail(held, retry=True)
        for _ in range(2):
            await limits.drain(held)
        assert (await limits.status(budget)).usage == {"attempts": 1, "wall_time_ms": 700}
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(held)
        (held,) = await limits.driver.take(1)
        await limits.driver.clock.advance(40)
        await limits.driver.delay(held, limits.driver.clock.now_ms)
        await limits.drain(held)
        (held,) = await limits.driver.take(1)
        await limits.driver.clock.advance(2)
        await limits.driver.complete(held)
        await limits.drain(held)
        assert (await limits.status(budget)).usage == {"attempts": 2, "wall_time_ms": 742}
        assert await limits.backend.get_budget_ledger(budget, held.execution_id) == {
            "attempts": 2, "wall_time_ms": 742
        }  # fmt: skip


class TestOtherClaims:
    async def test_one_that_is_named_is_refused_by_the_limit(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        first, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        await limits.driver.grant_and_claim(first)
        with pytest.raises(Limited) as caught:
            await limits.driver.grant_and_claim(second)
        assert caught.value.code == "concurrency_limit_exceeded"
        assert await public(limits, second) is PublicState.RATE_LIMITED
        await limits.driver.complete(first)
        await limits.drain(first)
        await limits.driver.grant_and_claim(second)
        assert (await limits.quota_status(quota)).running == 1

    async def test_a_grant_takes_a_slot_and_gives_it_back_unused(self, limits: Limits) -> None:
        quota = await limits.quota(window_seconds=60, max_requests_per_window=1, max_concurrent=1)
        first, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        await limits.driver.grant(first)
        with pytest.raises(Limited) as caught:
            await limits.driver.grant(second)
        assert caught.value.code == "rate_limit_exceeded"
        await limits.driver.clock.advance(5_001)
        await limits.drain(first)
        assert (await limits.quota_status(quota)).room == 1
        await limits.driver.run(first)
        await limits.driver.complete(first)
        await limits.drain(first)
        status = await limits.quota_status(quota)
        assert (status.running, status.started) == (0, 1)

    async def test_a_grant_for_whoever_asks_passes_over_what_is_refused(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        first, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        free = await limits.driver.create()
        args = c.ClaimForWorkerArgs(lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, grant_ttl_ms=5_000)
        granted = [await limits.backend.claim_for_worker(args) for _ in range(3)]
        given = [each.grant.execution_id for each in granted if isinstance(each, c.WorkGranted)]
        assert given == [first.execution_id, free.execution_id]
        assert await public(limits, second) is PublicState.RATE_LIMITED

    async def test_cancelling_what_is_on_offer_gives_back_what_was_taken(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        x = await limits.submit(quotas=(quota,))
        await limits.driver.grant(x)
        await limits.driver.cancel(x)
        drained = await limits.drain(x)
        assert drained.next_at_ms is None
        assert (await limits.quota_status(quota)).running == 0

    async def test_cancelling_what_waits_leaves_no_trace_of_it(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        _, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        await limits.driver.take(2)
        await limits.driver.cancel(second)
        assert (await limits.drain(second)).next_at_ms is None

    async def test_work_without_limits_goes_on_beside_work_that_waits(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        for _ in range(3):
            await limits.submit(quotas=(quota,), priority=5)
        free = await limits.driver.create()
        assert free.execution_id in ids(await limits.driver.take(4))


@pytest.mark.parametrize("reason", [c.SuspensionReasonCode.PAUSED_BY_BUDGET, c.SuspensionReasonCode.WAITING_FOR_SIGNAL])
async def test_an_answer_about_a_budget_reaches_its_execution_although_the_budget_is_closed(
    limits: Limits, reason: c.SuspensionReasonCode
) -> None:
    suspender, budget = Suspender(limits.driver), await limits.budget({"tokens": 10})
    await suspender.seed()
    await limits.submit(budgets=(budget,))
    (held,) = await limits.driver.take(1)
    await limits.report(budget, tokens=11)
    waiting = await limits.submit(budgets=(budget,))
    assert await limits.driver.take(1) == []
    await suspender.suspend(held, reason_code=reason)
    await limits.drain(held)
    await limits.backend.resume_execution(c.ResumeExecutionArgs(execution_id=held.execution_id))
    is_heard = reason is c.SuspensionReasonCode.PAUSED_BY_BUDGET
    assert ids(await limits.driver.take(2)) == ([held.execution_id] if is_heard else [])
    assert await public(limits, waiting) is PublicState.RATE_LIMITED
    await limits.probe.check()

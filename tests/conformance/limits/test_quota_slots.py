"""Slots of a quota: no more run than there are, and they come back however the running ends (D20)."""

from __future__ import annotations

import random

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import BlockingReason, LaneState, PublicState
from tests.conformance.driver import BACKOFF, LANE, Subject
from tests.conformance.limiting import Limits, finish, ids, partition_of, public, stop

pytestmark = pytest.mark.every_store


class TestConcurrency:
    async def test_no_more_run_than_there_are_slots(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=2)
        made = [await limits.submit(quotas=(quota,)) for _ in range(5)]
        taken = await limits.driver.take(5)
        assert ids(taken) == ids(made[:2])
        assert [await public(limits, x) for x in made[2:]] == [PublicState.RATE_LIMITED] * 3
        assert (await limits.driver.state(made[2])).blocking_reason is BlockingReason.WAITING_FOR_QUOTA
        status = await limits.quota_status(quota)
        assert (status.running, status.room) == (2, 0)
        assert await limits.driver.take(5) == []
        await limits.probe.check()

    async def test_a_freed_slot_goes_to_the_next_in_order(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        first, low, high = [await limits.submit(quotas=(quota,), priority=p) for p in (9, 0, 5)]
        (held,) = await limits.driver.take(3)
        assert held.execution_id == first.execution_id
        await finish(limits, held)
        assert await public(limits, high) is PublicState.WAITING
        assert await public(limits, low) is PublicState.RATE_LIMITED, "one slot lets one go"
        (held,) = await limits.driver.take(3)
        assert held.execution_id == high.execution_id
        await limits.probe.check()

    async def test_who_comes_later_waits_behind_who_waits(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        waiting = await limits.submit(quotas=(quota,))
        await limits.driver.take(1)
        await limits.driver.clock.advance(1)
        late = await limits.submit(quotas=(quota,))
        await finish(limits, held)
        assert ids(await limits.driver.take(2)) == [waiting.execution_id]
        assert await public(limits, late) is PublicState.RATE_LIMITED

    async def test_a_finish_claims_the_next_with_the_slot_it_leaves(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        _, second, third = [await limits.submit(quotas=(quota,)) for _ in range(3)]
        (held,) = await limits.driver.take(3)
        (work,) = (await finish(limits, held, count=2)).claimed
        assert work.execution_id == second.execution_id
        assert (await limits.drain(held)).paid == 0, "the slot went on without asking anybody"
        assert (await limits.quota_status(quota)).running == 1
        (work,) = (await finish(limits, limits.driver.held(work), count=2)).claimed
        assert work.execution_id == third.execution_id
        await limits.driver.complete(limits.driver.held(work))
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 0
        await limits.probe.check()

    async def test_a_slot_that_went_on_for_long_goes_back_so_that_others_get_it(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        _, second = [await limits.submit(quotas=(quota,)) for _ in range(2)]
        (held,) = await limits.driver.take(2)
        elsewhere = await limits.submit(quotas=(quota,), lane_id=LaneId("elsewhere"))
        assert await limits.driver.take(1, lane_id="elsewhere") == []
        await limits.driver.clock.advance(1_000)
        assert (await finish(limits, held, count=2)).claimed == []
        let_go = [x for x in (second, elsewhere) if await public(limits, x) is PublicState.WAITING]
        assert len(let_go) == 1

    @pytest.mark.parametrize("reason", ["capability", "budget", "key", "pause"])
    async def test_a_slot_goes_on_only_to_who_may_start_now(self, limits: Limits, reason: str) -> None:
        quota, budget = await limits.quota(max_concurrent=1), await limits.budget({"tokens": 1})
        await limits.submit(quotas=(quota,))
        match reason:
            case "capability":
                policy = ExecutionPolicy(
                    quota_policy_ids=(quota,), routing_requirements=RoutingRequirements(required_capabilities=("gpu",))
                )
                await limits.driver.clock.advance(1)
                other = await limits.driver.create(policy=policy)
            case "budget":
                other = await limits.submit(quotas=(quota,), budgets=(budget,))
            case "key":
                other = await limits.submit(quotas=(quota,), concurrency_key="k")
            case _:
                other = await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(2, worker_capabilities=("gpu",))
        assert await public(limits, other) is PublicState.RATE_LIMITED
        if reason == "pause":
            args = c.SetLaneStateArgs(lane_id=LANE, state=LaneState.PAUSED)
            await limits.backend.set_lane_state(args)
        await limits.spend(budget, tokens=1)
        assert (await finish(limits, held, count=2)).claimed == []

    @pytest.mark.parametrize("ending", ["complete", "fail", "retry", "delay", "cancel", "lose", "deadline", "suspend"])
    async def test_slots_come_back_however_the_running_ends(self, limits: Limits, ending: str) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await stop(limits.driver, held, ending)
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 0

    async def test_the_slot_stays_with_who_replaces_a_lost_attempt(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        await limits.driver.revoke(held)
        await limits.driver.reclaim_grant(held)
        await limits.driver.reclaim(held)
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 1
        await limits.driver.complete(held)
        await limits.drain(held)
        assert (await limits.quota_status(quota)).running == 0

    async def test_a_retry_is_admitted_anew(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1)
        await limits.submit(quotas=(quota,))
        (held,) = await limits.driver.take(1)
        first = limits.driver.clock.now_ms  # a ticket is the time at which it was issued
        await limits.driver.fail(held, retry=True)
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(held)
        await limits.drain(held)
        (again,) = await limits.driver.take(1)
        paid_again = c.ReleaseAdmissionArgs(quota_policy_id=quota, execution_id=again.execution_id, ticket=first)
        await limits.backend.release_admission(paid_again)
        assert (await limits.quota_status(quota)).running == 1, "the old debt does not free the new slot"
        await limits.driver.complete(again)
        await limits.drain(again)
        assert (await limits.quota_status(quota)).running == 0

    async def test_keys_are_counted_apart(self, limits: Limits) -> None:
        quota = await limits.quota(max_concurrent=1, key_by=c.QuotaKey.EXECUTION_KIND)
        for kind in ("a", "a", "b"):
            await limits.submit(quotas=(quota,), execution_kind=kind)
        taken = await limits.driver.take(3)
        assert len(taken) == 2
        assert [(await limits.quota_status(quota, kind)).running for kind in ("a", "b")] == [1, 1]
        await finish(limits, taken[0])
        assert len(await limits.driver.take(3)) == 1


class TestDebts:
    @pytest.mark.parametrize("seed", range(3))
    async def test_whatever_happens_no_more_run_than_there_are_slots_and_all_get_their_turn(
        self, limits: Limits, seed: int
    ) -> None:
        quota = await limits.quota(max_concurrent=3)
        crew = Crew(limits, [await limits.submit(quotas=(quota,)) for _ in range(12)], random.Random(seed))
        for _ in range(100):
            await crew.do_something()
            assert await crew.running() <= 3
            assert (await limits.quota_status(quota)).running <= 3
        await crew.finish_all()
        assert (await limits.quota_status(quota)).running == 0
        await limits.probe.check()


class Crew:
    """Workers that claim, finish, fail, wait and die, and an engine that looks after them now and then."""

    def __init__(self, limits: Limits, made: list[Subject], chance: random.Random) -> None:
        self.limits, self.driver, self.made, self.chance = limits, limits.driver, made, chance
        self.held: list[Subject] = []
        self.deeds = [self.take, self.take, self.finish, self.stop, self.die, self.engine, self.wait]

    async def do_something(self) -> None:
        await self.chance.choice(self.deeds)()

    async def take(self) -> None:
        self.held += await self.driver.take(self.chance.randint(1, 6))

    async def finish(self) -> None:
        if self.held:
            result = await finish(self.limits, self.held.pop(0), count=self.chance.randint(1, 4))
            self.held += [self.driver.held(work) for work in result.claimed]

    async def stop(self) -> None:
        if self.held:
            await stop(self.driver, self.held.pop(), self.chance.choice(["complete", "retry", "delay"]))

    async def die(self) -> None:
        if self.held:
            await self.driver.revoke(self.held.pop())

    async def wait(self) -> None:
        await self.driver.clock.advance(self.chance.randint(1, 6_000))
        for x in self.held:
            await self.driver.renew(x)

    async def engine(self) -> None:
        await self.driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition_of(self.made[0])))
        await self.limits.drain(self.made[0])

    async def running(self) -> int:
        (counted,) = await self.driver.backend.count_executions(LANE)
        return counted.counts.get(PublicState.ACTIVE, 0)

    async def finish_all(self) -> None:
        for _ in range(100):
            for x in self.held:
                await self.driver.complete(x)
            await self.driver.clock.advance(5_000)
            await self.engine()
            if {await public(self.limits, x) for x in self.made} == {PublicState.COMPLETED}:
                return
            self.held = await self.driver.take(5)
        raise AssertionError("somebody never got a turn")

"""Reservations: held before they are spent, settled with what was, and returned when the lease ends."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ReservationId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import InvalidInput, StaleLease
from tests.conformance.driver import BACKOFF, Driver, Subject, made_up_fence
from tests.conformance.limiting import Limits, stop


class TestReservations:
    async def running(self, limits: Limits) -> Subject:
        return await limits.driver.run(await limits.driver.create())

    async def test_what_is_held_counts_against_the_limit(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        _, held = await limits.reserve(budget_id, x, tokens=60)
        assert held == c.BudgetReserved()
        assert (await limits.status(budget_id)).reserved == {"tokens": 60}
        assert await limits.report(budget_id, tokens=41) == c.HardBreach(
            dimension="tokens", current_usage=60, hard_limit=100
        )
        assert (await limits.status(budget_id)).breached_at is None, "it would fit without the reservation"
        assert await limits.report(budget_id, tokens=40) == c.UsageCounted()

    async def test_settling_counts_what_was_spent_and_returns_the_rest(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert await limits.settle(budget_id, x, reservation_id, tokens=25) == c.UsageCounted()
        assert await limits.settle(budget_id, x, reservation_id, tokens=25) == c.UsageAlreadyApplied()
        status = await limits.status(budget_id)
        assert (status.usage, status.reserved) == ({"tokens": 25}, {})
        assert await limits.backend.get_budget_ledger(budget_id, x.execution_id) == {"tokens": 25}

    async def test_settling_with_nothing_returns_all_of_it(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert await limits.settle(budget_id, x, reservation_id) == c.UsageCounted()
        status = await limits.status(budget_id)
        assert (status.usage, status.reserved) == ({}, {})

    async def test_more_than_was_held_counts_too(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert isinstance(await limits.settle(budget_id, x, reservation_id, tokens=101), c.HardBreach)
        assert await limits.used(budget_id) == 101

    async def test_the_same_reservation_is_held_once(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        assert (await limits.reserve(budget_id, x, reservation_id, tokens=60))[1] == c.BudgetReserved()
        assert (await limits.status(budget_id)).reserved == {"tokens": 60}
        await limits.settle(budget_id, x, reservation_id)
        assert (await limits.reserve(budget_id, x, reservation_id, tokens=60))[1] == c.UsageAlreadyApplied()

    async def test_what_others_hold_is_no_breach(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        first, second = await self.running(limits), await self.running(limits)
        await limits.reserve(budget_id, first, tokens=60)
        _, refused = await limits.reserve(budget_id, second, tokens=41)
        assert refused == c.BudgetHeldByOthers(dimension="tokens", current_usage=60, hard_limit=100)
        assert (await limits.status(budget_id)).breached_at is None
        _, breach = await limits.reserve(budget_id, second, tokens=101)
        assert isinstance(breach, c.HardBreach)
        assert (await limits.status(budget_id)).breached_at is not None

    async def test_only_the_owner_of_a_lease_reserves(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        before = await limits.probe.dump()
        x.fence = made_up_fence()
        with pytest.raises(StaleLease):
            await limits.reserve(budget_id, x, tokens=1)
        assert await limits.probe.dump() == before

    async def test_at_most_64_are_open_at_once(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        for _ in range(64):
            await limits.reserve(budget_id, x, tokens=1)
        with pytest.raises(InvalidInput, match="at most 64"):
            await limits.reserve(budget_id, x, tokens=1)

    @pytest.mark.parametrize("ending", ["complete", "fail", "retry", "delay", "cancel", "lose"])
    async def test_what_is_open_returns_when_the_lease_ends(self, limits: Limits, ending: str) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        await limits.reserve(budget_id, x, tokens=60)
        await end(limits.driver, x, ending)
        drained = await limits.drain(x)
        assert drained.next_at_ms is None
        assert (await limits.status(budget_id)).reserved == {}

    async def test_the_end_of_an_old_lease_leaves_the_holds_of_the_new_one(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        await limits.reserve(budget_id, x, tokens=60)
        await limits.driver.fail(x, retry=True)
        await limits.driver.clock.advance(BACKOFF)
        await limits.driver.promote(x)
        await limits.driver.run(x)
        await limits.reserve(budget_id, x, tokens=7)
        await limits.drain(x)
        assert (await limits.status(budget_id)).reserved == {"tokens": 7}

    async def test_a_late_settlement_counts_all_the_same(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        await limits.driver.revoke(x)
        await end(limits.driver, x, "cancel")
        await limits.drain(x)
        assert await limits.settle(budget_id, x, reservation_id, tokens=20) == c.UsageCounted()
        status = await limits.status(budget_id)
        assert (status.usage, status.reserved) == ({"tokens": 20}, {})

    async def test_settling_what_was_never_reserved_counts_once(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({"tokens": 100}), await self.running(limits)
        reservation_id = ReservationId.new()
        assert await limits.settle(budget_id, x, reservation_id, tokens=5) == c.UsageCounted()
        assert await limits.settle(budget_id, x, reservation_id, tokens=5) == c.UsageAlreadyApplied()


async def end(driver: Driver, x: Subject, how: str) -> Any:
    if how != "lose":
        return await stop(driver, x, how)
    await driver.revoke(x)
    partition = Partition(PartitionFamily.FLOW, x.execution_id.partition_index)
    return await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))

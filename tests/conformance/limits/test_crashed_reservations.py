"""Reservations of attempts that end without settling them: what is known to be used counts, the rest returns."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId
from tests.conformance.driver import Subject
from tests.conformance.limiting import Limits, stop

ENDS = ["fail", "retry", "cancel", "lose"]


async def _running(limits: Limits) -> Subject:
    return await limits.driver.run(await limits.driver.create())


async def _books(limits: Limits, budget_id: BudgetId) -> tuple[dict[str, int], dict[str, int]]:
    status = await limits.backend.get_budget_status(budget_id)
    return status.usage, status.reserved


@pytest.mark.parametrize("ending", ENDS)
async def test_a_crash_counts_what_was_reported_and_returns_the_rest(limits: Limits, ending: str) -> None:
    budget_id, x = await limits.budget({"tokens": 100}), await _running(limits)
    reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
    for total in (5, 20, 12):  # totals, in any order
        assert await limits.note(budget_id, x, reservation_id, tokens=total) == c.UsageCounted()
    assert await _books(limits, budget_id) == ({}, {"tokens": 60}), "nothing counts before the end"
    await stop(limits.driver, x, ending)
    await limits.drain(x)
    assert await _books(limits, budget_id) == ({"tokens": 20}, {})
    assert await limits.backend.get_budget_ledger(budget_id, x.execution_id) == {"tokens": 20}


@pytest.mark.parametrize("ending", ENDS)
async def test_with_spend_a_crash_counts_all_that_was_reserved(limits: Limits, ending: str) -> None:
    budget_id, x = await limits.budget({"tokens": 100}), await _running(limits)
    reservation_id, _ = await limits.reserve(budget_id, x, on_crash=c.OnCrash.SPEND, tokens=60, calls=2)
    await limits.note(budget_id, x, reservation_id, tokens=70)
    await stop(limits.driver, x, ending)
    await limits.drain(x)
    assert await _books(limits, budget_id) == ({"tokens": 70, "calls": 2}, {})


@pytest.mark.parametrize("ending", ["delay", "suspend"])
async def test_an_attempt_that_continues_later_counts_nothing_yet(limits: Limits, ending: str) -> None:
    """It reports again what it used, when it runs again."""
    budget_id, x = await limits.budget({"tokens": 100}), await _running(limits)
    reservation_id, _ = await limits.reserve(budget_id, x, on_crash=c.OnCrash.SPEND, tokens=60)
    await limits.note(budget_id, x, reservation_id, tokens=20)
    await stop(limits.driver, x, ending)
    await limits.drain(x)
    assert await _books(limits, budget_id) == ({}, {})


async def test_who_settles_after_the_crash_adds_the_difference_once(limits: Limits) -> None:
    budget_id, x = await limits.budget({"tokens": 100}), await _running(limits)
    reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
    await limits.note(budget_id, x, reservation_id, tokens=20)
    await stop(limits.driver, x, "lose")
    await limits.drain(x)
    assert await limits.settle(budget_id, x, reservation_id, tokens=25) == c.UsageCounted()
    assert await _books(limits, budget_id) == ({"tokens": 25}, {})
    assert await limits.settle(budget_id, x, reservation_id, tokens=25) == c.UsageAlreadyApplied()
    assert await limits.note(budget_id, x, reservation_id, tokens=99) == c.UsageAlreadyApplied()
    assert await _books(limits, budget_id) == ({"tokens": 25}, {})


async def test_what_a_crash_counts_may_pass_the_limit(limits: Limits) -> None:
    budget_id, x = await limits.budget({"tokens": 100}), await _running(limits)
    reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
    await limits.note(budget_id, x, reservation_id, tokens=101)
    await stop(limits.driver, x, "lose")
    await limits.drain(x)
    assert (await limits.status(budget_id)).breached_at is not None

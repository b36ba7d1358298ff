"""Lines of budgets in the event log: one for each time that a limit was passed, in the step that passed it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import BudgetId, LaneId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import InvalidInput, NotFound
from tests.conformance.limiting import Limits

SOFT, HARD = c.EventKind.BUDGET_SOFT_BREACHED, c.EventKind.BUDGET_HARD_BREACHED


async def events(limits: Limits, **filters: Any) -> list[c.Event]:
    found: list[c.Event] = []
    cursor = None
    while True:
        page = await limits.backend.read_events(c.ReadEventsArgs(cursor=cursor, **filters))
        found += page.events
        cursor = page.cursor
        if not page.more:
            return found


async def lines(limits: Limits, **filters: Any) -> list[tuple[str, str | None]]:
    found = await events(limits, events=(SOFT, HARD), **filters)
    return [(each.event, each.outcome) for each in found]


class TestSoftLimits:
    async def test_passing_one_is_told_once(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100}, {"tokens": 50})
        await limits.report(budget_id, tokens=50)
        assert await lines(limits) == []
        await limits.report(budget_id, tokens=1)
        await limits.report(budget_id, tokens=1)
        await limits.spend(budget_id, tokens=1)
        assert await lines(limits) == [(SOFT, "tokens 51 of 50")]

    async def test_a_line_says_whose_limit_it_was(self, limits: Limits) -> None:
        budget_id = await limits.budget({}, {"tokens": 50})
        await limits.spend(budget_id, tokens=51)
        (event,) = await events(limits)
        assert (event.budget_id, event.execution_id, event.flow_id) == (budget_id, None, None)
        assert (event.at_ms, event.attempt_index) == (limits.driver.clock.now_ms, None)

    async def test_a_report_that_passes_several_has_a_line_for_each(self, limits: Limits) -> None:
        budget_id = await limits.budget({}, {"tokens": 50, "calls": 1})
        await limits.report(budget_id, tokens=60, calls=2)
        assert sorted(await lines(limits)) == [(SOFT, "calls 2 of 1"), (SOFT, "tokens 60 of 50")]
        assert (await limits.status(budget_id)).soft_breach_count == 2
        assert len(await limits.backend.read_budget_notices(limits.partition(budget_id))) == 2

    async def test_a_report_that_is_refused_or_repeated_passes_none(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100}, {"tokens": 50})
        await limits.report(budget_id, "once", tokens=40)
        await limits.report(budget_id, "once", tokens=40)
        await limits.report(budget_id, tokens=61)
        with pytest.raises(InvalidInput):
            await limits.report(budget_id, tokens=-11)
        with pytest.raises(NotFound):
            await limits.report(BudgetId.new(), tokens=60)
        assert await lines(limits) == [(HARD, "tokens 40 of 100")]

    @pytest.mark.parametrize("again", ["reset", "raised", "given back"])
    async def test_it_is_told_again_when_it_is_passed_again(self, limits: Limits, again: str) -> None:
        budget_id, x = await limits.budget({"tokens": 100}, {"tokens": 50}), await limits.driver.create()
        await limits.spend(budget_id, x, tokens=60)
        limit = 50
        if again == "reset":
            await limits.reset(budget_id)
        elif again == "raised":
            limit = 70
            await limits.limits(budget_id, {"tokens": 100}, {"tokens": limit})
        else:
            await limits.release(budget_id, x)
        before = await limits.used(budget_id)
        assert len(await lines(limits)) == 1
        await limits.report(budget_id, tokens=80 - before)
        assert await lines(limits) == [(SOFT, "tokens 60 of 50"), (SOFT, f"tokens 80 of {limit}")]

    async def test_one_that_is_set_below_what_is_used_is_passed_at_once(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100}, {"tokens": 50})
        await limits.report(budget_id, tokens=40)
        for _ in range(2):
            await limits.limits(budget_id, {"tokens": 100}, {"tokens": 30})
        assert await lines(limits) == [(SOFT, "tokens 40 of 30")]
        assert (await limits.status(budget_id)).soft_breach_count == 1


class TestHardLimits:
    async def test_a_breach_is_told_once_until_it_is_over(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10})
        for _ in range(3):
            assert isinstance(await limits.report(budget_id, tokens=11), c.HardBreach)
        assert await lines(limits) == [(HARD, "tokens 0 of 10")]
        await limits.reset(budget_id)
        await limits.spend(budget_id, tokens=12)
        await limits.spend(budget_id, tokens=1)
        assert await lines(limits) == [(HARD, "tokens 0 of 10"), (HARD, "tokens 12 of 10")]

    async def test_what_others_hold_is_none(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100})
        x = await limits.driver.run(await limits.driver.create())
        await limits.reserve(budget_id, x, tokens=60)
        assert isinstance(await limits.report(budget_id, tokens=41), c.HardBreach)
        assert await lines(limits) == []
        await limits.reserve(budget_id, x, tokens=101)
        assert await lines(limits) == [(HARD, "tokens 0 of 100")]

    async def test_both_limits_can_be_passed_by_one_settlement(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 100}, {"tokens": 50})
        x = await limits.driver.run(await limits.driver.create())
        reservation_id, _ = await limits.reserve(budget_id, x, tokens=60)
        await limits.settle(budget_id, x, reservation_id, tokens=101)
        await limits.settle(budget_id, x, reservation_id, tokens=101)
        assert await lines(limits) == [(SOFT, "tokens 101 of 50"), (HARD, "tokens 101 of 100")]

    async def test_the_next_dimension_that_is_over_is_told_when_the_first_is_not_any_more(self, limits: Limits) -> None:
        budget_id = await limits.budget({"calls": 1, "tokens": 10})
        await limits.spend(budget_id, calls=2, tokens=11)
        await limits.limit(budget_id, calls=5)
        assert await lines(limits) == [(HARD, "calls 2 of 1"), (HARD, "tokens 11 of 10")]

    async def test_time_that_the_engine_measured_counts_like_any_other(self, limits: Limits) -> None:
        budget_id = await limits.budget({"attempts": 10}, {"wall_time_ms": 50})
        x = await limits.submit(budgets=(budget_id,))
        (held,) = await limits.driver.take()
        assert held.execution_id == x.execution_id
        await limits.driver.clock.advance(60)
        await limits.driver.complete(held)
        await limits.drain(x)
        assert await lines(limits) == [(SOFT, "wall_time_ms 60 of 50")]


class TestReading:
    async def test_lines_of_all_partitions_are_read_on_from_a_cursor(self, limits: Limits) -> None:
        made = [await limits.budget({}, {"tokens": 1}) for _ in range(4)]
        start = (await limits.backend.read_events(c.ReadEventsArgs(cursor="end"))).cursor
        seen: list[BudgetId | None] = []
        for budget_id in made:
            await limits.driver.clock.advance(1)
            await limits.spend(budget_id, tokens=2)
            page = await limits.backend.read_events(c.ReadEventsArgs(cursor=start))
            start = page.cursor
            seen += [each.budget_id for each in page.events]
        assert seen == made
        assert [each.budget_id for each in await events(limits, limit=2)] == made

    async def test_a_line_is_a_place_to_read_on_from(self, limits: Limits) -> None:
        budget_id = await limits.budget({"tokens": 10}, {"tokens": 5})
        await limits.spend(budget_id, tokens=11)
        soft, hard = await events(limits)
        rest = await limits.backend.read_events(c.ReadEventsArgs(cursor=soft.cursor))
        assert rest.events == (hard,)

    async def test_they_come_between_those_of_executions(self, limits: Limits) -> None:
        budget_id, x = await limits.budget({}, {"tokens": 5}), await limits.driver.create()
        await limits.driver.clock.advance(1)
        await limits.spend(budget_id, x, tokens=6)
        await limits.driver.clock.advance(1)
        await limits.driver.cancel(x)
        assert [each.event for each in await events(limits)] == ["created", SOFT, "cancelled"]
        assert [each.event for each in await events(limits, execution_id=x.execution_id)] == ["created", "cancelled"]

    async def test_a_budget_is_of_the_namespace_or_the_lane_it_was_made_for(self, limits: Limits) -> None:
        scopes = {
            c.LimitScope.NAMESPACE: "tests",
            c.LimitScope.LANE: "default",
            c.LimitScope.EXECUTION: limits.driver.mint(),
        }
        made = {
            kind: await limits.budget({}, {"tokens": 1}, scope_type=kind, scope_id=scope)
            for kind, scope in scopes.items()
        }
        for budget_id in made.values():
            await limits.spend(budget_id, tokens=2)
        of_namespace = await events(limits, namespace="tests")
        of_lane = await events(limits, lane_id=LaneId("default"))
        assert [each.budget_id for each in of_namespace] == [made[c.LimitScope.NAMESPACE]]
        assert [each.budget_id for each in of_lane] == [made[c.LimitScope.LANE]]
        for nobodys in ({"namespace": "other"}, {"lane_id": LaneId("other")}, {"execution_kind": "kind"}):
            assert await events(limits, **nobodys) == []

    async def test_a_partition_of_budgets_has_a_log(self, limits: Limits) -> None:
        budget_id = await limits.budget({}, {"tokens": 1})
        await limits.spend(budget_id, tokens=2)
        assert [each.budget_id for each in await events(limits, partition=limits.partition(budget_id))] == [budget_id]
        beyond = Partition(PartitionFamily.BUDGET, limits.backend.partitions.num_budget_partitions)
        for partition in (beyond, Partition(PartitionFamily.QUOTA, 0)):
            with pytest.raises(InvalidInput, match="partition"):
                await events(limits, partition=partition)

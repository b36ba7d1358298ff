"""Calls that look at a bounded number of rows, with the bounds made small."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.backends.valkey.ports import listing, retention
from flowfabric.backends.valkey.rows import merge
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from tests.conformance.driver import LANE, Subject
from tests.conformance.execution.test_trim_executions import DAY, ended, kept_for, remaining, trim
from tests.conformance.reads.test_list_executions import ids, submit
from tests.valkey.driver import Driver


async def test_lanes_come_in_pages(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_LANES_PER_CALL", 2)
    names = [f"lane {at}" for at in range(5)]
    for name in names:
        await driver.create(lane_id=LaneId(name), execution_id=driver.mint())
    assert [each.lane_id for each in await driver.backend.count_executions()] == names


async def test_a_call_looks_at_a_bounded_number(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_ROUNDS", 1)
    needle = await driver.create(execution_kind="needle")
    await driver.clock.advance(1)
    await submit(driver, 600)
    page = await driver.backend.list_executions(c.ListExecutionsArgs(execution_kind="needle"))
    assert (page.executions, page.next_cursor is None) == ((), False)
    rest = await driver.backend.list_executions(c.ListExecutionsArgs(execution_kind="needle", cursor=page.next_cursor))
    assert (ids(list(rest.executions)), rest.next_cursor) == ([needle.execution_id], None)


async def test_a_call_looks_at_a_bounded_number_of_lines(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_ROUNDS", 1)
    x = await driver.run(await driver.create())
    for _ in range(600):
        await driver.progress(x)
    await driver.complete(x)
    page = await driver.backend.read_events(c.ReadEventsArgs(events=(c.EventKind.COMPLETED,)))
    assert (page.events, page.more) == ((), True)
    rest = await driver.backend.read_events(c.ReadEventsArgs(events=(c.EventKind.COMPLETED,), cursor=page.cursor))
    assert ([each.event for each in rest.events], rest.more) == (["completed"], False)


@pytest.mark.parametrize("rule", [{"older_than_ms": 0}, {"keep_last": 0}, {}], ids=str)
async def test_those_kept_longer_do_not_stand_in_the_way_of_those_behind_them(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, rule: dict[str, int]
) -> None:
    monkeypatch.setattr(retention, "_MOST_CALLS", 1)
    policy = kept_for(10 * DAY)
    for _ in range(4):
        await ended(driver, policy=policy)
        await driver.clock.advance(1)
    for _ in range(3):
        await ended(driver, policy=kept_for(0) if not rule else None)
    assert await trim(driver, limit=1, **rule) == 3
    assert len(await remaining(driver)) == 4


async def test_a_long_queue_is_looked_through_in_bounded_calls(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """More that are kept than one call of the function looks at, and one behind them that goes."""
    monkeypatch.setattr(retention, "_MOST_CALLS", 1)
    made = [
        c.CreateExecutionArgs(
            execution_id=driver.mint(), namespace="tests", lane_id=LANE, execution_kind="kind", policy=kept_for(DAY)  # type: ignore[arg-type]
        )
        for _ in range(1_100)
    ]  # fmt: skip
    await driver.backend.submit_executions(made)
    await asyncio.gather(*(driver.cancel(Subject(each.execution_id)) for each in made))
    await driver.clock.advance(1)
    last = await ended(driver)
    result = await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert (result.deleted, result.more) == (0, True)
    rest = await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0, cursor=result.cursor))
    assert (rest.deleted, rest.more) == (1, False)
    assert await driver.backend.get_execution(last.execution_id) is None

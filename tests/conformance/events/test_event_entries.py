"""The lines of one step share an entry of the log; each of them is still a place of its own."""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, Namespace
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import LANE, Driver


def order(driver: Driver) -> c.CreateExecutionArgs:
    return c.CreateExecutionArgs(
        execution_id=driver.mint(),
        namespace=Namespace("tests"),
        lane_id=LANE,
        execution_kind="kind",
        creator_identity="tests",
    )


async def submit(driver: Driver, count: int) -> list[ExecutionId]:
    outcomes = await driver.backend.submit_executions([order(driver) for _ in range(count)])
    assert not any(isinstance(each, FlowFabricError) for each in outcomes)
    return [each.execution_id for each in outcomes if not isinstance(each, FlowFabricError)]


async def test_pages_end_between_the_lines_of_an_entry(driver: Driver) -> None:
    ids = await submit(driver, 7)
    ids += await submit(driver, 5)
    for limit in (1, 3, 4, 100):
        found: list[ExecutionId | None] = []
        cursor, more = None, True
        while more:
            page = await driver.backend.read_events(c.ReadEventsArgs(cursor=cursor, limit=limit))
            assert not page.truncated
            found += [each.execution_id for each in page.events]
            cursor, more = page.cursor, page.more
        assert found == ids


async def test_reading_goes_on_after_any_line_of_an_entry(driver: Driver) -> None:
    ids = await submit(driver, 6)
    page = await driver.backend.read_events(c.ReadEventsArgs())
    for place, event in enumerate(page.events, 1):
        rest = await driver.backend.read_events(c.ReadEventsArgs(cursor=event.cursor))
        assert ([each.execution_id for each in rest.events], rest.truncated) == (ids[place:], False)

"""The lines of one step share an entry of the log; each of them is still a place of its own."""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, Namespace
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import LANE, Driver
from tests.event_log import read_lines

CAP = 10_000


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


def log(driver: Driver) -> str:
    return f"ff:part:{driver.mint().tag}:events"


async def test_a_batch_writes_one_entry(driver: Driver) -> None:
    await submit(driver, 30)
    assert await driver.backend.client.execute("XLEN", log(driver), key=log(driver)) == 1


async def test_pages_end_between_the_lines_of_an_entry(driver: Driver) -> None:
    ids = await submit(driver, 7)
    ids += await submit(driver, 5)
    for limit in (1, 3, 4, 100):
        found: list[ExecutionId] = []
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


async def test_lines_are_numbered_without_gaps(driver: Driver) -> None:
    await submit(driver, 4)
    x = await driver.run(await driver.create())
    await driver.complete(x)
    lines = await read_lines(driver.backend.client, x.execution_id.tag)
    assert [line["number"] for line in lines] == [str(number) for number in range(1, 8)]


async def test_the_log_is_cut_by_lines_not_by_entries(driver: Driver) -> None:
    """Whole nodes of the stream are cut, so a little more than the cap stays."""
    for _ in range(6):
        await submit(driver, 2_000)
    numbers = [int(line["number"]) for line in await read_lines(driver.backend.client, driver.mint().tag)]
    assert numbers[-1] == 12_000
    assert CAP <= len(numbers) < 11_000


async def test_a_lost_counter_goes_on_from_the_end_of_the_log(driver: Driver) -> None:
    x = await driver.create()
    await submit(driver, 3)
    counter = f"ff:part:{x.execution_id.tag}:event_lines"
    await driver.backend.client.execute("DEL", counter, key=counter)
    await driver.run(x)
    await submit(driver, 2)
    lines = await read_lines(driver.backend.client, x.execution_id.tag)
    assert [(line["number"], line["event"]) for line in lines[4:]] == [
        ("5", "claimed"),
        ("6", "created"),
        ("7", "created"),
    ]

"""Event logs that were cut, lost or written by a clock that went back, and how their entries are stored."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from tests.conformance.events.test_event_entries import submit
from tests.conformance.events.test_history import eventful
from tests.conformance.events.test_read_events import whole
from tests.event_log import read_lines
from tests.valkey.driver import Driver


async def test_a_history_that_lost_its_beginning_says_so(driver: Driver) -> None:
    x = await eventful(driver)
    key = keys.events(x.execution_id.tag)
    await driver.backend.client.execute("XTRIM", key, "MAXLEN", 3, key=key)
    page = await driver.backend.history(x.execution_id)
    assert ([each.event for each in page.events], page.truncated) == (["claimed", "completed"], True)


async def test_a_whole_history_is_whole_though_its_log_forgot_older_executions(driver: Driver) -> None:
    await eventful(driver)
    x = await driver.create()
    key = keys.events(x.execution_id.tag)
    await driver.backend.client.execute("XTRIM", key, "MAXLEN", 1, key=key)
    page = await driver.backend.history(x.execution_id)
    assert ([each.event for each in page.events], page.truncated) == (["created"], False)


async def cut(driver: Driver, execution_id: ExecutionId, keep: int) -> None:
    """Let all but the last `keep` lines fall off the log, as its cap does."""
    key = keys.events(execution_id.tag)
    await driver.backend.client.execute("XTRIM", key, "MAXLEN", keep, key=key)


async def test_lines_that_fell_off_are_gone_and_the_page_says_so(driver: Driver) -> None:
    x = await driver.create()
    page = await driver.backend.read_events(c.ReadEventsArgs())
    await driver.run(x)
    await driver.complete(x)
    await cut(driver, x.execution_id, keep=1)
    late = await driver.backend.read_events(c.ReadEventsArgs(cursor=page.cursor))
    assert ([each.event for each in late.events], late.truncated) == (["completed"], True)
    after = await driver.backend.read_events(c.ReadEventsArgs(cursor=late.cursor))
    assert (after.events, after.truncated) == ((), False)


async def test_nothing_is_missing_when_only_lines_that_were_read_fell_off(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    page = await driver.backend.read_events(c.ReadEventsArgs())
    await driver.complete(x)
    await cut(driver, x.execution_id, keep=1)
    late = await driver.backend.read_events(c.ReadEventsArgs(cursor=page.cursor))
    assert ([each.event for each in late.events], late.truncated) == (["completed"], False)


async def test_a_log_that_began_anew_counts_as_truncated(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    page = await driver.backend.read_events(c.ReadEventsArgs())
    key = keys.events(x.execution_id.tag)
    await driver.backend.client.execute("DEL", key, f"ff:part:{x.execution_id.tag}:event_lines", key=key)
    await driver.complete(x)
    late = await driver.backend.read_events(c.ReadEventsArgs(cursor=page.cursor))
    assert ([each.event for each in late.events], late.truncated) == (["completed"], True)


async def test_lines_stay_in_the_order_of_their_log_when_a_clock_went_back(driver: Driver) -> None:
    execution_id = driver.mint()
    key = keys.events(execution_id.tag)
    times = [driver.clock.now_ms + step for step in (5, 9, 1, 2, 12, 3)]
    await driver.backend.client.execute("SET", f"ff:part:{execution_id.tag}:event_lines", len(times), key=key)
    for number, at_ms in enumerate(times, 1):
        line = f"progress {execution_id} 0 1 "
        await driver.backend.client.execute("XADD", key, f"{number}-0", "at_ms", at_ms, "lines", line, key=key)
    for limit in (1, 2, 100):
        assert [each.at_ms for each in await whole(driver.backend, limit=limit)] == times


CAP = 10_000


def log(driver: Driver) -> str:
    return f"ff:part:{driver.mint().tag}:events"


async def test_a_batch_writes_one_entry(driver: Driver) -> None:
    await submit(driver, 30)
    assert await driver.backend.client.execute("XLEN", log(driver), key=log(driver)) == 1


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

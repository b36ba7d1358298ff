"""Log records are kept per attempt within bounds, read page by page, and go with their execution."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.ids import AttemptId
from flowfabric.errors import Conflict, ExecutionNotFound, InvalidInput
from tests.conformance.driver import Driver, Subject

INFO, WARNING = 20, 30


def entry(text: str, level: int = INFO, at_ms: int = 1_000) -> c.LogEntry:
    return c.LogEntry(at_ms=at_ms, level=level, message=text, logger="app")


async def append(driver: Driver, x: Subject, *entries: c.LogEntry, **overrides: Any) -> int:
    args = {
        "execution_id": x.execution_id, "attempt_index": 0, "attempt_id": x.fence.attempt_id, "writer": "w",
        "first_number": 0, "entries": entries, **overrides,
    }  # fmt: skip
    return (await driver.backend.append_logs(c.AppendLogsArgs(**args))).appended


async def read(driver: Driver, x: Subject, **wanted: Any) -> c.LogPage:
    return await driver.backend.read_logs(c.ReadLogsArgs(execution_id=x.execution_id, **wanted))


async def texts(driver: Driver, x: Subject, **wanted: Any) -> list[str]:
    return [each.message for each in (await read(driver, x, **wanted)).records]


async def test_records_are_read_as_they_were_logged(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    assert await append(driver, x, entry("one"), entry("zwei ✓", WARNING, 2_000)) == 2
    first, second = (await read(driver, x)).records
    assert (first.attempt_index, first.at_ms, first.level) == (0, 1_000, INFO)
    assert (first.logger, first.message) == ("app", "one")
    assert (second.level, second.message) == (WARNING, "zwei ✓")
    assert await texts(driver, x, min_level=WARNING) == ["zwei ✓"]
    assert await texts(driver, x, attempt_index=1) == []
    assert (await driver.info(x)).public_state == "active"


async def test_an_execution_that_logged_nothing_has_no_records(driver: Driver) -> None:
    x = await driver.create()
    assert await read(driver, x) == c.LogPage()


async def test_pages_follow_each_other(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await append(driver, x, *(entry(str(at)) for at in range(25)))
    found, cursor, more = [], None, True
    while more:
        page = await read(driver, x, cursor=cursor, limit=10)
        found += [each.message for each in page.records]
        cursor, more = page.cursor, page.more
    assert found == [str(at) for at in range(25)]
    await append(driver, x, entry("later"), first_number=25)
    assert await texts(driver, x, cursor=cursor) == ["later"]


async def test_a_repeated_call_keeps_no_record_twice(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await append(driver, x, entry("one"), entry("two"))
    assert await append(driver, x, entry("one"), entry("two"), entry("three")) == 1
    assert await append(driver, x, entry("two"), first_number=1) == 0
    assert await append(driver, x, entry("of another"), writer="v") == 1
    assert await texts(driver, x) == ["one", "two", "three", "of another"]


async def test_records_that_come_after_the_end_are_kept(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x)
    await append(driver, x, entry("late"))
    assert await texts(driver, x) == ["late"]


async def test_only_the_attempt_itself_may_log(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(Conflict):
        await append(driver, x, entry("x"), attempt_id=AttemptId.new())
    with pytest.raises(Conflict):
        await append(driver, x, entry("x"), attempt_index=7)
    assert await texts(driver, x) == []


async def test_beyond_the_number_the_oldest_go(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await append(driver, x, *(entry(str(at)) for at in range(7)), max_records=5)
    assert await texts(driver, x) == ["2", "3", "4", "5", "6"]


async def test_beyond_the_bytes_the_oldest_go(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    for at in range(6):
        await append(driver, x, entry(str(at) * 5_000), first_number=at, max_bytes=limits.MIN_LOG_BYTES)
    assert [text[0] for text in await texts(driver, x)] == ["3", "4", "5"]


async def test_beyond_the_age_the_oldest_go(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await append(driver, x, entry("old"))
    await driver.clock.advance(5_000)
    await append(driver, x, entry("new"), first_number=1, max_age_ms=4_000)
    assert await texts(driver, x) == ["new"]


@pytest.mark.parametrize(
    "bad",
    [
        {"entries": ()},
        {"entries": (c.LogEntry(at_ms=0, level=20, message="x" * (limits.LOG_MESSAGE_MAX_BYTES + 1)),)},
        {"entries": (c.LogEntry(at_ms=0, level=-1, message=""),)},
        {"max_bytes": 10},
        {"writer": ""},
    ],
)
async def test_bad_records_are_refused(driver: Driver, bad: dict[str, Any]) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(InvalidInput):
        await append(driver, x, entry("x"), **bad)
    assert await texts(driver, x) == []


async def test_a_wrong_cursor_is_refused(driver: Driver) -> None:
    x = await driver.create()
    with pytest.raises(InvalidInput):
        await read(driver, x, cursor="yesterday")


async def test_records_go_with_their_execution(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await append(driver, x, entry("one"))
    await driver.complete(x)
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    with pytest.raises(ExecutionNotFound):
        await read(driver, x)
    with pytest.raises(ExecutionNotFound):
        await append(driver, x, entry("two"), first_number=1)

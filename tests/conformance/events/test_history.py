"""history: the events of one execution, as far back as its log goes."""

from __future__ import annotations

import pytest

from flowfabric.errors import InvalidInput
from tests.conformance.driver import RETRYING, Driver, Subject


async def eventful(driver: Driver) -> Subject:
    """One that failed, was tried again and completed, with another one's lines in between."""
    other = await driver.create()
    x = await driver.create(policy=RETRYING)
    await driver.run(x)
    await driver.run(other)
    await driver.fail(x, retry_policy_json=None)
    await driver.clock.advance(5_000)
    await driver.promote(x)
    await driver.run(x)
    await driver.cancel(other)
    await driver.complete(x)
    return x


STORY = ["created", "claimed", "retry_scheduled", "promoted", "claimed", "completed"]


async def test_the_history_is_the_executions_own_lines_oldest_first(driver: Driver) -> None:
    x = await eventful(driver)
    page = await driver.backend.history(x.execution_id)
    assert [each.event for each in page.events] == STORY
    assert {each.execution_id for each in page.events} == {x.execution_id}
    assert not page.more


async def test_the_history_comes_in_pages(driver: Driver) -> None:
    x = await eventful(driver)
    found: list[str] = []
    cursor = None
    for _ in range(len(STORY)):
        page = await driver.backend.history(x.execution_id, cursor=cursor, limit=1)
        found += [each.event for each in page.events]
        cursor = page.cursor
    assert found == STORY


async def test_an_unknown_execution_has_no_history(driver: Driver) -> None:
    assert (await driver.backend.history(driver.mint())).events == ()


@pytest.mark.parametrize("limit", [0, 1_001])
async def test_a_page_has_bounds(driver: Driver, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        await driver.backend.history(driver.mint(), limit=limit)

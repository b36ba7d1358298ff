"""A tag has any printable name: it is kept, set and searched for like any other."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from tests.conformance.driver import Driver

NAMES = ["customer", "Ticket-ID", "a b", "a=b", "a:b", "100%", "{fp:1}", "größe", "注文", "a.b", "k" * 128]


async def _having(driver: Driver, name: str, value: str) -> list[str]:
    page = await driver.backend.list_executions(c.ListExecutionsArgs(tags={name: value}))
    return [each.execution_id for each in page.executions]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:10])
async def test_an_execution_is_found_by_it(driver: Driver, name: str) -> None:
    created = await driver.create(tags={name: "1=2"})
    later = await driver.create(tags={})
    assert await _having(driver, name, "1=2") == [created.execution_id]

    await driver.backend.set_execution_tags(c.SetExecutionTagsArgs(execution_id=later.execution_id, tags={name: "3"}))
    await driver.backend.set_execution_tags(c.SetExecutionTagsArgs(execution_id=created.execution_id, tags={name: ""}))
    assert await _having(driver, name, "1=2") == []
    assert await _having(driver, name, "3") == [later.execution_id]
    assert await _having(driver, name, "") == [created.execution_id]
    found = await driver.backend.describe_execution(later.execution_id)
    assert found is not None
    assert found.tags == {name: "3"}


async def test_names_that_look_alike_in_keys_are_kept_apart(driver: Driver) -> None:
    one = await driver.create(tags={"a": "b=c"})
    two = await driver.create(tags={"a=b": "c"})
    assert await _having(driver, "a", "b=c") == [one.execution_id]
    assert await _having(driver, "a=b", "c") == [two.execution_id]

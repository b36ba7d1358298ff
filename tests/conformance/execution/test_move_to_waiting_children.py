from __future__ import annotations

import pytest

from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict
from tests.conformance.driver import Driver


async def test_with_an_open_dependency_it_waits(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.open_dependency(x)
    moved = await driver.move_to_waiting_children(x)
    assert moved.public_state is PublicState.WAITING_CHILDREN
    assert await driver.move_to_waiting_children(x) == moved


async def test_with_nothing_to_wait_for_it_is_refused(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(Conflict) as caught:
        await driver.move_to_waiting_children(x)
    assert caught.value.code == "not_blocked_by_deps"
    await driver.complete(x)

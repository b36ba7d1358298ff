"""describe_execution, get_execution, its state, result and context, list_attempts."""

from __future__ import annotations

import pytest

from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import PublicState
from flowfabric.errors import ExecutionNotFound, InvalidInput
from tests.conformance.driver import INSTANCE, TTL, Driver


async def test_an_unknown_execution_is_absent_not_an_error_for_lookups(driver: Driver) -> None:
    unknown = driver.mint()
    backend = driver.backend
    assert await backend.describe_execution(unknown) is None
    assert await backend.get_execution(unknown) is None
    assert await backend.get_execution_state(unknown) is None
    for read in (backend.get_execution_result, backend.read_execution_context, backend.list_attempts):
        with pytest.raises(ExecutionNotFound):
            await read(unknown)


async def test_describe_shows_attempt_lease_and_tags(driver: Driver) -> None:
    x = await driver.run(await driver.create(tags={"team.a": "1"}))
    await driver.set_tags(x, team__b="2")
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert snapshot.tags == {"team.a": "1", "team.b": "2"}
    assert (snapshot.lane_id, snapshot.namespace, snapshot.total_attempt_count) == ("default", "tests", 1)
    assert snapshot.current_attempt is not None
    assert snapshot.current_attempt.attempt_id == x.fence.attempt_id
    lease = snapshot.current_lease
    assert lease is not None
    assert (lease.lease_epoch, lease.worker_instance_id) == (1, INSTANCE)
    assert lease.expires_at == driver.clock.now_ms + TTL


async def test_describe_says_why_it_waits(driver: Driver) -> None:
    x = await driver.create()
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert (snapshot.public_state, snapshot.blocking_reason) == (PublicState.WAITING, "waiting_for_worker")
    assert snapshot.current_attempt is snapshot.current_lease is None


async def test_last_mutation_follows_every_change(driver: Driver) -> None:
    x = await driver.create()
    for step in (driver.set_tags(x, a__b="c"), driver.change_priority(x, 4), driver.run(x), driver.renew(x)):
        await driver.clock.advance(10)
        await step
        snapshot = await driver.backend.describe_execution(x.execution_id)
        assert snapshot is not None
        assert snapshot.last_mutation_at == driver.clock.now_ms


async def test_progress_is_kept_until_it_is_replaced(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.progress(x, progress_pct=40, progress_message="half way")
    await driver.progress(x, progress_pct=None, progress_message=None)
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert (snapshot.progress_pct, snapshot.progress_message) == (40, "half way")


async def test_attempts_come_in_pages(driver: Driver) -> None:
    x = await driver.create()
    for _ in range(5):
        await driver.run(x)
        await driver.fail(x, retry=True, retry_delay_ms=0)
        await driver.promote(x)
    whole = await driver.backend.list_attempts(x.execution_id)
    assert [attempt.attempt_index for attempt in whole] == [0, 1, 2, 3, 4]
    page = await driver.backend.list_attempts(x.execution_id, from_index=1, limit=2)
    assert page == whole[1:3]
    assert await driver.backend.list_attempts(x.execution_id, from_index=5) == []


@pytest.mark.parametrize(("from_index", "limit"), [(-1, 1), (0, 0), (0, 1001)])
async def test_a_page_has_bounds(driver: Driver, from_index: int, limit: int) -> None:
    x = await driver.create()
    with pytest.raises(InvalidInput):
        await driver.backend.list_attempts(x.execution_id, from_index=from_index, limit=limit)


async def test_an_execution_without_attempts_lists_none(driver: Driver) -> None:
    x = await driver.reach(Situation.WAITING)
    assert await driver.backend.list_attempts(x.execution_id) == []

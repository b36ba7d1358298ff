"""Each transition appends one line to its partition's log, in the same step; a refusal appends none."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.execution.transitions import TRANSITIONS, Move, Situation
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import RETRYING, Driver
from tests.conformance.operations import OPERATIONS
from tests.conformance.situations import reach_for

pytestmark = pytest.mark.every_store


async def lines(driver: Driver, execution_id: ExecutionId) -> list[c.Event]:
    page = await driver.backend.read_events(c.ReadEventsArgs(execution_id=execution_id, limit=1_000))
    return list(page.events)


async def test_a_life_reads_like_a_story(driver: Driver) -> None:
    x = await driver.create(policy=RETRYING)
    await driver.run(x)
    await driver.fail(x, retry_policy_json=None)
    await driver.clock.advance(5_000)
    await driver.promote(x)
    await driver.run(x)
    await driver.complete(x)
    story = await lines(driver, x.execution_id)
    assert [(line.event, line.attempt_index, line.lease_epoch, line.outcome) for line in story] == [
        ("created", None, 0, None),
        ("claimed", 0, 1, "initial"),
        ("retry_scheduled", 0, 1, "transient"),
        ("promoted", 0, 1, None),
        ("claimed", 1, 2, "retry"),
        ("completed", 1, 2, "success"),
    ]
    assert story[-1].at_ms == driver.clock.now_ms


@pytest.mark.parametrize("operation", TRANSITIONS)
async def test_one_line_for_one_transition_and_none_for_a_refusal(driver: Driver, operation: str) -> None:
    for situation in Situation:
        x = await reach_for(driver, operation, situation)
        before = len(await lines(driver, x.execution_id))
        refused = False
        try:
            await OPERATIONS[operation](driver, x)
        except FlowFabricError:
            refused = True
        added = len(await lines(driver, x.execution_id)) - before
        if isinstance(TRANSITIONS[operation][situation], Move):
            assert added == 1, situation
        if refused:
            assert added == 0, situation

"""block_execution_for_admission, unblock_execution, promote_delayed, change_priority."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.rules.execution.transitions import BLOCKED, SITUATIONS, Situation
from flowfabric.core.states import BlockingReason, EligibilityState, PublicState
from flowfabric.errors import Conflict, InvalidInput
from tests.conformance.driver import BACKOFF, Driver


@pytest.mark.parametrize("situation", BLOCKED)
async def test_every_block_has_a_way_back(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert (snapshot.blocking_reason, snapshot.blocking_detail) == (
        SITUATIONS[situation].blocking_reason,
        "because",
    )
    await driver.unblock(x, SITUATIONS[situation].blocking_reason)
    await driver.run(x)


async def test_an_unblock_for_another_reason_is_refused(driver: Driver) -> None:
    x = await driver.reach(Situation.BLOCKED_BY_QUOTA)
    with pytest.raises(Conflict) as caught:
        await driver.unblock(x, BlockingReason.WAITING_FOR_BUDGET)
    assert caught.value.details["state"] == "waiting_for_quota"


async def test_a_block_does_not_swallow_a_delay(driver: Driver) -> None:
    x = await driver.reach(Situation.DELAYED)
    await driver.block(x, BlockingReason.PAUSED_BY_OPERATOR)
    await driver.unblock(x)
    assert (await driver.info(x)).public_state is PublicState.DELAYED
    await driver.clock.advance(BACKOFF)
    assert await driver.promote(x) == c.DelayedPromoted()


async def test_a_block_that_outlasts_the_delay_leads_to_the_queue(driver: Driver) -> None:
    x = await driver.reach(Situation.DELAYED)
    await driver.block(x, BlockingReason.PAUSED_BY_OPERATOR)
    await driver.clock.advance(BACKOFF)
    await driver.unblock(x)
    assert (await driver.info(x)).public_state is PublicState.WAITING


async def test_a_block_does_not_swallow_a_dependency(driver: Driver) -> None:
    x = await driver.reach(Situation.WAITING_CHILDREN)
    await driver.block(x, BlockingReason.WAITING_FOR_BUDGET)
    await driver.unblock(x)
    assert (await driver.state(x)).eligibility_state is EligibilityState.BLOCKED_BY_DEPENDENCIES


async def test_only_admission_reasons_block(driver: Driver) -> None:
    x = await driver.create()
    with pytest.raises(InvalidInput) as caught:
        await driver.block(x, BlockingReason.WAITING_FOR_SIGNAL)
    assert caught.value.code == "invalid_blocking_reason"


async def test_a_promotion_keeps_the_kind_of_the_next_attempt(driver: Driver) -> None:
    x = await driver.reach(Situation.WAITING_RETRY)
    await driver.grant(x)
    assert (await driver.claim(x)).attempt_type == "retry"


async def test_a_stale_entry_is_cleaned(driver: Driver) -> None:
    x = await driver.create()
    assert await driver.promote(x) == c.NothingToPromote(reason="not_delayed_cleaned")

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptRecordState, PublicState
from flowfabric.errors import ExecutionNotActive
from tests.conformance.driver import ATTEMPT_TIMEOUT, Driver


async def test_the_same_attempt_goes_on_after_the_delay(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    delayed = await driver.delay(x, driver.clock.now_ms + 1000)
    assert delayed.public_state is PublicState.DELAYED
    assert isinstance(await driver.promote(x), c.NotYetDue)
    await driver.clock.advance(1000)
    assert isinstance(await driver.promote(x), c.DelayedPromoted)
    await driver.grant(x)
    assert (await driver.claim_resumed(x)).attempt_index == 0
    await driver.complete(x)
    assert len(await driver.backend.list_attempts(x.execution_id)) == 1


async def test_a_delay_in_the_past_is_eligible_at_once(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    delayed = await driver.delay(x, driver.clock.now_ms)
    assert delayed.public_state is PublicState.WAITING
    await driver.grant(x)
    await driver.claim_resumed(x)


async def test_a_delayed_attempt_counts_as_suspended(driver: Driver) -> None:
    x = await driver.reach(Situation.INTERRUPTED_DELAYED)
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert (attempt.state, attempt.ended_at) == (AttemptRecordState.SUSPENDED, None)


async def test_the_attempt_timeout_rests_during_the_delay_and_starts_again_after_it(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.delay(x, driver.clock.now_ms)
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    assert isinstance(await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT), c.NotDue)
    await driver.grant(x)
    await driver.claim_resumed(x)
    assert isinstance(await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT), c.NotDue)
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    assert isinstance(await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT), c.ExecutionExpired)


async def test_the_rest_of_an_attempt_timeout_can_be_given(driver: Driver) -> None:
    x = await driver.reach(Situation.INTERRUPTED_WAITING)
    await driver.grant(x)
    await driver.claim_resumed(x, remaining_attempt_timeout_ms=500)
    await driver.clock.advance(500)
    assert isinstance(await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT), c.ExecutionExpired)


async def test_repeated_it_answers_the_same(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    until = driver.clock.now_ms + 1000
    assert await driver.delay(x, until) == await driver.delay(x, until)
    with pytest.raises(ExecutionNotActive):
        await driver.delay(x, until + 1)

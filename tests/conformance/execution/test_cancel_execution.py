from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.rules.execution.transitions import TERMINAL, Situation
from flowfabric.core.states import AttemptRecordState, PublicState
from flowfabric.errors import ExecutionNotActive, FlowFabricError, LeaseExpired, StaleLease
from tests.conformance.driver import TTL, Driver, made_up_fence

LIVE = [situation for situation in Situation if situation not in TERMINAL]


@pytest.mark.parametrize("situation", LIVE)
async def test_a_cancelled_execution_is_unclaimable_at_once(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    done = await driver.cancel(x)
    assert done.public_state is PublicState.CANCELLED
    await driver.place_grant(x)
    for call in (driver.claim(x), driver.claim_resumed(x), driver.grant_and_claim(x), driver.complete(x)):
        with pytest.raises(FlowFabricError):
            await call


async def test_the_holder_cancels_with_its_fence(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.cancel(x, fence=x.fence, source=c.CancelSource.LEASE_HOLDER)
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert attempt.state is AttemptRecordState.ENDED_CANCELLED


async def test_without_a_valid_fence_only_operator_and_engine_may(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(FlowFabricError) as caught:
        await driver.cancel(x, source=c.CancelSource.LEASE_HOLDER)
    assert caught.value.code == "fence_required"
    with pytest.raises(StaleLease):
        await driver.cancel(x, source=c.CancelSource.LEASE_HOLDER, fence=made_up_fence())
    await driver.cancel(x, source=c.CancelSource.SYSTEM_TIMEOUT)


async def test_a_waiting_execution_has_no_holder_to_cancel_it(driver: Driver) -> None:
    x = await driver.create()
    with pytest.raises(FlowFabricError) as caught:
        await driver.cancel(x, source=c.CancelSource.LEASE_HOLDER)
    assert caught.value.code == "fence_required"
    with pytest.raises(StaleLease):
        await driver.cancel(x, source=c.CancelSource.LEASE_HOLDER, fence=made_up_fence())


async def test_an_expired_lease_cancels_nothing(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.clock.advance(TTL)
    with pytest.raises(LeaseExpired):
        await driver.cancel(x, source=c.CancelSource.LEASE_HOLDER, fence=x.fence)


async def test_repeated_it_answers_the_same_and_writes_nothing(driver: Driver) -> None:
    x = await driver.create()
    first = await driver.cancel(x)
    before = await driver.probe.dump()
    assert await driver.cancel(x, reason="another reason") == first
    assert await driver.probe.dump() == before


async def test_a_completed_execution_is_not_cancelled(driver: Driver) -> None:
    x = await driver.reach(Situation.COMPLETED)
    with pytest.raises(ExecutionNotActive) as caught:
        await driver.cancel(x)
    assert caught.value.details["terminal_outcome"] == "success"

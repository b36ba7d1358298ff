"""renew_lease, mark_lease_expired_if_due, revoke_lease."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import LeaseId
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.errors import LeaseExpired, LeaseRevoked, StaleLease
from tests.conformance.driver import TTL, Driver, made_up_fence


async def test_a_renewed_lease_lasts_from_now(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.clock.advance(TTL - 1)
    renewed = await driver.renew(x)
    assert renewed.expires_at == driver.clock.now_ms + TTL
    await driver.clock.advance(TTL - 1)
    await driver.complete(x)


async def test_the_heartbeat_is_shown(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    claimed_at = driver.clock.now_ms
    await driver.clock.advance(100)
    assert (await _lease(driver, x)).last_heartbeat_at == claimed_at
    await driver.renew(x)
    assert (await _lease(driver, x)).last_heartbeat_at == claimed_at + 100


async def test_a_lease_is_over_at_the_instant_it_expires(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.clock.advance(TTL)
    with pytest.raises(LeaseExpired):
        await driver.renew(x)


async def test_a_stranger_does_not_renew(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    for wrong in ({"fence": made_up_fence()}, {"attempt_index": 1}):
        with pytest.raises(StaleLease):
            await driver.renew(x, **wrong)


async def test_a_lease_that_is_not_due_is_not_marked(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.clock.advance(TTL - 1)
    assert await driver.mark_expired(x) == c.LeaseAlreadySatisfied(reason="not_yet_expired")
    await driver.clock.advance(1)
    assert await driver.mark_expired(x) == c.LeaseMarkedExpired()
    assert await driver.mark_expired(x) == c.LeaseAlreadySatisfied(reason="already_expired")


async def test_a_lost_lease_says_whose_it_was(driver: Driver) -> None:
    x = await driver.reach(Situation.LEASE_EXPIRED)
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert snapshot.blocking_detail == "the lease of worker-1 ran out"
    assert snapshot.current_lease is None


async def test_revoking_takes_the_lease_from_its_holder(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(StaleLease):
        await driver.revoke(x, expected_lease_id=LeaseId.new())
    revoked = await driver.revoke(x, expected_lease_id=x.fence.lease_id)
    assert revoked == c.LeaseRevocation(lease_id=x.fence.lease_id, lease_epoch=1)
    assert await driver.revoke(x) == c.LeaseAlreadySatisfied(reason="already_revoked")
    with pytest.raises(LeaseRevoked):
        await driver.renew(x)


async def _lease(driver: Driver, x: object) -> c.LeaseSummary:
    snapshot = await driver.backend.describe_execution(x.execution_id)  # type: ignore[attr-defined]
    assert snapshot is not None
    assert snapshot.current_lease is not None
    return snapshot.current_lease

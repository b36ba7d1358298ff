"""issue_reclaim_grant and reclaim_execution."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import WorkerInstanceId
from flowfabric.core.lease_handle import HandleKind
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptRecordState, AttemptType, PublicState
from flowfabric.errors import CapabilityMismatch, ExecutionNotFound, StaleLease
from tests.conformance.driver import TTL, Driver, Subject

LOST = [Situation.LEASE_EXPIRED, Situation.LEASE_REVOKED]


@pytest.mark.parametrize("situation", LOST)
async def test_a_lost_execution_gets_a_new_attempt(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    stale = x.fence
    granted = await driver.reclaim_grant(x)
    assert isinstance(granted, c.ReclaimGrantIssued)
    assert granted.grant.partition_key == x.execution_id.tag
    result = await driver.reclaim(x, worker_instance_id=WorkerInstanceId("worker-2"))
    assert isinstance(result, c.ReclaimedExecution)
    assert (result.new_attempt_index, result.new_lease_epoch) == (1, 2)
    assert result.handle.kind is HandleKind.RECLAIMED
    with pytest.raises(StaleLease):
        await driver.complete(x, fence=stale)
    first, second = await driver.backend.list_attempts(x.execution_id)
    assert (first.state, second.state) == (
        AttemptRecordState.INTERRUPTED_RECLAIMED,
        AttemptRecordState.STARTED,
    )
    assert (second.attempt_type, second.worker_instance_id) == (AttemptType.RECLAIM, "worker-2")
    await driver.complete(x)


async def test_a_running_execution_is_not_reclaimable(driver: Driver) -> None:
    x = await driver.reach(Situation.ACTIVE)
    assert isinstance(await driver.reclaim_grant(x), c.NotReclaimable)
    assert isinstance(await driver.reclaim(x), c.NotReclaimable)


async def test_without_a_grant_nothing_is_reclaimed(driver: Driver) -> None:
    x = await driver.reach(Situation.LEASE_EXPIRED)
    assert await driver.reclaim(x) == c.GrantNotFound(execution_id=x.execution_id)
    await driver.reclaim_grant(x, grant_ttl_ms=1000)
    await driver.clock.advance(1001)
    assert await driver.reclaim(x) == c.GrantNotFound(execution_id=x.execution_id)


@pytest.mark.parametrize("situation", LOST)
@pytest.mark.parametrize("at_grant", [True, False])
async def test_at_the_cap_the_execution_fails_for_good(driver: Driver, situation: Situation, at_grant: bool) -> None:
    x = await driver.reach(situation, policy=ExecutionPolicy(max_reclaim_count=0))
    if not at_grant:
        await driver.place_grant(x)
    result = await driver.reclaim_grant(x) if at_grant else await driver.reclaim(x)
    assert result == c.ReclaimCapExceeded(execution_id=x.execution_id, reclaim_count=0)
    assert (await driver.info(x)).public_state is PublicState.FAILED
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert attempt.state is AttemptRecordState.ENDED_FAILURE
    assert attempt.failure_reason == (
        f"the worker {attempt.worker_instance_id} stopped renewing its lease (max_reclaims_exceeded)"
    )


async def test_the_cap_counts_reclaims(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=ExecutionPolicy(max_reclaim_count=2)))
    outcomes = []
    for _ in range(3):
        await driver.clock.advance(TTL)
        await driver.mark_expired(x)
        await driver.place_grant(x)
        outcomes.append(type(await driver.reclaim(x)))
    assert outcomes == [c.ReclaimedExecution, c.ReclaimedExecution, c.ReclaimCapExceeded]


async def test_a_reclaimer_needs_the_capabilities(driver: Driver) -> None:
    policy = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
    x = await driver.create(policy=policy)
    await driver.grant_and_claim(x, worker_capabilities=("gpu",))
    await driver.revoke(x)
    with pytest.raises(CapabilityMismatch):
        await driver.reclaim_grant(x)
    assert await driver.reclaim_grant(x, worker_capabilities=("gpu",))


async def test_an_unknown_execution_is_not_found(driver: Driver) -> None:
    x = Subject(driver.mint())
    with pytest.raises(ExecutionNotFound):
        await driver.reclaim_grant(x)
    with pytest.raises(ExecutionNotFound):
        await driver.reclaim(x)

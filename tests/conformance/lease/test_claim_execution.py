from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, LeaseId, WorkerId
from flowfabric.core.lease_handle import HandleKind, decode_handle
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements, TimeoutPolicy
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptType, LaneState
from flowfabric.errors import CapabilityMismatch, Conflict, FlowFabricError
from tests.conformance.driver import LANE, TTL, Driver

pytestmark = pytest.mark.every_store

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))


async def test_a_claim_starts_an_attempt_under_a_lease(driver: Driver) -> None:
    x = await driver.create()
    await driver.grant(x)
    claimed = await driver.claim(x)
    assert (claimed.attempt_index, claimed.lease_epoch, claimed.attempt_type) == (0, 1, AttemptType.INITIAL)
    assert claimed.lease_expires_at == driver.clock.now_ms + TTL
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert snapshot.current_lease is not None
    assert snapshot.current_lease.lease_id == claimed.lease_id


async def test_the_handle_carries_the_fence(driver: Driver) -> None:
    x = await driver.create()
    await driver.grant(x)
    claimed = await driver.claim(x)
    payload = decode_handle(claimed.handle)
    assert claimed.handle.kind is HandleKind.FRESH
    assert (payload.lease_id, payload.lease_epoch, payload.attempt_id) == (
        claimed.lease_id, claimed.lease_epoch, claimed.attempt_id,
    )  # fmt: skip
    assert (payload.execution_id, payload.lane_id, payload.lease_ttl_ms) == (x.execution_id, LANE, TTL)


@pytest.mark.parametrize(
    ("situation", "kind", "index"),
    [
        (Situation.WAITING, AttemptType.INITIAL, 0),
        (Situation.WAITING_RETRY, AttemptType.RETRY, 1),
        (Situation.WAITING_REPLAY, AttemptType.REPLAY, 1),
    ],
)
async def test_the_attempt_says_why_it_was_started(
    driver: Driver, situation: Situation, kind: AttemptType, index: int
) -> None:
    x = await driver.reach(situation)
    await driver.grant(x)
    claimed = await driver.claim(x)
    assert (claimed.attempt_type, claimed.attempt_index, claimed.lease_epoch) == (kind, index, index + 1)


async def test_epochs_only_grow(driver: Driver) -> None:
    x = await driver.create()
    epochs = []
    for _ in range(4):
        await driver.grant(x)
        epochs.append((await driver.claim(x)).lease_epoch)
        await driver.fail(x, retry=True, retry_delay_ms=0)
        await driver.promote(x)
    assert epochs == [1, 2, 3, 4]


async def test_a_grant_is_for_one_worker_and_used_once(driver: Driver) -> None:
    x = await driver.create()
    await driver.grant(x)
    with pytest.raises(Conflict) as caught:
        await driver.claim(x, worker_id=WorkerId("thief"))
    assert caught.value.code == "invalid_claim_grant"
    await driver.claim(x)
    with pytest.raises(Conflict):
        await driver.claim(x)


async def test_a_grant_runs_out(driver: Driver) -> None:
    x = await driver.create()
    issued = await driver.grant(x, grant_ttl_ms=1000)
    assert issued.expires_at_ms == driver.clock.now_ms + 1000
    await driver.clock.advance(1001)
    with pytest.raises(Conflict) as caught:
        await driver.claim(x)
    assert caught.value.code == "claim_grant_expired"
    assert await driver.grant(x), "a grant that ran out does not hold the execution"


async def test_many_grants_may_be_out_in_one_lane(driver: Driver) -> None:
    subjects = [await driver.create() for _ in range(5)]
    for x in subjects:
        await driver.grant(x)
    for x in reversed(subjects):
        await driver.claim(x)


async def test_a_capability_mismatch_moves_nothing(driver: Driver) -> None:
    x = await driver.create(policy=GPU)
    with pytest.raises(CapabilityMismatch) as caught:
        await driver.grant(x)
    assert caught.value.details["missing"] == "gpu"
    assert await driver.grant(x, worker_capabilities=("eu", "gpu"))


async def test_the_one_step_claim_checks_capabilities_too(driver: Driver) -> None:
    x = await driver.create(policy=GPU)
    with pytest.raises(CapabilityMismatch):
        await driver.grant_and_claim(x)
    assert await driver.grant_and_claim(x, worker_capabilities=("gpu",))


async def test_the_one_step_claim_resumes_an_interrupted_attempt(driver: Driver) -> None:
    x = await driver.reach(Situation.INTERRUPTED_WAITING)
    attempt = x.fence.attempt_id
    claimed = await driver.grant_and_claim(x)
    assert isinstance(claimed, c.ClaimedResumedExecution)
    assert (claimed.attempt_id, claimed.attempt_index, claimed.lease_epoch) == (attempt, 0, 2)
    assert claimed.handle.kind is HandleKind.RESUMED


@pytest.mark.needs("chosen_ids")
@pytest.mark.parametrize("situation", [Situation.WAITING, Situation.WAITING_RETRY, Situation.INTERRUPTED_WAITING])
async def test_the_one_step_claim_answers_the_same_when_its_answer_was_lost(
    driver: Driver, situation: Situation
) -> None:
    x = await driver.reach(situation)
    ids = {"lease_id": LeaseId.new(), "attempt_id": AttemptId.new()}
    first = await driver.backend.issue_grant_and_claim(driver.one_step_args(x, **ids))
    before = await driver.probe.dump()
    assert await driver.backend.issue_grant_and_claim(driver.one_step_args(x, **ids)) == first
    assert await driver.probe.dump() == before


async def test_resuming_keeps_the_attempt_and_gives_a_new_lease(driver: Driver) -> None:
    x = await driver.reach(Situation.INTERRUPTED_WAITING)
    before = x.fence
    await driver.grant(x)
    claimed = await driver.claim_resumed(x)
    assert (claimed.attempt_id, claimed.lease_epoch) == (before.attempt_id, before.lease_epoch + 1)
    assert claimed.lease_id != before.lease_id


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.DRAINING, LaneState.DISABLED])
async def test_a_lane_that_is_not_active_starts_nothing(driver: Driver, state: LaneState) -> None:
    x, granted = await driver.create(), await driver.create()
    await driver.grant(granted)
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))
    for call in (driver.grant(x), driver.grant_and_claim(x), driver.claim(granted)):
        with pytest.raises(FlowFabricError, match=f"lane_{state}"):
            await call
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.ACTIVE))
    assert await driver.claim(granted)


async def test_a_draining_lane_finishes_what_was_started(driver: Driver) -> None:
    x = await driver.reach(Situation.INTERRUPTED_WAITING)
    result = await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.DRAINING))
    assert result == c.LaneStateSet(partitions=driver.backend.partitions.num_flow_partitions)
    assert await driver.grant_and_claim(x)
    await driver.complete(x)


async def test_the_attempt_timeout_of_the_policy_applies_to_every_attempt(driver: Driver) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(attempt_timeout_ms=1000))
    x = await driver.create(policy=policy)
    await driver.run(x, attempt_timeout_ms=None)
    await driver.fail(x, retry=True, retry_delay_ms=0)
    await driver.promote(x)
    await driver.clock.advance(1500)
    await driver.run(x, attempt_timeout_ms=None)
    assert isinstance(await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT), c.NotDue)
    await driver.clock.advance(1000)
    assert isinstance(await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT), c.ExecutionExpired)

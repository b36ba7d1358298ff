from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.policy import ExecutionPolicy, TimeoutPolicy
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptRecordState, AttemptType, PublicState
from flowfabric.errors import Limited
from tests.conformance.driver import Driver

ENDED = {
    Situation.COMPLETED: AttemptRecordState.ENDED_SUCCESS,
    Situation.FAILED: AttemptRecordState.ENDED_FAILURE,
    Situation.EXPIRED: AttemptRecordState.ENDED_FAILURE,
    Situation.CANCELLED: AttemptRecordState.ENDED_CANCELLED,
}


@pytest.mark.parametrize("situation", ENDED)
async def test_a_replay_runs_again_and_keeps_how_it_ended_before(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    assert await driver.replay(x) == c.ExecutionReplayed(public_state=PublicState.WAITING)
    info = await driver.info(x)
    assert info.completed_at is None
    await driver.run(x)
    await driver.complete(x, result_payload=b"second")
    before, after = await driver.backend.list_attempts(x.execution_id)
    assert before.state is ENDED[situation]
    assert (after.state, after.attempt_type) == (AttemptRecordState.ENDED_SUCCESS, AttemptType.REPLAY)
    result = await driver.backend.get_execution_result(x.execution_id)
    assert result is not None
    assert result.payload == b"second"


async def test_a_replayed_execution_shows_no_old_result(driver: Driver) -> None:
    x = await driver.reach(Situation.COMPLETED)
    await driver.replay(x)
    assert await driver.backend.get_execution_result(x.execution_id) is None


async def test_an_execution_that_never_ran_can_be_replayed(driver: Driver) -> None:
    x = await driver.create()
    await driver.cancel(x)
    await driver.replay(x)
    await driver.grant(x)
    claimed = await driver.claim(x)
    assert (claimed.attempt_index, claimed.attempt_type) == (0, AttemptType.REPLAY)


async def test_replays_are_limited_by_the_policy(driver: Driver) -> None:
    x = await driver.create(policy=ExecutionPolicy(max_replay_count=1))
    await driver.cancel(x)
    await driver.replay(x)
    await driver.cancel(x)
    with pytest.raises(Limited) as caught:
        await driver.replay(x)
    assert (caught.value.code, caught.value.details["max_replay_count"]) == ("max_replays_exhausted", "1")


async def test_a_deadline_of_the_policy_starts_again(driver: Driver) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(execution_deadline_ms=1000))
    x = await driver.create(policy=policy, execution_deadline_at=None)
    await driver.cancel(x)
    await driver.clock.advance(5000)
    await driver.replay(x)
    assert await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE) == c.NotDue()
    await driver.clock.advance(1000)
    assert isinstance(await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE), c.ExecutionExpired)

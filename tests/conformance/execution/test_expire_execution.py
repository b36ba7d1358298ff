from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptRecordState, PublicState
from tests.conformance.driver import ATTEMPT_TIMEOUT, BACKOFF, DEADLINE_IN, RETRYING, TTL, Driver, Subject

DEADLINE, TIMEOUT = c.ExpireReason.EXECUTION_DEADLINE, c.ExpireReason.ATTEMPT_TIMEOUT


async def test_a_deadline_that_is_not_due_changes_nothing(driver: Driver) -> None:
    x = await driver.create()
    await driver.clock.advance(DEADLINE_IN - 1)
    assert await driver.expire(x, DEADLINE) == c.NotDue()
    await driver.clock.advance(1)
    assert await driver.expire(x, DEADLINE) == c.ExecutionExpired(execution_id=x.execution_id)
    assert await driver.expire(x, DEADLINE) == c.AlreadyTerminal()


async def test_an_unknown_execution_counts_as_over(driver: Driver) -> None:
    assert await driver.expire(Subject(driver.mint()), DEADLINE) == c.AlreadyTerminal()
    assert await driver.backend.describe_execution(ExecutionId(driver.mint())) is None


async def test_a_timeout_fails_the_attempt_and_follows_the_retry_policy(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    assert await driver.expire(x, TIMEOUT) == c.RetryScheduled(delay_until=driver.clock.now_ms + BACKOFF)
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert (attempt.state, attempt.failure_category) == (AttemptRecordState.ENDED_FAILURE, "timeout")


async def test_whoever_lost_a_race_with_a_new_attempt_does_not_kill_it(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    await driver.fail(x, retry_policy_json=None)
    await driver.clock.advance(BACKOFF)
    await driver.promote(x)
    await driver.run(x)
    assert await driver.expire(x, TIMEOUT) == c.NotDue()
    assert (await driver.info(x)).public_state is PublicState.ACTIVE


async def test_a_reclaimed_attempt_gets_a_fresh_timeout(driver: Driver) -> None:
    x = await driver.run(await driver.create(), lease_ttl_ms=ATTEMPT_TIMEOUT - 1000)
    await driver.clock.advance(ATTEMPT_TIMEOUT - 500)
    await driver.mark_expired(x)
    await driver.reclaim_grant(x)
    await driver.reclaim(x, lease_ttl_ms=10 * TTL)
    await driver.clock.advance(1000)
    assert await driver.expire(x, TIMEOUT) == c.NotDue()
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    assert await driver.expire(x, TIMEOUT) == c.ExecutionExpired(execution_id=x.execution_id)


async def test_renewing_the_lease_does_not_move_the_attempt_timeout(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    await driver.renew(x)
    assert await driver.expire(x, TIMEOUT) == c.ExecutionExpired(execution_id=x.execution_id)


async def test_a_deadline_ends_a_running_attempt(driver: Driver) -> None:
    x = await driver.reach(Situation.ACTIVE)
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(x, DEADLINE)
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert (attempt.state, attempt.failure_reason) == (AttemptRecordState.ENDED_FAILURE, "execution_deadline")

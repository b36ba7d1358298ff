from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.policy import ExecutionPolicy, ExponentialBackoff, FixedBackoff, RetryPolicy
from flowfabric.core.rules.execution.retry import backoff_delay_ms
from flowfabric.core.states import AttemptRecordState, PublicState
from flowfabric.errors import ExecutionNotActive, InvalidInput
from tests.conformance.driver import BACKOFF, RETRYING, Driver


async def test_without_retries_the_execution_fails(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    assert await driver.fail(x) == c.TerminalFailed()
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert (attempt.state, attempt.failure_reason, attempt.failure_category) == (
        AttemptRecordState.ENDED_FAILURE, "boom", "transient",
    )  # fmt: skip


async def test_the_stored_policy_decides_when_none_is_given(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    result = await driver.fail(x, retry_policy_json=None)
    assert result == c.RetryScheduled(delay_until=driver.clock.now_ms + BACKOFF)


async def test_retries_are_used_up_one_by_one(driver: Driver) -> None:
    policy = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=2, backoff=FixedBackoff(delay_ms=10)))
    x = await driver.create(policy=policy)
    outcomes = []
    for _ in range(3):
        await driver.run(x)
        outcomes.append(type(await driver.fail(x, retry_policy_json=None)))
        await driver.clock.advance(10)
        await driver.promote(x)
    assert outcomes == [c.RetryScheduled, c.RetryScheduled, c.TerminalFailed]
    states = [attempt.state for attempt in await driver.backend.list_attempts(x.execution_id)]
    assert states == [AttemptRecordState.ENDED_FAILURE] * 3


async def test_exponential_backoff_grows_to_its_ceiling(driver: Driver) -> None:
    backoff = ExponentialBackoff(initial_delay_ms=100, max_delay_ms=500, multiplier=2.0)
    policy = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=10, backoff=backoff))
    x = await driver.create(policy=policy)
    delays = []
    for _ in range(5):
        await driver.run(x)
        result = await driver.fail(x, retry_policy_json=None)
        assert isinstance(result, c.RetryScheduled)
        delays.append(result.delay_until - driver.clock.now_ms)
        await driver.clock.advance(500)
        await driver.promote(x)
    assert delays == [backoff_delay_ms(backoff, count) for count in range(5)] == [100, 200, 400, 500, 500]


async def test_jitter_spreads_retries_within_the_upper_half(driver: Driver) -> None:
    backoff = ExponentialBackoff(initial_delay_ms=10_000, max_delay_ms=10_000, multiplier=1.0, jitter=True)
    policy = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=1, backoff=backoff))
    delays = set()
    for _ in range(8):
        x = await driver.run(await driver.create(policy=policy))
        result = await driver.fail(x, retry_policy_json=None)
        assert isinstance(result, c.RetryScheduled)
        delays.add(result.delay_until - driver.clock.now_ms)
    assert all(5_000 <= delay <= 10_000 for delay in delays)
    assert len(delays) > 1


async def test_only_the_named_categories_are_retried(driver: Driver) -> None:
    policy = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=5, retryable_categories=("transient",)))
    kept = await driver.run(await driver.create(policy=policy))
    lost = await driver.run(await driver.create(policy=policy))
    assert isinstance(await driver.fail(kept, retry_policy_json=None), c.RetryScheduled)
    assert await driver.fail(lost, retry_policy_json=None, failure_category="permanent") == c.TerminalFailed()


async def test_a_delay_asked_for_by_the_handler_wins_within_a_cap(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    asked = await driver.fail(x, retry_policy_json=None, retry_delay_ms=77)
    y = await driver.run(await driver.create(policy=RETRYING))
    capped = await driver.fail(y, retry_policy_json=None, retry_delay_ms=7 * 86_400_000)
    assert asked == c.RetryScheduled(delay_until=driver.clock.now_ms + 77)
    assert capped == c.RetryScheduled(delay_until=driver.clock.now_ms + 86_400_000)


async def test_repeated_with_the_same_fence_it_answers_the_same_and_writes_nothing(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    y = await driver.run(await driver.create())
    first = [await driver.fail(x, retry_policy_json=None), await driver.fail(y)]
    before = await driver.probe.dump()
    await driver.clock.advance(1)
    assert [await driver.fail(x, retry_policy_json=None), await driver.fail(y)] == first
    assert await driver.probe.dump() == before


async def test_a_failure_is_not_mistaken_for_an_earlier_delay(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    await driver.delay(x, driver.clock.now_ms + 1000)
    with pytest.raises(ExecutionNotActive) as caught:
        await driver.fail(x, retry_policy_json=None)
    assert caught.value.details["attempt_state"] == "attempt_interrupted"


async def test_the_next_attempt_starts_clean(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    await driver.fail(x, retry_policy_json=None)
    await driver.clock.advance(BACKOFF)
    await driver.promote(x)
    await driver.run(x)
    await driver.complete(x)
    first, second = await driver.backend.list_attempts(x.execution_id)
    assert (first.state, first.failure_reason) == (AttemptRecordState.ENDED_FAILURE, "boom")
    assert (second.state, second.failure_reason) == (AttemptRecordState.ENDED_SUCCESS, None)
    assert (await driver.info(x)).public_state is PublicState.COMPLETED


async def test_a_malformed_retry_policy_is_refused(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(InvalidInput, match="retry_policy"):
        await driver.fail(x, retry_policy_json='{"max_retries": -1}')
    assert (await driver.info(x)).public_state is PublicState.ACTIVE

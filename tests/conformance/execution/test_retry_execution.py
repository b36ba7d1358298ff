"""Retry: what ended without a result runs again with its steps, its ended waits and all retries of its policy."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy, TimeoutPolicy
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptRecordState, AttemptType, PublicState
from flowfabric.errors import Conflict
from tests.conformance.driver import DEADLINE_IN, Driver, Subject

GOES_ON = {
    Situation.FAILED: AttemptRecordState.ENDED_FAILURE,
    Situation.EXPIRED: AttemptRecordState.ENDED_FAILURE,
    Situation.CANCELLED: AttemptRecordState.ENDED_CANCELLED,
}
ONCE = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0)))


async def record(driver: Driver, x: Subject, name: str, payload: bytes) -> c.RecordStepResult:
    args = c.RecordStepArgs(execution_id=x.execution_id, fence=x.fence, step=c.StepKey(name=name), payload=payload)
    return await driver.backend.record_step(args)


async def steps(driver: Driver, x: Subject) -> dict[str, bytes]:
    page = await driver.backend.read_steps(c.ReadStepsArgs(execution_id=x.execution_id))
    return {each.name: each.payload for each in page.steps}


@pytest.mark.parametrize("situation", GOES_ON)
async def test_a_retry_is_a_new_attempt_beside_the_old_one(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    assert await driver.retry(x) == c.ExecutionRetried(public_state=PublicState.WAITING)
    assert (await driver.info(x)).completed_at is None
    await driver.run(x)
    await driver.complete(x, result_payload=b"second")
    before, after = await driver.backend.list_attempts(x.execution_id)
    assert before.state is GOES_ON[situation]
    assert (after.state, after.attempt_type) == (AttemptRecordState.ENDED_SUCCESS, AttemptType.RETRY)
    await driver.probe.check()


@pytest.mark.parametrize("end", ["fail", "cancel", "expire"])
async def test_steps_are_kept(driver: Driver, end: str) -> None:
    x = await driver.create()
    await driver.run(x)
    await record(driver, x, "charge", b"paid")
    if end == "expire":
        await driver.clock.advance(DEADLINE_IN)
        await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)
    else:
        await (driver.fail(x) if end == "fail" else driver.cancel(x))
    await driver.retry(x)
    await driver.run(x)
    assert await steps(driver, x) == {"charge": b"paid"}
    assert isinstance(await record(driver, x, "charge", b"again"), c.StepAlreadyRecorded)
    assert await record(driver, x, "send", b"sent") == c.StepRecorded()
    assert await steps(driver, x) == {"charge": b"paid", "send": b"sent"}


async def test_a_replay_starts_without_steps(driver: Driver) -> None:
    x = await driver.create()
    await driver.run(x)
    await record(driver, x, "charge", b"paid")
    await driver.fail(x)
    await driver.replay(x)
    await driver.run(x)
    assert await steps(driver, x) == {}


@pytest.mark.parametrize("again", ["retry", "replay"])
async def test_all_retries_of_the_policy_are_there_again(driver: Driver, again: str) -> None:
    x = await driver.create(policy=ONCE)
    outcomes: list[object] = []
    for _ in range(2):
        for _ in range(2):
            await driver.run(x)
            outcomes.append(type(await driver.fail(x, retry_policy_json=None)))
            await driver.promote(x)
        await (driver.retry(x) if again == "retry" else driver.replay(x))
    assert outcomes == [c.RetryScheduled, c.TerminalFailed, c.RetryScheduled, c.TerminalFailed]


async def test_an_execution_that_never_ran_gets_its_first_attempt(driver: Driver) -> None:
    x = await driver.create()
    await driver.cancel(x)
    await driver.retry(x)
    await driver.grant(x)
    claimed = await driver.claim(x)
    assert (claimed.attempt_index, claimed.attempt_type) == (0, AttemptType.INITIAL)


async def test_a_deadline_of_the_policy_starts_again(driver: Driver) -> None:
    policy = ExecutionPolicy(timeout_policy=TimeoutPolicy(execution_deadline_ms=1000))
    x = await driver.create(policy=policy, execution_deadline_at=None)
    await driver.clock.advance(1000)
    await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)
    await driver.clock.advance(5000)
    await driver.retry(x)
    assert await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE) == c.NotDue()
    await driver.clock.advance(1000)
    assert isinstance(await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE), c.ExecutionExpired)


async def test_a_deadline_at_a_time_that_has_passed_does_not_end_it_again(driver: Driver) -> None:
    x = await driver.reach(Situation.EXPIRED)
    await driver.retry(x)
    await driver.clock.advance(DEADLINE_IN)
    assert await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE) == c.NotDue()


@pytest.mark.parametrize(
    ("situation", "code"),
    [
        (Situation.WAITING, "execution_not_terminal"),
        (Situation.ACTIVE, "execution_not_terminal"),
        (Situation.COMPLETED, "retry_not_allowed"),
        (Situation.SKIPPED, "retry_not_allowed"),
    ],
)
async def test_a_refusal_names_the_state(driver: Driver, situation: Situation, code: str) -> None:
    x = await driver.reach(situation)
    with pytest.raises(Conflict) as caught:
        await driver.retry(x)
    state = await driver.backend.get_execution_state(x.execution_id)
    assert (caught.value.code, caught.value.details["state"]) == (code, str(state))

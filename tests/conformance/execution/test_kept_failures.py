"""Each failed attempt keeps its exception, and says who lost it when its worker was lost."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts import batch as b
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput
from tests.conformance.driver import TTL, Driver, Subject
from tests.stores.batched import partition_of

OFTEN = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=100, backoff=FixedBackoff(delay_ms=10)))
FRAME = c.FailureFrame(file="app.py", line=3, function="pay", source="charge(card)")


def detail(text: str) -> c.FailureDetail:
    behind = c.FailureDetail(type="OSError", message="refused", notes=("port 80",))
    return c.FailureDetail(type="app.Declined", message=text, frames=(FRAME,), cause=behind)


async def lose(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(TTL)
    await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition_of(x.execution_id)))


async def test_each_failed_attempt_keeps_its_own_exception(driver: Driver) -> None:
    x = await driver.create(policy=OFTEN)
    for text in ("one", "two"):
        await driver.run(x)
        await driver.fail(x, retry_policy_json=None, failure_detail=detail(text))
        await driver.clock.advance(10)
        await driver.promote(x)
    await driver.run(x)
    await driver.fail(x, failure_detail=detail("three"))
    kept = [each.failure_detail for each in await driver.backend.list_attempts(x.execution_id)]
    assert kept == [detail("one"), detail("two"), detail("three")]


async def test_an_attempt_without_an_exception_keeps_none(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.fail(x)
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert attempt.failure_detail is None


async def test_of_many_attempts_the_latest_keep_their_exceptions(driver: Driver) -> None:
    x = await driver.create(policy=OFTEN)
    count = limits.MAX_FAILURE_DETAILS + 2
    for at in range(count):
        await driver.run(x)
        await driver.fail(x, retry_policy_json=None, failure_detail=detail(str(at)))
        await driver.clock.advance(10)
        await driver.promote(x)
    attempts = await driver.backend.list_attempts(x.execution_id)
    assert [each.failure_detail is None for each in attempts] == [True, True] + [False] * (count - 2)
    assert all(each.failure_reason == "boom" for each in attempts)


async def test_an_exception_that_is_too_large_is_refused(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(InvalidInput, match="failure_detail"):
        await driver.fail(x, failure_detail=detail("x" * limits.FAILURE_DETAIL_MAX_BYTES))
    assert (await driver.info(x)).public_state is PublicState.ACTIVE


async def test_a_lost_attempt_names_its_worker(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=ExecutionPolicy(max_reclaim_count=1)))
    worker = (await driver.backend.list_attempts(x.execution_id))[0].worker_instance_id
    await lose(driver, x)
    (lost,) = await driver.backend.list_attempts(x.execution_id)
    assert lost.failure_reason == f"the worker {worker} stopped renewing its lease"
    await driver.run(x)
    await lose(driver, x)
    snapshot = await driver.backend.describe_execution(x.execution_id)
    assert snapshot is not None
    assert snapshot.failure_reason == (
        f"the worker {worker} stopped renewing its lease, like 1 before it (max_reclaims_exceeded)"
    )

"""A retry keeps how waits ended; a wait that fell with its execution begins again, at the links that are out."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from tests.conformance.driver import Driver, Subject
from tests.conformance.suspending import Suspender

POINTER, KEY, NAME = "signal:approve#0", WaitpointKey("door"), "approve"
DAY = 86_400_000


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def suspended_at_a_link(waits: Suspender, **given: Any) -> tuple[Subject, c.PendingWaitpointCreated]:
    x = await waits.running()
    at = await waits.pending(x, KEY)
    place = c.PendingWaitpoint(waitpoint_id=at.waitpoint_id, waitpoint_key=KEY)
    await waits.suspend(x, Single(KEY, ByName(NAME)), place, continuation_metadata_pointer=POINTER, **given)
    return x, at


async def test_how_the_last_wait_ended_is_kept(waits: Suspender) -> None:
    x, at = await waits.suspended(continuation_metadata_pointer=POINTER)
    await waits.signal(x, at)
    await waits.driver.grant_and_claim(x)
    await waits.driver.fail(x)
    before = await waits.resume_signals(x)
    await waits.driver.retry(x)
    await waits.driver.run(x)
    assert await waits.resume_signals(x) == before
    assert before.continuation_metadata_pointer == POINTER


@pytest.mark.parametrize("end", ["cancel", "time_out"])
async def test_a_wait_that_fell_begins_again(waits: Suspender, end: str) -> None:
    given: dict[str, Any] = {"timeout_ms": 1000, "timeout_behavior": TimeoutBehavior.FAIL} if end == "time_out" else {}
    x, _ = await waits.suspended(continuation_metadata_pointer=POINTER, **given)
    if end == "cancel":
        await waits.driver.cancel(x)
    else:
        await waits.driver.clock.advance(1000)
        await waits.backend.expire_suspension(c.ExpireSuspensionArgs(execution_id=x.execution_id))
    await waits.driver.retry(x)
    assert (await waits.resume_signals(x)).close_reason is None
    await waits.driver.run(x)
    assert isinstance(await waits.suspend(x), c.ExecutionSuspended)
    await waits.probe.check()


async def test_a_link_that_is_out_works_for_the_wait_that_begins_again(waits: Suspender) -> None:
    x, at = await suspended_at_a_link(waits)
    await waits.driver.cancel(x)
    await waits.driver.retry(x)
    early = await waits.signal(x, at, NAME)
    assert isinstance(early, c.SignalAccepted)
    await waits.driver.run(x)
    place = c.PendingWaitpoint(waitpoint_id=at.waitpoint_id, waitpoint_key=KEY)
    again = await waits.backend.suspend_execution(waits.args(x, Single(KEY, ByName(NAME)), place))
    assert isinstance(again, c.SuspensionAlreadySatisfied)
    await waits.probe.check()


async def test_a_link_that_ran_out_before_its_wait_is_open_for_another_day(waits: Suspender) -> None:
    x = await waits.running()
    at = await waits.backend.create_pending_waitpoint(waits.pending_args(x, KEY, expires_in_ms=1000))
    await waits.driver.fail(x)
    await waits.driver.clock.advance(1000)
    await waits.due(x)
    await waits.driver.retry(x)
    await waits.driver.clock.advance(DAY - 1)
    assert isinstance(await waits.signal(x, at, NAME), c.SignalAccepted)


async def test_a_link_that_was_used_stays_used(waits: Suspender) -> None:
    x, at = await suspended_at_a_link(waits)
    await waits.signal(x, at, NAME)
    await waits.driver.grant_and_claim(x)
    await waits.driver.fail(x)
    await waits.driver.retry(x)
    page = await waits.backend.list_pending_waitpoints(c.ListPendingWaitpointsArgs(execution_id=x.execution_id))
    assert page.entries == ()


async def test_a_fork_has_the_answer_to_the_last_wait_even_when_its_source_is_deleted(waits: Suspender) -> None:
    x, at = await suspended_at_a_link(waits)
    await waits.signal(x, at, NAME, payload=b"yes")
    await waits.driver.grant_and_claim(x)
    await waits.driver.fail(x)
    fork = Subject((await waits.driver.fork(x)).execution_id)
    await waits.probe.check()
    trimmed = await waits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert isinstance(trimmed, c.ExecutionsTrimmed)
    assert trimmed.deleted == 1
    page = await waits.resume_signals(fork)
    assert (page.close_reason, page.continuation_metadata_pointer) == ("resumed", POINTER)
    assert [(each.signal_name, each.payload) for each in page.signals] == [(NAME, b"yes")]
    await waits.driver.run(fork)
    assert isinstance(await waits.suspend(fork), c.ExecutionSuspended)
    await waits.driver.cancel(fork)
    await waits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    await waits.probe.check()

"""list_resume_signals: how the latest suspension ended, as the worker reads it that goes on."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import Count, CountKind, TimeoutOnly
from flowfabric.core.ids import SignalId, WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from tests.conformance.driver import Driver
from tests.conformance.suspending import Suspender, by_name

TIMEOUT = 10_000
POINTER = "approval#0"
NOTHING = c.ListResumeSignalsPage()


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def test_before_the_first_suspension_there_is_none(waits: Suspender) -> None:
    assert await waits.resume_signals(await waits.running()) == NOTHING


async def test_an_open_one_has_no_end(waits: Suspender) -> None:
    x = await waits.running()
    suspended = await waits.suspend(x, continuation_metadata_pointer=POINTER)
    assert await waits.resume_signals(x) == c.ListResumeSignalsPage(
        suspension_id=suspended.suspension_id, continuation_metadata_pointer=POINTER
    )


async def test_signals_end_it(waits: Suspender) -> None:
    x = await waits.running()
    suspended = await waits.suspend(x, continuation_metadata_pointer=POINTER)
    await waits.signal(x, suspended.waitpoints[0])
    page = await waits.resume_signals(x, attempt_index=0)
    assert (page.suspension_id, page.close_reason) == (suspended.suspension_id, "resumed")
    assert page.continuation_metadata_pointer == POINTER
    assert len(page.signals) == 1


async def test_early_signals_end_it_before_it_begins(waits: Suspender) -> None:
    x = await waits.running()
    at = await waits.pending(x)
    await waits.signal(x, at)
    args = waits.args(
        x, by_name(), c.PendingWaitpoint(waitpoint_id=at.waitpoint_id), continuation_metadata_pointer=POINTER
    )
    await waits.backend.suspend_execution(args)
    page = await waits.resume_signals(x)
    assert (page.suspension_id, page.close_reason) == (args.suspension_id, "resumed")
    assert (len(page.signals), page.continuation_metadata_pointer) == (1, POINTER)


@pytest.mark.parametrize("by", ["resume", "close"])
async def test_an_operator_ends_it(waits: Suspender, by: str) -> None:
    x, at = await waits.suspended()
    await waits.effect(x, at, "chatter")
    if by == "resume":
        await waits.resume(x, trigger_type=c.ResumeTrigger.SIGNAL)
    else:
        await waits.close(x, at.waitpoint_id, source=c.CancelSource.OPERATOR_OVERRIDE, reason="timed_out_auto_resume")
    page = await waits.resume_signals(x)
    assert (page.close_reason, page.signals) == ("resumed_by_operator", ())


@pytest.mark.parametrize("behavior", [TimeoutBehavior.AUTO_RESUME, TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL])
async def test_a_time_out_ends_it(waits: Suspender, behavior: TimeoutBehavior) -> None:
    x = await waits.running()
    await waits.suspend(x, TimeoutOnly(), timeout_ms=TIMEOUT, timeout_behavior=behavior)
    await waits.driver.clock.advance(TIMEOUT)
    await waits.due(x)
    page = await waits.resume_signals(x)
    assert page.close_reason == "timed_out_auto_resume"
    assert len(page.signals) == (behavior is TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL)


async def test_the_latest_one_is_told(waits: Suspender) -> None:
    x, at = await waits.suspended(continuation_metadata_pointer=POINTER)
    await waits.signal(x, at)
    await waits.driver.grant_and_claim(x)
    second = await waits.suspend(x)
    await waits.resume(x)
    assert await waits.resume_signals(x) == c.ListResumeSignalsPage(
        suspension_id=second.suspension_id, close_reason="resumed_by_operator"
    )
    assert await waits.resume_signals(x, attempt_index=1) == NOTHING


async def test_a_replay_forgets_it(waits: Suspender) -> None:
    x, at = await waits.suspended(continuation_metadata_pointer=POINTER)
    await waits.signal(x, at)
    await waits.driver.grant_and_claim(x)
    await waits.driver.complete(x)
    assert (await waits.resume_signals(x)).continuation_metadata_pointer == POINTER
    await waits.driver.replay(x)
    assert await waits.resume_signals(x) == NOTHING
    await waits.probe.check()
    await waits.driver.run(x)
    assert await waits.resume_signals(x) == NOTHING
    assert isinstance(await waits.suspend(x), c.ExecutionSuspended)


async def test_nothing_is_met_after_a_replay_at_a_waitpoint_that_was_pending(waits: Suspender) -> None:
    x = await waits.running()
    at = await waits.pending(x)
    await waits.signal(x, at)
    await waits.driver.complete(x)
    await waits.driver.replay(x)
    args = c.ListPendingWaitpointsArgs(execution_id=x.execution_id)
    assert (await waits.backend.list_pending_waitpoints(args)).entries == ()
    await waits.probe.check()
    await waits.driver.clock.advance(TIMEOUT * 100)
    assert (await waits.due(x)).waitpoints_closed == 0


@pytest.mark.parametrize("early", [0, 3, 5])
async def test_signals_of_one_millisecond_keep_the_order_of_their_arrival(waits: Suspender, early: int) -> None:
    """The clock stands still; ids that sort the other way round would show what decides."""
    x = await waits.running()
    ids = sorted((SignalId.new() for _ in range(5)), reverse=True)
    at = await waits.pending(x)
    condition = Count(5, CountKind.DISTINCT_SIGNALS, (WaitpointKey("reply"),))
    for signal_id in ids[:early]:
        await waits.signal(x, at, signal_id=signal_id)
    pending = c.PendingWaitpoint(waitpoint_id=at.waitpoint_id)
    await waits.backend.suspend_execution(waits.args(x, condition, pending))
    for signal_id in ids[early:]:
        await waits.signal(x, at, signal_id=signal_id)
    page = await waits.resume_signals(x, limit=3)
    rest = await waits.resume_signals(x, after=page.next_cursor)
    assert [each.signal_id for each in (*page.signals, *rest.signals)] == ids
    assert {each.accepted_at for each in page.signals} == {waits.driver.clock.now_ms}

"""Whatever makes an execution ready again hands it to a claim that waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from tests.conformance.driver import BACKOFF, Subject, home
from tests.conformance.flows.test_flow_inputs import check_given, claim, joined
from tests.conformance.suspending import Suspender
from tests.valkey.driver import Driver
from tests.valkey.parked.parking import (
    events,
    listening,
    nothing_but_the_marker_is_heard,
    park,
    submit,
)


async def _signalled(waits: Suspender, x: Subject, at: c.IssuedWaitpoint) -> None:
    assert isinstance(await waits.signal(x, at), c.ResumeTriggered)


async def _resumed(waits: Suspender, x: Subject, _: c.IssuedWaitpoint) -> None:
    assert await waits.resume(x) == c.ExecutionResumed(public_state=PublicState.WAITING)


async def _closed(waits: Suspender, x: Subject, at: c.IssuedWaitpoint) -> None:
    await waits.close(x, at.waitpoint_id, source=c.CancelSource.OPERATOR_OVERRIDE)


async def _timed_out(waits: Suspender, x: Subject, _: c.IssuedWaitpoint) -> None:
    await waits.driver.clock.advance(BACKOFF)
    assert (await waits.due(x)).woken == 1


async def _resumed_later(waits: Suspender, x: Subject, _: c.IssuedWaitpoint) -> None:
    await waits.resume(x, resume_delay_ms=10)
    await waits.driver.clock.advance(10)
    assert (await waits.due(x)).promoted == 1


@pytest.mark.parametrize("wake", [_signalled, _resumed, _closed, _timed_out, _resumed_later])
async def test_whatever_wakes_an_execution_hands_it_over(near: Driver, wake: Callable[..., Awaitable[None]]) -> None:
    waits = Suspender(near)
    await waits.seed()
    x = await waits.running()
    suspended = await waits.suspend(x, timeout_ms=BACKOFF, timeout_behavior=TimeoutBehavior.AUTO_RESUME)
    async with listening(near) as worker:
        parked = await park(near)
        await wake(waits, x, suspended.waitpoints[0])
        (work,) = await worker.works(parked)
        await nothing_but_the_marker_is_heard(near, worker)
    assert isinstance(work.claim, c.ClaimedResumedExecution)
    assert (work.execution_id, work.fence.attempt_id) == (x.execution_id, x.fence.attempt_id)
    assert (await events(near, x.execution_id))[-2:] in (["woken", "resumed"], ["promoted", "resumed"])
    await near.probe.check()
    await near.complete(near.held(work))


async def test_a_woken_member_of_a_flow_comes_with_its_inputs_and_what_it_waited_for(near: Driver) -> None:
    graph, waits = await joined(near), Suspender(near)
    await waits.seed()
    x = near.held(await claim(near))
    suspended = await waits.suspend(x)
    async with listening(near) as worker:
        parked = await park(near)
        await waits.signal(x, suspended.waitpoints[0], payload=b"yes")
        (work,) = await worker.works(parked)
        (again,) = await parked.recall()
    for each in (work, again):
        check_given(each, graph)
        assert each.fence.attempt_id == x.fence.attempt_id
        assert each.resumption is not None
        assert [signal.payload for signal in each.resumption.latest.signals] == [b"yes"]
    await near.complete(near.held(work))
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_a_single_create_hands_its_execution_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        x = await near.create()
        (work,) = await worker.works(parked)
        await nothing_but_the_marker_is_heard(near, worker)
    assert work.execution_id == x.execution_id
    await near.probe.check()


async def test_a_delay_that_is_over_hands_its_execution_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        (later,) = await submit(near, delay_until=near.clock.now_ms + BACKOFF)
        await near.clock.advance(BACKOFF)
        await near.backend.run_due_work(b.RunDueWorkArgs(partition=home(near)))
        assert [work.execution_id for work in await worker.works(parked)] == [later]
        await nothing_but_the_marker_is_heard(near, worker)
    await near.probe.check()

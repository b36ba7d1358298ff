"""A wait that nobody was given a token of: its only waitpoint has no record, and behaves as if it had."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError, NotFound
from tests.conformance.driver import Driver, Subject
from tests.conformance.suspending import Suspender, by_name

KEY, TIMEOUT = WaitpointKey("reply"), 10_000
OPERATOR = c.CancelSource.OPERATOR_OVERRIDE


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def waiting(waits: Suspender, **overrides: object) -> tuple[Subject, c.IssuedWaitpoint]:
    return await waits.suspended(issue_tokens=False, **overrides)


async def listed(waits: Suspender, x: Subject) -> list[c.PendingWaitpointInfo]:
    args = c.ListPendingWaitpointsArgs(execution_id=x.execution_id)
    return list((await waits.backend.list_pending_waitpoints(args)).entries)


@pytest.mark.parametrize("name", ["plain", 'a"b', "a\\b", 'a"]}', '","', "a/b", "größer", "[]", "x" * 128])
async def test_whatever_the_signal_is_called(waits: Suspender, name: str) -> None:
    x = await waits.running()
    await waits.suspend(x, by_name(name), issue_tokens=False)
    assert [each.required_signal_names for each in await listed(waits, x)] == [(name,)]
    with pytest.raises(FlowFabricError):
        await waits.send(x, name + "!" if len(name) < 128 else "x")
    assert isinstance(await waits.send(x, name), c.ResumeTriggered)


async def test_its_token_is_good_until_it_closes(waits: Suspender) -> None:
    x, at = await waiting(waits)
    issued = await waits.token(x, at)
    (shown,) = await listed(waits, x)
    assert shown.token_kid
    assert isinstance(await waits.signal(x, issued), c.ResumeTriggered)
    with pytest.raises(FlowFabricError) as caught:
        await waits.signal(x, issued)
    assert caught.value.code == "waitpoint_closed"


async def test_an_operator_closes_it_and_ends_the_wait(waits: Suspender) -> None:
    x, at = await waiting(waits)
    assert isinstance(await waits.close(x, at.waitpoint_id, source=OPERATOR), c.WaitpointClosed)
    assert (await waits.driver.state(x)).public_state is PublicState.WAITING
    assert isinstance(await waits.close(x, at.waitpoint_id, source=OPERATOR), c.WaitpointAlreadyClosed)


async def test_after_the_next_wait_there_is_no_such_waitpoint(waits: Suspender) -> None:
    x, at = await waiting(waits)
    await waits.resume(x)
    await waits.driver.grant_and_claim(x)
    later = (await waits.suspend(x, issue_tokens=False)).waitpoints[0]
    with pytest.raises(NotFound):
        await waits.close(x, at.waitpoint_id, source=OPERATOR)
    with pytest.raises(NotFound):
        await waits.token(x, at)
    assert [each.waitpoint_id for each in await listed(waits, x)] == [later.waitpoint_id]


async def test_a_time_out_tells_where_it_was_waited(waits: Suspender) -> None:
    x, _ = await waiting(waits, timeout_ms=TIMEOUT, timeout_behavior=TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL)
    await waits.driver.clock.advance(TIMEOUT)
    await waits.due(x)
    (told,) = (await waits.resume_signals(x)).signals
    assert (told.signal_name, told.waitpoint_key) == ("__timeout__", KEY)

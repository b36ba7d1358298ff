"""A wait that nobody was given a token of: its only waitpoint has no record, and behaves as if it had."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import MatchMode, SignalSet
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError, NotFound
from tests.conformance.driver import Driver, Subject
from tests.conformance.invariants import check_store, dump
from tests.conformance.suspending import Suspender, by_name

KEY, TIMEOUT = WaitpointKey("reply"), 10_000
BOTH = SignalSet(signal_names=("ann", "bob"), match_mode=MatchMode.ALL)
OPERATOR = c.CancelSource.OPERATOR_OVERRIDE


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def waiting(waits: Suspender, **overrides: object) -> tuple[Subject, c.IssuedWaitpoint]:
    return await waits.suspended(issue_tokens=False, **overrides)


async def keys_of_waitpoints(waits: Suspender) -> list[bytes]:
    return [
        key for key in await dump(waits.backend.client) if key.startswith(b"ff:wp:") or key.endswith(b":waitpoints")
    ]


async def listed(waits: Suspender, x: Subject) -> list[c.PendingWaitpointInfo]:
    args = c.ListPendingWaitpointsArgs(execution_id=x.execution_id)
    return list((await waits.backend.list_pending_waitpoints(args)).entries)


async def test_it_is_listed_though_it_costs_no_key(waits: Suspender) -> None:
    x, at = await waiting(waits, timeout_ms=TIMEOUT)
    now = waits.driver.clock.now_ms
    (shown,) = await listed(waits, x)
    assert (shown.waitpoint_id, shown.waitpoint_key) == (at.waitpoint_id, KEY)
    assert (shown.state, shown.created_at, shown.activated_at) == (c.WaitpointState.ACTIVE, now, now)
    assert (shown.expires_at, shown.required_signal_names) == (now + TIMEOUT, ("approved",))
    assert await keys_of_waitpoints(waits) == []
    await check_store(waits.backend.client)


async def test_a_signal_that_suffices_ends_it(waits: Suspender) -> None:
    x, _ = await waiting(waits)
    assert isinstance(await waits.send(x), c.ResumeTriggered)
    assert [each.waitpoint_key for each in (await waits.resume_signals(x)).signals] == [KEY]
    assert await listed(waits, x) == await keys_of_waitpoints(waits) == []


@pytest.mark.parametrize("name", ["plain", 'a"b', "a\\b", 'a"]}', '","', "a/b", "größer", "[]", "x" * 128])
async def test_whatever_the_signal_is_called(waits: Suspender, name: str) -> None:
    x = await waits.running()
    await waits.suspend(x, by_name(name), issue_tokens=False)
    assert [each.required_signal_names for each in await listed(waits, x)] == [(name,)]
    with pytest.raises(FlowFabricError):
        await waits.send(x, name + "!" if len(name) < 128 else "x")
    assert isinstance(await waits.send(x, name), c.ResumeTriggered)


async def test_signals_that_do_not_suffice_are_counted(waits: Suspender) -> None:
    x = await waits.running()
    await waits.suspend(x, BOTH, issue_tokens=False)
    assert isinstance(await waits.send(x, "bob"), c.SignalAccepted)
    assert len(await listed(waits, x)) == 1
    assert isinstance(await waits.send(x, "ann"), c.ResumeTriggered)
    assert [each.signal_name for each in (await waits.resume_signals(x)).signals] == ["bob", "ann"]
    await waits.driver.grant_and_claim(x)
    await waits.driver.complete(x)
    await waits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert await keys_of_waitpoints(waits) == []


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

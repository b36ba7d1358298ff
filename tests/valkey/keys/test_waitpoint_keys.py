"""A wait without a token costs no key."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import MatchMode, SignalSet
from tests.conformance.suspending import Suspender
from tests.conformance.waits.test_unwritten_waitpoints import KEY, TIMEOUT, listed, waiting
from tests.valkey.driver import Driver

BOTH = SignalSet(signal_names=("ann", "bob"), match_mode=MatchMode.ALL)


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def keys_of_waitpoints(waits: Suspender) -> list[bytes]:
    return [key for key in await waits.probe.dump() if key.startswith(b"ff:wp:") or key.endswith(b":waitpoints")]


async def test_it_is_listed_though_it_costs_no_key(waits: Suspender) -> None:
    x, at = await waiting(waits, timeout_ms=TIMEOUT)
    now = waits.driver.clock.now_ms
    (shown,) = await listed(waits, x)
    assert (shown.waitpoint_id, shown.waitpoint_key) == (at.waitpoint_id, KEY)
    assert (shown.state, shown.created_at, shown.activated_at) == (c.WaitpointState.ACTIVE, now, now)
    assert (shown.expires_at, shown.required_signal_names) == (now + TIMEOUT, ("approved",))
    assert await keys_of_waitpoints(waits) == []
    await waits.probe.check()


async def test_a_signal_that_suffices_ends_it(waits: Suspender) -> None:
    x, _ = await waiting(waits)
    assert isinstance(await waits.send(x), c.ResumeTriggered)
    assert [each.waitpoint_key for each in (await waits.resume_signals(x)).signals] == [KEY]
    assert await listed(waits, x) == await keys_of_waitpoints(waits) == []


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

"""One lease by hand, waiting: suspend, a waitpoint ahead of it, and the signals that ended it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from flowfabric.client.secrets import ensure_secret
from flowfabric.core import contracts as c
from flowfabric.core.conditions import AllOf, ByName, Single, Wildcard
from flowfabric.core.ids import SignalId, WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.errors import Conflict, InvalidInput
from flowfabric.worker import ClaimedTask, Claims
from tests.integration.worker.test_worker_claimed import LANE, WHO, claimed, granted
from tests.working import Store, clean_store


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        await ensure_secret(opened.backend)
        yield opened


@pytest.fixture(params=[False, True], ids=["by hand", "renewed"])
def claims(store: Store, request: pytest.FixtureRequest) -> Claims:
    return Claims(store.backend, **WHO, renew=request.param)  # type: ignore[arg-type]


async def tell(store: Store, task: ClaimedTask, place: c.IssuedWaitpoint | c.PendingWaitpointCreated) -> None:
    await store.backend.deliver_signal(
        c.DeliverSignalArgs(
            execution_id=task.execution_id,
            waitpoint_id=place.waitpoint_id,
            waitpoint_token=place.waitpoint_token,
            signal_id=SignalId.new(),
            signal_name="go",
            payload=b"7",
        )
    )


async def test_a_suspended_task_has_ended_and_its_attempt_goes_on_later(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    both = AllOf((Single(WaitpointKey("a"), ByName("go")), Single(WaitpointKey("b"), Wildcard())))
    result = await task.suspend(both, timeout_ms=60_000, timeout_behavior=TimeoutBehavior.CANCEL)
    assert isinstance(result, c.ExecutionSuspended)
    with pytest.raises(InvalidInput, match="has ended"):
        await task.renew_lease()
    for place in result.waitpoints:
        await tell(store, task, place)
    again = await claims.claim_from_grant(LANE, await granted(store, task.execution_id))
    assert again.attempt_id == task.attempt_id
    assert {(each.waitpoint_key, each.payload) for each in await again.resume_signals()} == {("a", b"7"), ("b", b"7")}
    await again.complete()


async def test_early_signals_at_a_pending_waitpoint_let_it_go_on(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    desk = await task.create_pending_waitpoint("desk")
    await tell(store, task, desk)
    place = c.PendingWaitpoint(waitpoint_id=desk.waitpoint_id)
    result = await task.suspend(Single(WaitpointKey("desk")), waitpoints=[place])
    assert isinstance(result, c.SuspensionAlreadySatisfied)
    await task.renew_lease()
    assert [each.signal_name for each in await task.resume_signals()] == ["go"]
    await task.complete()


async def test_a_refused_suspension_leaves_the_task_as_it_was(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    desk = await task.create_pending_waitpoint(expires_in_ms=10)
    await store.clock.advance(10)
    place = c.PendingWaitpoint(waitpoint_id=desk.waitpoint_id)
    with pytest.raises(Conflict, match="pending_waitpoint_expired"):
        await task.suspend(Single(desk.waitpoint_key), waitpoints=[place])
    await task.renew_lease()
    assert await task.resume_signals() == ()
    await task.complete()


async def test_a_suspension_can_be_said_again(store: Store, claims: Claims) -> None:
    task = await claimed(store, claims)
    first = await task.suspend(Single(WaitpointKey("a")), idempotency_key="ask-1")
    task._ended = False  # as after a lost connection
    second = await task.suspend(Single(WaitpointKey("a")), idempotency_key="ask-1")
    assert second == first

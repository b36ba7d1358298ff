"""A handler rejects signals that ended its wait: the wait goes on at the same waitpoints, until the same timeout."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import AllOf, ByName, Count, CountKind, Single
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import SignalId, SuspensionId, WaitpointKey
from flowfabric.errors import Conflict, InvalidInput, StaleLease
from tests.conformance.driver import Driver, Subject
from tests.conformance.suspending import Suspender, by_name, fresh

pytestmark = pytest.mark.every_store

YES = WaitForm(question="May I?", schema={"type": "boolean"})
KEYS = (WaitpointKey("ada"), WaitpointKey("bob"))
BOTH = Count(2, CountKind.DISTINCT_WAITPOINTS, KEYS, ByName("vote"))


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    found = Suspender(driver)
    await found.seed()
    return found


def args_for(x: Subject, *signals: SignalId, **overrides: Any) -> c.RejectSignalsArgs:
    rejected = tuple(c.RejectedSignal(signal_id=each, problem="payload: must be true or false") for each in signals)
    given: dict[str, Any] = {
        "execution_id": x.execution_id, "fence": x.fence, "suspension_id": SuspensionId.new(), "rejected": rejected,
        **overrides,
    }  # fmt: skip
    return c.RejectSignalsArgs(**given)


async def resumed(waits: Suspender, x: Subject) -> list[SignalId]:
    """The worker goes on, and reads the signals that ended its wait."""
    await waits.driver.place_grant(x)
    await waits.driver.claim_resumed(x)
    return [each.signal_id for each in (await waits.resume_signals(x)).signals]


async def told(waits: Suspender, x: Subject) -> list[str]:
    page = await waits.backend.history(x.execution_id, limit=100)
    return [f"{each.event} {each.outcome or ''}".strip() for each in page.events if each.event.startswith("s")]


async def open_ones(waits: Suspender, x: Subject) -> dict[str, c.PendingWaitpointInfo]:
    page = await waits.backend.list_pending_waitpoints(c.ListPendingWaitpointsArgs(execution_id=x.execution_id))
    return {each.waitpoint_key: each for each in page.entries}


async def test_the_wait_goes_on_with_its_waitpoint_token_and_timeout(waits: Suspender) -> None:
    x, at = await waits.suspended(timeout_ms=60_000, form=YES)
    (before,) = (await open_ones(waits, x)).values()
    await waits.driver.clock.advance(10_000)
    sent = SignalId.new()
    await waits.signal(x, at, signal_id=sent, payload=b"true", payload_encoding="json")
    assert await resumed(waits, x) == [sent]
    again = await waits.backend.reject_signals(args_for(x, sent, form=YES))
    assert isinstance(again, c.ExecutionSuspended)
    assert again.waitpoints == (at,)
    (after,) = (await open_ones(waits, x)).values()
    assert (after.waitpoint_id, after.expires_at) == (before.waitpoint_id, before.expires_at)
    assert (await told(waits, x))[-2:] == [
        f"signal_rejected {sent} payload: must be true or false",
        "suspended waiting_for_signal",
    ]
    assert isinstance(await waits.signal(x, at, payload=b"false", payload_encoding="json"), c.ResumeTriggered)
    (answer,) = (await waits.resume_signals(x)).signals
    assert answer.payload == b"false"


async def test_the_id_and_the_key_of_a_rejected_signal_are_used_up(waits: Suspender) -> None:
    x, at = await waits.suspended()
    sent = SignalId.new()
    await waits.signal(x, at, signal_id=sent, idempotency_key="once")
    await resumed(waits, x)
    await waits.backend.reject_signals(args_for(x, sent))
    assert isinstance(await waits.signal(x, at, signal_id=sent), c.SignalDuplicate)
    assert isinstance(await waits.signal(x, at, idempotency_key="once"), c.SignalDuplicate)
    assert isinstance(await waits.signal(x, at, idempotency_key="twice"), c.ResumeTriggered)


async def test_a_wait_without_a_token_goes_on(waits: Suspender) -> None:
    x, at = await waits.suspended(issue_tokens=False)
    sent = SignalId.new()
    await waits.send(x, signal_id=sent)
    await resumed(waits, x)
    again = await waits.backend.reject_signals(args_for(x, sent))
    assert [each.waitpoint_id for each in again.waitpoints] == [at.waitpoint_id]
    issued = await waits.token(x, at)
    assert isinstance(await waits.signal(x, issued), c.ResumeTriggered)


async def test_the_signals_that_were_not_rejected_still_count(waits: Suspender) -> None:
    x = await waits.running()
    ada, bob = (await waits.suspend(x, BOTH, *map(fresh, KEYS))).waitpoints
    good, bad = SignalId.new(), SignalId.new()
    await waits.signal(x, ada, "vote", signal_id=good)
    await waits.signal(x, bob, "vote", signal_id=bad)
    assert set(await resumed(waits, x)) == {good, bad}
    assert isinstance(await waits.backend.reject_signals(args_for(x, bad)), c.ExecutionSuspended)
    assert isinstance(await waits.signal(x, ada, "vote"), c.SignalAccepted)  # ada has voted
    assert isinstance(await waits.signal(x, bob, "vote"), c.ResumeTriggered)
    assert good in await resumed(waits, x)


async def test_a_signal_that_was_no_use_before_may_suffice_now(waits: Suspender) -> None:
    x = await waits.running()
    ada, bob = (await waits.suspend(x, BOTH, *map(fresh, KEYS))).waitpoints
    bad, second, other = SignalId.new(), SignalId.new(), SignalId.new()
    await waits.signal(x, ada, "vote", signal_id=bad)
    await waits.signal(x, ada, "vote", signal_id=second)
    await waits.signal(x, bob, "vote", signal_id=other)
    assert set(await resumed(waits, x)) == {bad, other}
    args = args_for(x, bad)
    result = await waits.backend.reject_signals(args)
    assert isinstance(result, c.SuspensionAlreadySatisfied)
    assert [each.signal_id for each in (await waits.resume_signals(x)).signals] == [second, other]
    assert await waits.backend.reject_signals(args) == result
    assert not await open_ones(waits, x)


async def test_every_misfit_of_a_tree_is_rejected_at_once(waits: Suspender) -> None:
    x = await waits.running()
    tree = AllOf((Single(KEYS[0], ByName("a")), Single(KEYS[1], ByName("b"))))
    ada, bob = (await waits.suspend(x, tree, *map(fresh, KEYS))).waitpoints
    one, two = SignalId.new(), SignalId.new()
    await waits.signal(x, ada, "a", signal_id=one)
    await waits.signal(x, bob, "b", signal_id=two)
    await resumed(waits, x)
    await waits.backend.reject_signals(args_for(x, one, two))
    assert isinstance(await waits.signal(x, bob, "b"), c.SignalAccepted)
    assert isinstance(await waits.signal(x, ada, "a"), c.ResumeTriggered)


async def test_an_early_signal_is_rejected_without_a_suspension_in_between(waits: Suspender) -> None:
    x = await waits.running()
    made = await waits.pending(x)
    early = SignalId.new()
    await waits.signal(x, made, signal_id=early)
    place = c.PendingWaitpoint(waitpoint_id=made.waitpoint_id, waitpoint_key=made.waitpoint_key)
    satisfied = await waits.backend.suspend_execution(waits.args(x, by_name(), place, form=YES))
    assert isinstance(satisfied, c.SuspensionAlreadySatisfied)
    assert isinstance(await waits.backend.reject_signals(args_for(x, early, form=YES)), c.ExecutionSuspended)
    assert isinstance(await waits.signal(x, made, payload=b"true"), c.ResumeTriggered)


async def test_the_same_rejection_is_answered_again(waits: Suspender) -> None:
    x, at = await waits.suspended()
    sent = SignalId.new()
    await waits.signal(x, at, signal_id=sent)
    await resumed(waits, x)
    args = args_for(x, sent)
    first = await waits.backend.reject_signals(args)
    events = await told(waits, x)
    assert await waits.backend.reject_signals(args) == first
    assert await told(waits, x) == events


async def test_only_signals_that_ended_the_last_wait_can_be_rejected(waits: Suspender) -> None:
    x, at = await waits.suspended()
    sent = SignalId.new()
    await waits.signal(x, at, signal_id=sent)
    await resumed(waits, x)
    for signals in ((SignalId.new(),), (sent, SignalId.new()), (sent, sent)):
        with pytest.raises(Conflict, match="signal_not_rejectable"):
            await waits.backend.reject_signals(args_for(x, *signals))
    y = await waits.running()
    with pytest.raises(Conflict, match="signal_not_rejectable"):
        await waits.backend.reject_signals(args_for(y, sent))
    with pytest.raises(StaleLease):
        await waits.backend.reject_signals(args_for(x, sent, fence=y.fence))
    assert (await waits.resume_signals(x)).close_reason == "resumed"


async def test_the_form_of_a_wait_is_told_to_everyone_who_may_answer(waits: Suspender) -> None:
    x, _ = await waits.suspended(form=YES)
    page = await waits.backend.list_pending_waitpoints(c.ListPendingWaitpointsArgs(execution_id=x.execution_id))
    assert page.form == YES
    with pytest.raises(InvalidInput, match="must be true or false") as refused:
        await waits.send(x, payload=b"1", payload_encoding="json")
    assert refused.value.code == "invalid_answer"
    assert isinstance(await waits.send(x, payload=b"true"), c.ResumeTriggered)

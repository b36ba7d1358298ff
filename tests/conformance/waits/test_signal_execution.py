"""signal_execution: a trusted caller tells an execution something, and the store finds the waitpoint that takes it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import AllOf, ByName, Count, CountKind, OperatorOnly, ResumeCondition, Single, Wildcard
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, ExecutionNotFound, InvalidInput
from tests.conformance.driver import Driver, Subject
from tests.conformance.suspending import EXPIRES, Suspender, by_name, fresh

A, B = WaitpointKey("a"), WaitpointKey("b")


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def refused(waits: Suspender, x: Subject, name: str = "approved", **overrides: Any) -> str | None:
    """The state that stood in the way; nothing was written."""
    before = await waits.probe.dump()
    with pytest.raises(Conflict) as caught:
        await waits.send(x, name, **overrides)
    assert caught.value.code == "target_not_signalable"
    assert await waits.probe.dump() == before
    return caught.value.details["state"]  # type: ignore[return-value]


async def waiting_at(waits: Suspender, condition: ResumeCondition) -> Subject:
    x = await waits.running()
    await waits.suspend(x, condition, fresh("a"), fresh("b"))
    return x


async def keys_of(waits: Suspender, x: Subject) -> list[WaitpointKey]:
    return [each.waitpoint_key for each in (await waits.resume_signals(x)).signals]


async def test_it_wakes_what_waits_for_its_name(waits: Suspender) -> None:
    x, at = await waits.suspended()
    outcome = await waits.send(
        x, payload=b"\xff", payload_encoding="raw", signal_category="decision", source_type="human",
        source_identity="ann", correlation_id="c-1",
    )  # fmt: skip
    assert isinstance(outcome, c.ResumeTriggered)
    (told,) = (await waits.resume_signals(x)).signals
    assert told == c.ResumeSignal(
        signal_id=outcome.signal_id, signal_name="approved", waitpoint_id=at.waitpoint_id,
        waitpoint_key=at.waitpoint_key, accepted_at=told.accepted_at, signal_category="decision", source_type="human",
        source_identity="ann", correlation_id="c-1", payload=b"\xff", payload_encoding="raw",
    )  # fmt: skip
    await waits.probe.check()


async def test_it_is_kept_where_nobody_waits_yet(waits: Suspender) -> None:
    x = await waits.running()
    at = await waits.pending(x)
    assert (await waits.send(x)).effect is c.SignalEffect.BUFFERED  # type: ignore[union-attr]
    await waits.probe.check()
    args = waits.args(x, by_name(), c.PendingWaitpoint(waitpoint_id=at.waitpoint_id))
    assert isinstance(await waits.backend.suspend_execution(args), c.SuspensionAlreadySatisfied)


async def test_it_counts_together_with_signals_that_came_with_a_token(waits: Suspender) -> None:
    x = await waits.running()
    at = (await waits.suspend(x, Count(2, CountKind.DISTINCT_SOURCES, (WaitpointKey("reply"),)))).waitpoints[0]
    assert await waits.effect(x, at, source_identity="ann") is c.SignalEffect.APPENDED
    again = await waits.send(x, source_identity="ann")
    assert isinstance(again, c.SignalAccepted)
    assert again.effect is c.SignalEffect.APPENDED_DUPLICATE
    assert isinstance(await waits.send(x, source_identity="bob"), c.ResumeTriggered)


class TestFinding:
    async def test_of_several_waitpoints_the_one_that_takes_the_name(self, waits: Suspender) -> None:
        x = await waiting_at(waits, AllOf((Single(A, ByName("left")), Single(B, ByName("right")))))
        assert isinstance(await waits.send(x, "right"), c.SignalAccepted)
        assert isinstance(await waits.send(x, "left"), c.ResumeTriggered)
        assert await keys_of(waits, x) == ["b", "a"]

    async def test_a_key_says_which_of_several(self, waits: Suspender) -> None:
        x = await waiting_at(waits, AllOf((Single(A, Wildcard()), Single(B, Wildcard()))))
        before = await waits.probe.dump()
        with pytest.raises(InvalidInput, match=r"\(a, b\)") as caught:
            await waits.send(x)
        assert caught.value.field == "waitpoint_key"
        assert await waits.probe.dump() == before
        await waits.send(x, waitpoint_key=B)
        assert isinstance(await waits.send(x, waitpoint_key=A), c.ResumeTriggered)

    async def test_where_it_waits_comes_before_where_it_may_wait_later(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.pending(x, "later")
        await waits.suspend(x)
        assert (await waits.send(x, "chatter")).effect is c.SignalEffect.BUFFERED  # type: ignore[union-attr]
        assert isinstance(await waits.send(x), c.ResumeTriggered)

    async def test_a_key_names_a_pending_one_beside_the_one_that_is_waited_at(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.pending(x, "later")
        await waits.suspend(x)
        kept = await waits.send(x, waitpoint_key=WaitpointKey("later"))
        assert isinstance(kept, c.SignalAccepted)
        assert kept.effect is c.SignalEffect.BUFFERED

    async def test_pending_ones_of_the_same_key_cannot_be_told_apart(self, waits: Suspender) -> None:
        x = await waits.running()
        for _ in range(2):
            await waits.pending(x)
        for key in (None, WaitpointKey("reply")):
            with pytest.raises(InvalidInput, match="reply, reply"):
                await waits.send(x, waitpoint_key=key)


class TestNowhere:
    async def test_no_waitpoint_takes_it(self, waits: Suspender) -> None:
        x, _ = await waits.suspended()
        assert await refused(waits, x, "chatter") == PublicState.SUSPENDED
        assert await refused(waits, x, waitpoint_key=B) == PublicState.SUSPENDED

    async def test_it_waits_for_an_operator_alone(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.suspend(x, OperatorOnly())
        assert await refused(waits, x) == PublicState.SUSPENDED

    async def test_it_does_not_wait(self, waits: Suspender) -> None:
        x = await waits.driver.create()
        assert await refused(waits, x) == PublicState.WAITING
        await waits.driver.grant_and_claim(x)
        assert await refused(waits, x) == PublicState.ACTIVE
        await waits.suspend(x)
        await waits.resume(x)
        assert await refused(waits, x) == PublicState.WAITING

    async def test_it_has_ended(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.pending(x)
        await waits.driver.complete(x)
        assert await refused(waits, x) == PublicState.COMPLETED

    async def test_the_time_of_a_pending_waitpoint_is_over(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.pending(x)
        await waits.driver.clock.advance(EXPIRES)
        assert await refused(waits, x) == PublicState.ACTIVE

    async def test_there_is_no_such_execution(self, waits: Suspender) -> None:
        with pytest.raises(ExecutionNotFound):
            await waits.send(Subject(waits.driver.mint()))


class TestRepeats:
    async def test_a_repeated_signal_is_a_duplicate_whatever_happened_since(self, waits: Suspender) -> None:
        x, _ = await waits.suspended()
        first = await waits.send(x, idempotency_key="once")
        assert isinstance(first, c.ResumeTriggered)
        before = await waits.probe.dump()
        for again in ({"idempotency_key": "once"}, {"signal_id": first.signal_id}):
            assert await waits.send(x, **again) == c.SignalDuplicate(existing_signal_id=first.signal_id)
        assert await waits.probe.dump() == before

    async def test_a_key_is_the_executions_and_not_the_waitpoints(self, waits: Suspender) -> None:
        x = await waiting_at(waits, AllOf((Single(A, ByName("left")), Single(B, ByName("right")))))
        first = await waits.send(x, "left", idempotency_key="once")
        assert isinstance(first, c.SignalAccepted)
        assert await waits.send(x, "right", idempotency_key="once") == c.SignalDuplicate(
            existing_signal_id=first.signal_id
        )

    async def test_a_replay_begins_without_keys_and_waitpoints(self, waits: Suspender) -> None:
        x, _ = await waits.suspended()
        await waits.send(x, idempotency_key="once")
        await waits.driver.grant_and_claim(x)
        await waits.pending(x, "left over")
        await waits.driver.complete(x)
        await waits.driver.replay(x)
        assert await refused(waits, x) == PublicState.WAITING
        await waits.driver.run(x)
        await waits.suspend(x)
        assert isinstance(await waits.send(x, idempotency_key="once"), c.ResumeTriggered)
        await waits.probe.check()

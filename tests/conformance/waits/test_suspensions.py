"""suspend, signal, resume: an attempt gives its lease back, waits, and goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.conditions import AllOf, Count, CountKind, OperatorOnly, ResumeCondition, Single, TimeoutOnly
from flowfabric.core.ids import LaneId, WaitpointId, WaitpointKey
from flowfabric.core.lease_handle import HandleKind
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import AttemptState, BlockingReason, PublicState
from flowfabric.core.tokens import Kid, SecretHex, token_fingerprint
from flowfabric.errors import (
    Conflict,
    ExecutionNotActive,
    ExecutionNotFound,
    FlowFabricError,
    InvalidInput,
    InvalidToken,
    StaleLease,
)
from tests.conformance.driver import Driver, Subject, made_up_fence
from tests.conformance.suspending import EXPIRES, KID, Suspender, by_name, forged, fresh

TIMEOUT = 10_000
OPERATOR = c.CancelSource.OPERATOR_OVERRIDE
A, B = WaitpointKey("a"), WaitpointKey("b")
OTHER_SECRET = "cd" * 32


@pytest.fixture
async def waits(driver: Driver) -> Suspender:
    suspender = Suspender(driver)
    await suspender.seed()
    return suspender


async def public_state(waits: Suspender, x: Subject) -> PublicState:
    return (await waits.driver.info(x)).public_state


async def test_a_signal_resumes_the_same_attempt(waits: Suspender) -> None:
    x, at = await waits.suspended()
    assert await public_state(waits, x) is PublicState.SUSPENDED
    await waits.probe.check()
    outcome = await waits.signal(x, at, payload=b"\xff yes", payload_encoding="raw", source_identity="ann")
    assert isinstance(outcome, c.ResumeTriggered)
    assert (await waits.driver.state(x)).attempt_state is AttemptState.ATTEMPT_INTERRUPTED

    before = x.fence
    claimed = await waits.driver.grant_and_claim(x)
    assert isinstance(claimed, c.ClaimedResumedExecution)
    assert (claimed.attempt_index, claimed.attempt_id) == (0, before.attempt_id)
    (told,) = (await waits.resume_signals(x, attempt_index=0)).signals
    assert (told.signal_id, told.signal_name, told.payload) == (outcome.signal_id, "approved", b"\xff yes")
    assert (told.waitpoint_id, told.waitpoint_key) == (at.waitpoint_id, "reply")
    assert (told.source_identity, told.payload_encoding) == ("ann", "raw")
    await waits.driver.complete(x)
    await waits.probe.check()


async def test_the_log_tells_the_story(waits: Suspender) -> None:
    x, at = await waits.suspended()
    await waits.signal(x, at, "chatter")
    await waits.signal(x, at)
    events = [each.event for each in (await waits.backend.history(x.execution_id)).events]
    assert events == ["created", "claimed", "suspended", "signalled", "woken"]


async def test_the_suspended_handle_replaces_the_owners(waits: Suspender) -> None:
    x = await waits.driver.create()
    claimed = await waits.driver.grant_and_claim(x)
    suspended = await waits.suspend(x, handle=claimed.handle)
    assert suspended.handle is not None
    assert (suspended.handle.kind, suspended.handle.opaque) == (HandleKind.SUSPENDED, claimed.handle.opaque)


async def test_a_signal_of_another_name_is_kept_and_wakes_nobody(waits: Suspender) -> None:
    x, at = await waits.suspended()
    assert await waits.effect(x, at, "chatter") is c.SignalEffect.NO_OP
    assert await public_state(waits, x) is PublicState.SUSPENDED


async def test_a_resume_policy_can_delay_the_resume(waits: Suspender) -> None:
    x, at = await waits.suspended(resume_policy=c.ResumePolicy(resume_delay_ms=5_000))
    await waits.signal(x, at)
    assert (await waits.driver.state(x)).blocking_reason is BlockingReason.WAITING_FOR_RESUME_DELAY
    await waits.probe.check()
    await waits.driver.clock.advance(5_000)
    assert (await waits.due(x)).promoted == 1
    assert await public_state(waits, x) is PublicState.WAITING


class TestPending:
    async def test_an_early_signal_is_buffered_and_credited(self, waits: Suspender) -> None:
        x = await waits.running()
        at = await waits.pending(x)
        assert await waits.effect(x, at) is c.SignalEffect.BUFFERED
        await waits.probe.check()
        args = waits.args(x, by_name(), c.PendingWaitpoint(waitpoint_id=at.waitpoint_id))
        result = await waits.backend.suspend_execution(args)
        assert isinstance(result, c.SuspensionAlreadySatisfied)
        assert (result.waitpoint_key, result.waitpoint_token) == ("reply", at.waitpoint_token)
        assert await waits.backend.suspend_execution(args) == result
        assert [each.signal_name for each in (await waits.resume_signals(x)).signals] == ["approved"]
        await waits.driver.complete(x)
        await waits.probe.check()

    async def test_one_that_nobody_signalled_becomes_active(self, waits: Suspender) -> None:
        x = await waits.running()
        at = await waits.pending(x)
        suspended = await waits.suspend(x, by_name(), c.PendingWaitpoint(waitpoint_id=at.waitpoint_id))
        assert suspended.waitpoint_token == at.waitpoint_token
        await waits.probe.check()
        assert isinstance(await waits.signal(x, at), c.ResumeTriggered)

    async def test_pending_and_fresh_ones_go_together(self, waits: Suspender) -> None:
        x = await waits.running()
        early = await waits.pending(x, "a")
        await waits.signal(x, early)
        pending = c.PendingWaitpoint(waitpoint_id=early.waitpoint_id, waitpoint_key=A)
        suspended = await waits.suspend(x, AllOf((Single(A), Single(B))), fresh("b"), pending)
        assert [each.waitpoint_key for each in suspended.waitpoints] == ["b", "a"]
        await waits.driver.clock.advance(1)
        assert isinstance(await waits.signal(x, suspended.waitpoints[0]), c.ResumeTriggered)
        assert [each.waitpoint_key for each in (await waits.resume_signals(x)).signals] == ["a", "b"]

    async def test_one_that_nobody_waits_at_is_closed_when_its_time_is_over(self, waits: Suspender) -> None:
        x = await waits.running()
        at = await waits.pending(x)
        assert (await waits.due(x)).waitpoints_closed == 0
        await waits.driver.clock.advance(EXPIRES)
        assert (await waits.due(x)).waitpoints_closed == 1
        with pytest.raises(Conflict, match="waitpoint is closed"):
            await waits.signal(x, at)
        await waits.probe.check()

    async def test_the_same_call_again_answers_the_same(self, waits: Suspender) -> None:
        x = await waits.running()
        args = waits.pending_args(x)
        first = await waits.backend.create_pending_waitpoint(args)
        assert await waits.backend.create_pending_waitpoint(args) == first

    async def test_only_the_owner_makes_one(self, waits: Suspender) -> None:
        x = await waits.running()
        with pytest.raises(StaleLease):
            await waits.backend.create_pending_waitpoint(waits.pending_args(x, fence=made_up_fence()))


class TestTokens:
    async def refused(self, waits: Suspender, x: Subject, at: c.IssuedWaitpoint) -> tuple[str, str]:
        """The refusal; nothing was written."""
        before = await waits.probe.dump()
        with pytest.raises(InvalidToken) as caught:
            await waits.signal(x, at)
        assert await waits.probe.dump() == before
        return caught.value.code, caught.value.message

    async def test_whatever_is_wrong_the_refusal_is_the_same(self, waits: Suspender) -> None:
        x, spent = await waits.suspended()
        await waits.signal(x, spent)
        await waits.driver.grant_and_claim(x)
        at, sibling = (await waits.suspend(x, AllOf((Single(A), Single(B))), fresh("a"), fresh("b"))).waitpoints
        _, other = await waits.suspended()
        token = at.waitpoint_token.reveal()
        nowhere = c.IssuedWaitpoint(
            waitpoint_id=WaitpointId.new(), waitpoint_key=at.waitpoint_key, waitpoint_token=at.waitpoint_token
        )
        wrong = [
            forged(at, token[:-1] + ("0" if token[-1] != "0" else "1")),
            forged(at, "other" + token[token.index(":") :]),
            forged(at, "nonsense"),
            forged(at, token[:-1]),
            *(forged(at, each.waitpoint_token.reveal()) for each in (spent, sibling, other)),
            other,
            nowhere,
        ]
        refusals = {await self.refused(waits, x, each) for each in wrong}
        assert len(refusals) == 1
        assert token not in next(iter(refusals))[1]
        assert isinstance(await waits.signal(x, at), c.SignalAccepted)
        await waits.rotate(x, "b", OTHER_SECRET, 60_000)
        await waits.driver.clock.advance(60_001)
        assert (await self.refused(waits, x, sibling))[0] == "token_expired", "its holder learns of it"
        stale = sibling.waitpoint_token.reveal()
        assert {await self.refused(waits, x, forged(sibling, stale[:-1] + "-"))} == refusals, "and nobody else"

    async def test_rotation_keeps_tokens_of_every_secret_in_its_grace(self, waits: Suspender) -> None:
        waiting = []
        for kid, secret in (("b", OTHER_SECRET), ("c", "ef" * 32), ("", "")):
            waiting.append(await waits.suspended())
            if kid:
                await waits.rotate(waiting[0][0], kid, secret, 60_000)
        kids = await waits.kids(waiting[0][0])
        assert kids.current_kid == "c"
        assert sorted(each.kid for each in kids.verifying) == ["b", KID]
        assert [at.waitpoint_token.reveal().split(":")[0] for _, at in waiting] == [KID, "b", "c"]
        for x, at in waiting:
            assert isinstance(await waits.signal(x, at), c.ResumeTriggered)

    async def test_a_rotation_that_ends_all_graces_leaves_no_token_that_counts(self, waits: Suspender) -> None:
        (x, old), (y, other) = await waits.suspended(), await waits.suspended()
        await waits.rotate(x, "b", OTHER_SECRET, 60_000)
        rotated = await waits.rotate(x, "c", "ef" * 32, 0, end_graces=True)
        assert rotated == c.SecretRotated(previous_kid=Kid("b"), new_kid=Kid("c"))
        assert (await waits.kids(x)).verifying == ()
        for each, at in ((x, old), (y, other)):
            with pytest.raises(InvalidToken):
                await waits.signal(each, at)
        unchanged = await waits.rotate(x, "c", "ef" * 32, 0, end_graces=True)
        assert unchanged == c.SecretUnchanged(kid=Kid("c"))
        assert isinstance(await waits.signal(x, await waits.token(x, old)), c.ResumeTriggered)

    async def test_after_the_grace_a_token_counts_no_more(self, waits: Suspender) -> None:
        x, at = await waits.suspended()
        rotated = await waits.rotate(x, "b", OTHER_SECRET, 60_000)
        assert rotated == c.SecretRotated(previous_kid=KID, new_kid=Kid("b"))
        await waits.driver.clock.advance(60_001)
        with pytest.raises(InvalidToken):
            await waits.signal(x, at)
        assert (await waits.kids(x)).verifying == ()


class TestTimeouts:
    @pytest.mark.parametrize(
        ("behavior", "state"),
        [
            (TimeoutBehavior.FAIL, PublicState.FAILED),
            (TimeoutBehavior.CANCEL, PublicState.CANCELLED),
            (TimeoutBehavior.EXPIRE, PublicState.EXPIRED),
        ],
    )
    async def test_one_that_ends_the_execution(
        self, waits: Suspender, behavior: TimeoutBehavior, state: PublicState
    ) -> None:
        x, at = await waits.suspended(timeout_ms=TIMEOUT, timeout_behavior=behavior)
        assert (await waits.due(x)).items == 0
        await waits.driver.clock.advance(TIMEOUT)
        assert (await waits.due(x)).suspensions_ended == 1
        assert await public_state(waits, x) is state
        with pytest.raises(Conflict):
            await waits.signal(x, at)
        await waits.probe.check()

    @pytest.mark.parametrize(
        ("behavior", "told"),
        [(TimeoutBehavior.AUTO_RESUME, []), (TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL, ["__timeout__"])],
    )
    async def test_one_that_wakes_it(self, waits: Suspender, behavior: TimeoutBehavior, told: list[str]) -> None:
        x = await waits.running()
        at = waits.driver.clock.now_ms + TIMEOUT
        await waits.suspend(x, TimeoutOnly(), timeout_at=at, timeout_behavior=behavior)
        await waits.driver.clock.advance(TIMEOUT)
        assert (await waits.due(x)).woken == 1
        assert isinstance(await waits.driver.grant_and_claim(x), c.ClaimedResumedExecution)
        assert [each.signal_name for each in (await waits.resume_signals(x)).signals] == told
        await waits.probe.check()

    async def test_one_that_asks_a_human(self, waits: Suspender) -> None:
        x, at = await waits.suspended(timeout_ms=TIMEOUT, timeout_behavior=TimeoutBehavior.ESCALATE)
        await waits.driver.clock.advance(TIMEOUT)
        assert (await waits.due(x)).escalated == 1
        assert (await waits.driver.state(x)).blocking_reason is BlockingReason.PAUSED_BY_OPERATOR
        await waits.probe.check()
        (entry,) = (await waits.backend.list_suspended(c.ListSuspendedArgs())).entries
        assert (entry.reason, entry.timeout_at) == (c.SuspensionReasonCode.WAITING_FOR_OPERATOR_REVIEW, None)
        assert (await waits.due(x)).items == 0
        assert isinstance(await waits.signal(x, at), c.ResumeTriggered)

    async def test_one_of_a_single_execution(self, waits: Suspender) -> None:
        x, _ = await waits.suspended(timeout_ms=TIMEOUT, timeout_behavior=TimeoutBehavior.CANCEL)
        args = c.ExpireSuspensionArgs(execution_id=x.execution_id)
        assert await waits.backend.expire_suspension(args) == c.SuspensionNotExpired(reason="not_yet_due")
        await waits.driver.clock.advance(TIMEOUT)
        assert await waits.backend.expire_suspension(args) == c.SuspensionExpired(
            behavior_applied=TimeoutBehavior.CANCEL, public_state=PublicState.CANCELLED
        )
        assert isinstance(await waits.backend.expire_suspension(args), c.SuspensionNotExpired)


class TestOperators:
    async def test_resume_with_a_delay(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.suspend(x, OperatorOnly(), timeout_ms=TIMEOUT)
        assert await waits.resume(x, resume_delay_ms=3_000) == c.ExecutionResumed(public_state=PublicState.DELAYED)
        await waits.probe.check()
        await waits.driver.clock.advance(3_000)
        assert (await waits.due(x)).promoted == 1
        assert isinstance(await waits.driver.grant_and_claim(x), c.ClaimedResumedExecution)
        assert (await waits.resume_signals(x)).signals == ()

    async def test_what_is_not_suspended_cannot_be_resumed(self, waits: Suspender) -> None:
        x, _ = await waits.suspended()
        await waits.resume(x)
        with pytest.raises(Conflict) as caught:
            await waits.resume(x)
        assert caught.value.code == "execution_not_suspended"

    async def test_an_answer_to_another_suspension_than_the_one_seen_is_refused(self, waits: Suspender) -> None:
        x = await waits.running()
        seen = await waits.suspend(x)
        await waits.signal(x, seen.waitpoints[0])
        await waits.driver.grant_and_claim(x)
        current = await waits.suspend(x)
        before = await waits.probe.dump()
        with pytest.raises(Conflict, match=current.suspension_id) as caught:
            await waits.resume(x, suspension_id=seen.suspension_id)
        assert caught.value.code == "execution_not_suspended"
        assert await waits.probe.dump() == before
        resumed = await waits.resume(x, suspension_id=current.suspension_id)
        assert resumed == c.ExecutionResumed(public_state=PublicState.WAITING)

    async def test_closing_a_waitpoint_that_is_waited_at_is_theirs_and_ends_the_wait(self, waits: Suspender) -> None:
        x, at = await waits.suspended()
        with pytest.raises(Conflict) as caught:
            await waits.close(x, at.waitpoint_id)
        assert caught.value.code == "waitpoint_not_pending"
        assert isinstance(await waits.close(x, at.waitpoint_id, source=OPERATOR), c.WaitpointClosed)
        assert await public_state(waits, x) is PublicState.WAITING
        assert isinstance(await waits.close(x, at.waitpoint_id, source=OPERATOR), c.WaitpointAlreadyClosed)
        await waits.probe.check()

    async def test_a_closed_pending_waitpoint_takes_nothing(self, waits: Suspender) -> None:
        x = await waits.running()
        at = await waits.pending(x)
        assert isinstance(await waits.close(x, at.waitpoint_id), c.WaitpointClosed)
        with pytest.raises(Conflict) as caught:
            await waits.signal(x, at)
        assert caught.value.code == "waitpoint_closed"
        await waits.probe.check()

    async def test_a_cancelled_execution_waits_no_more(self, waits: Suspender) -> None:
        x, at = await waits.suspended(timeout_ms=TIMEOUT)
        await waits.driver.cancel(x, fence=None, source=OPERATOR)
        assert await public_state(waits, x) is PublicState.CANCELLED
        with pytest.raises(Conflict):
            await waits.signal(x, at)
        await waits.probe.check()


class TestRepeats:
    async def test_the_same_suspend_answers_the_same(self, waits: Suspender) -> None:
        x = await waits.running()
        args = waits.args(x)
        first = await waits.backend.suspend_execution(args)
        before = await waits.probe.dump()
        assert await waits.backend.suspend_execution(args) == first
        assert await waits.probe.dump() == before

    async def test_an_idempotency_key_answers_other_ids_with_the_first_ones(self, waits: Suspender) -> None:
        x = await waits.running()
        first = await waits.suspend(x, idempotency_key="step-1")
        assert await waits.suspend(x, idempotency_key="step-1") == first
        with pytest.raises(FlowFabricError):
            await waits.suspend(x, idempotency_key="step-2")

    async def test_a_key_without_the_lease_that_used_it_tells_no_tokens(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.suspend(x, idempotency_key="step-1")
        before = await waits.probe.dump()
        with pytest.raises(FlowFabricError):
            await waits.suspend(x, idempotency_key="step-1", fence=made_up_fence())
        assert await waits.probe.dump() == before

    async def test_a_key_used_again_under_the_next_lease_waits_again(self, waits: Suspender) -> None:
        x = await waits.running()
        first = await waits.suspend(x, idempotency_key="step-1")
        await waits.signal(x, first.waitpoints[0])
        await waits.driver.grant_and_claim(x)
        again = await waits.suspend(x, idempotency_key="step-1")
        assert again.suspension_id != first.suspension_id
        assert await public_state(waits, x) is PublicState.SUSPENDED

    async def test_a_signal_counts_once(self, waits: Suspender) -> None:
        x = await waits.running()
        condition = Count(2, CountKind.DISTINCT_SIGNALS, (WaitpointKey("reply"),))
        at = (await waits.suspend(x, condition)).waitpoints[0]
        outcome = await waits.signal(x, at, idempotency_key="once")
        assert isinstance(outcome, c.SignalAccepted)
        for again in ({"idempotency_key": "once"}, {"signal_id": outcome.signal_id}):
            repeated = await waits.signal(x, at, **again)
            assert repeated == c.SignalDuplicate(existing_signal_id=outcome.signal_id)
        assert await public_state(waits, x) is PublicState.SUSPENDED

    async def test_another_owner_cannot_suspend(self, waits: Suspender) -> None:
        x = await waits.running()
        before = await waits.probe.dump()
        with pytest.raises(StaleLease):
            await waits.suspend(x, fence=made_up_fence())
        assert await waits.probe.dump() == before


class TestComposites:
    @pytest.mark.parametrize(
        "condition",
        [
            AllOf((Single(A), Single(B))),
            Count(2, CountKind.DISTINCT_WAITPOINTS, (A, B)),
            Count(2, CountKind.DISTINCT_SIGNALS, (A, B)),
            Count(2, CountKind.DISTINCT_SOURCES, (A, B)),
            AllOf((Count(1, CountKind.DISTINCT_WAITPOINTS, (A,)), Single(B))),
        ],
    )
    async def test_both_waitpoints_are_needed(self, waits: Suspender, condition: ResumeCondition) -> None:
        x = await waits.running()
        first, second = (await waits.suspend(x, condition, fresh("a"), fresh("b"))).waitpoints
        assert await waits.effect(x, first, source_identity="ann") is c.SignalEffect.APPENDED
        assert isinstance(await waits.signal(x, second, source_identity="bob"), c.ResumeTriggered)
        assert len((await waits.resume_signals(x)).signals) == 2
        await waits.probe.check()

    async def test_a_suspension_has_as_many_waitpoints_as_may_be(self, waits: Suspender) -> None:
        x = await waits.running()
        names = [WaitpointKey(f"k{number}") for number in range(limits.MAX_SUSPENSION_WAITPOINTS)]
        condition = Count(1, CountKind.DISTINCT_WAITPOINTS, tuple(names))
        places = (await waits.suspend(x, condition, *map(fresh, names))).waitpoints
        assert [each.waitpoint_key for each in places] == names
        assert isinstance(await waits.signal(x, places[-1]), c.ResumeTriggered)
        await waits.probe.check()

    async def test_the_same_waitpoint_twice_does_not_count_for_two(self, waits: Suspender) -> None:
        x = await waits.running()
        condition = Count(2, CountKind.DISTINCT_WAITPOINTS, (A, B))
        first, _ = (await waits.suspend(x, condition, fresh("a"), fresh("b"))).waitpoints
        await waits.signal(x, first)
        assert await waits.effect(x, first) is c.SignalEffect.APPENDED_DUPLICATE
        assert await public_state(waits, x) is PublicState.SUSPENDED


class TestLists:
    async def test_the_suspended_by_time_out_in_pages(self, waits: Suspender) -> None:
        wanted = []
        for timeout in (3, 1, None, 2):
            x = await waits.running(lane_id=LaneId(f"lane-{timeout}"))
            given: dict[str, Any] = {} if timeout is None else {"timeout_ms": timeout * TIMEOUT}
            suspended = await waits.suspend(x, **given)
            wanted.append((timeout or 99, x.execution_id, suspended.suspension_id))
        found: list[c.SuspendedExecutionEntry] = []
        cursor = None
        while cursor or not found:
            page = await waits.backend.list_suspended(c.ListSuspendedArgs(limit=1, cursor=cursor))
            found += page.entries
            cursor = page.next_cursor
        assert [(each.execution_id, each.suspension_id) for each in found] == [each[1:] for each in sorted(wanted)]
        now = waits.driver.clock.now_ms
        assert [each.timeout_at for each in found] == [now + TIMEOUT, now + 2 * TIMEOUT, now + 3 * TIMEOUT, None]
        assert {each.suspended_at for each in found} == {now}

    async def test_the_suspended_of_a_lane_or_for_a_reason(self, waits: Suspender) -> None:
        x = await waits.running()
        await waits.suspend(x, reason_code=c.SuspensionReasonCode.WAITING_FOR_APPROVAL)
        other = await waits.running(lane_id=LaneId("other"))
        await waits.suspend(other)
        for given, wanted in (
            ({"lane_id": LaneId("other")}, other),
            ({"reason_code": c.SuspensionReasonCode.WAITING_FOR_APPROVAL}, x),
        ):
            page = await waits.backend.list_suspended(c.ListSuspendedArgs(**given))
            assert [each.execution_id for each in page.entries] == [wanted.execution_id]

    async def test_a_cursor_of_another_list_is_refused(self, waits: Suspender) -> None:
        for _ in range(2):
            await waits.driver.create()
        listed = await waits.backend.list_executions(c.ListExecutionsArgs(limit=1))
        with pytest.raises(InvalidInput, match="cursor"):
            await waits.backend.list_suspended(c.ListSuspendedArgs(cursor=listed.next_cursor))

    async def test_open_waitpoints_are_shown_without_their_tokens(self, waits: Suspender) -> None:
        x = await waits.running()
        pending = await waits.pending(x, "later")
        active = (await waits.suspend(x, timeout_ms=TIMEOUT)).waitpoints[0]
        found: dict[str, c.PendingWaitpointInfo] = {}
        after = None
        while after or not found:
            args = c.ListPendingWaitpointsArgs(execution_id=x.execution_id, after=after, limit=1)
            page = await waits.backend.list_pending_waitpoints(args)
            found |= {each.waitpoint_id: each for each in page.entries}
            after = page.next_cursor
        now = waits.driver.clock.now_ms
        assert found.keys() == {pending.waitpoint_id, active.waitpoint_id}
        kept, waited_at = found[pending.waitpoint_id], found[active.waitpoint_id]
        assert (kept.state, kept.activated_at, kept.expires_at) == (c.WaitpointState.PENDING, None, now + EXPIRES)
        assert (waited_at.state, waited_at.activated_at) == (c.WaitpointState.ACTIVE, now)
        assert waited_at.required_signal_names == ("approved",)
        assert waited_at.expires_at == now + TIMEOUT
        assert (waited_at.token_kid, waited_at.token_fingerprint) == (KID, token_fingerprint(active.waitpoint_token))

    async def test_a_waitpoint_without_a_token_gets_one_when_somebody_may_give_it_away(self, waits: Suspender) -> None:
        x = await waits.running()
        made = (await waits.suspend(x, issue_tokens=False)).waitpoints[0]
        assert made.waitpoint_token.reveal() == ""
        args = c.ListPendingWaitpointsArgs(execution_id=x.execution_id)
        (shown,) = (await waits.backend.list_pending_waitpoints(args)).entries
        assert (shown.token_kid, shown.token_fingerprint) == ("", "")
        for token in (f"{KID}:", f"{KID}:{'-' * 64}", f"{KID}:{'0' * 64}"):
            with pytest.raises(InvalidToken):
                await waits.signal(x, forged(made, token))
        issued = await waits.token(x, made)
        assert issued == forged(made, issued.waitpoint_token.reveal())
        assert await waits.token(x, made) == issued
        assert isinstance(await waits.signal(x, issued), c.ResumeTriggered)

    async def test_a_token_whose_secret_counts_no_more_is_signed_anew(self, waits: Suspender) -> None:
        x = await waits.running()
        old = (await waits.suspend(x)).waitpoints[0]
        assert await waits.token(x, old) == old
        await waits.rotate(x, "k2", OTHER_SECRET, grace_ms=1)
        await waits.driver.clock.advance(2)
        with pytest.raises(InvalidToken):
            await waits.signal(x, old)
        assert isinstance(await waits.signal(x, await waits.token(x, old)), c.ResumeTriggered)

    async def test_a_token_whose_secret_counts_no_more_has_no_fingerprint(self, waits: Suspender) -> None:
        x = await waits.running()
        old = (await waits.suspend(x)).waitpoints[0]

        async def shown() -> tuple[str, str]:
            args = c.ListPendingWaitpointsArgs(execution_id=x.execution_id)
            (only,) = (await waits.backend.list_pending_waitpoints(args)).entries
            return only.token_kid, only.token_fingerprint

        await waits.rotate(x, "k2", OTHER_SECRET, grace_ms=1)
        assert await shown() == (KID, token_fingerprint(old.waitpoint_token))
        await waits.driver.clock.advance(2)
        assert await shown() == (KID, "")
        issued = await waits.token(x, old)
        assert await shown() == ("k2", token_fingerprint(issued.waitpoint_token))

    async def test_resume_signals_in_pages(self, waits: Suspender) -> None:
        x = await waits.running()
        at = (await waits.suspend(x, Count(3, CountKind.DISTINCT_SIGNALS, (WaitpointKey("reply"),)))).waitpoints[0]
        for name in ("one", "two", "three"):
            await waits.driver.clock.advance(1)
            await waits.signal(x, at, name)
        names: list[str] = []
        after = None
        while after or not names:
            page = await waits.resume_signals(x, after=after, limit=2)
            names += [each.signal_name for each in page.signals]
            after = page.next_cursor
        assert names == ["one", "two", "three"]
        assert (await waits.resume_signals(x, attempt_index=1)).signals == ()

    async def test_an_execution_that_is_not_there_has_neither(self, waits: Suspender) -> None:
        x = Subject(waits.driver.mint())
        with pytest.raises(ExecutionNotFound):
            await waits.resume_signals(x)
        with pytest.raises(ExecutionNotFound):
            await waits.backend.list_pending_waitpoints(c.ListPendingWaitpointsArgs(execution_id=x.execution_id))


class TestFormerHolders:
    async def test_a_call_of_the_former_holder_is_no_repetition_of_the_suspension(self, waits: Suspender) -> None:
        x, at = await waits.suspended()
        await waits.signal(x, at)
        with pytest.raises(ExecutionNotActive):
            await waits.driver.move_to_waiting_children(x)
        assert (await waits.driver.state(x)).public_state is PublicState.WAITING


class TestSecrets:
    async def test_seeding_twice_changes_nothing(self, waits: Suspender) -> None:
        before = await waits.probe.dump()
        assert await waits.seed() == c.SecretAlreadySeeded(kid=KID, same_secret=True)
        other = await waits.seed(secret=SecretHex(OTHER_SECRET))
        assert other == c.SecretAlreadySeeded(kid=KID, same_secret=False)
        assert await waits.probe.dump() == before

    async def test_the_first_seed_reaches_every_partition(self, driver: Driver) -> None:
        waits = Suspender(driver)
        assert (await waits.kids(Subject(driver.mint()))).current_kid is None
        assert await waits.seed() == c.SecretSeeded(kid=KID)
        for index in (0, driver.backend.partitions.num_flow_partitions - 1):
            partition = Partition(PartitionFamily.FLOW, index)
            kids = await driver.backend.list_waitpoint_hmac_kids(c.ListWaitpointHmacKidsArgs(partition=partition))
            assert (kids.current_kid, kids.current_algorithm, kids.verifying) == (KID, "sha256", ())

    async def test_without_a_secret_nothing_is_suspended(self, driver: Driver) -> None:
        waits = Suspender(driver)
        x = await waits.running()
        with pytest.raises(FlowFabricError) as caught:
            await waits.suspend(x)
        assert caught.value.code == "hmac_secret_not_initialized"
        assert await public_state(waits, x) is PublicState.ACTIVE

    async def test_a_rotation_of_all_reports_the_partitions_that_refused(self, waits: Suspender) -> None:
        x = Subject(waits.driver.mint())
        await waits.rotate(x, "b", "99" * 32, 60_000)
        args = c.RotateWaitpointHmacSecretAllArgs(new_kid=Kid("b"), new_secret_hex=SecretHex(OTHER_SECRET))
        report = await waits.backend.rotate_waitpoint_hmac_secret_all(args)
        assert len(report.entries) == waits.backend.partitions.num_flow_partitions
        (failed,) = report.failed
        assert failed.partition.tag == x.execution_id.tag
        assert isinstance(failed.result, c.SecretRotationFailed)
        assert failed.result.code == "rotation_conflict"
        assert OTHER_SECRET not in failed.result.message

    async def test_a_repeated_rotation_of_all_changes_nothing(self, waits: Suspender) -> None:
        args = c.RotateWaitpointHmacSecretAllArgs(new_kid=Kid("b"), new_secret_hex=SecretHex(OTHER_SECRET))
        first = await waits.backend.rotate_waitpoint_hmac_secret_all(args)
        assert all(isinstance(each.result, c.SecretRotated) for each in first.entries)
        before = await waits.probe.dump()
        again = await waits.backend.rotate_waitpoint_hmac_secret_all(args)
        assert {each.result for each in again.entries} == {c.SecretUnchanged(kid=Kid("b"))}
        assert await waits.probe.dump() == before

    async def test_a_partition_the_store_does_not_have_is_refused(self, waits: Suspender) -> None:
        beyond = Partition(PartitionFamily.FLOW, waits.backend.partitions.num_flow_partitions)
        with pytest.raises(InvalidInput, match="partition"):
            await waits.backend.list_waitpoint_hmac_kids(c.ListWaitpointHmacKidsArgs(partition=beyond))


async def test_trimming_leaves_nothing_of_a_wait_behind(waits: Suspender) -> None:
    x = await waits.running()
    await waits.pending(x, "later")
    at = (await waits.suspend(x, timeout_ms=TIMEOUT)).waitpoints[0]
    await waits.signal(x, at, "chatter", payload=b"?")
    await waits.signal(x, at, payload=b"!")
    await waits.driver.grant_and_claim(x)
    await waits.driver.complete(x)
    await waits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    families = {key.decode().split(":")[1] for key in await waits.probe.dump()}
    assert families <= {"config", "kid", "part", "sec"}

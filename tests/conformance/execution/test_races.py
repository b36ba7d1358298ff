"""Several clients at once, in orders drawn from seeds: one owner, one ending, nothing lost (G2, G3)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import Count, CountKind
from flowfabric.core.ids import SignalId, WaitpointKey, WorkerId, WorkerInstanceId
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, FlowFabricError
from tests.conformance.driver import TTL, Driver, Subject
from tests.conformance.suspending import KID, SECRET, Suspender, by_name
from tests.soaking import examples
from tests.stores.probe import Clock, Probe

pytestmark = pytest.mark.every_store

CLIENTS = 4
SEEDS = range(examples(5, soak=40))


@pytest.fixture
async def crowd(probe: Probe, clock: Clock) -> AsyncIterator[list[Driver]]:
    """Clients with a connection each, on one store and one clock."""
    others = [await probe.another() for _ in range(CLIENTS - 1)]
    yield [Driver(probe, backend) for backend in (probe.backend, *others)]
    for backend in others:
        await backend.close()


@pytest.fixture
async def waiters(crowd: list[Driver]) -> list[Suspender]:
    """The same, where executions can wait."""
    found = [Suspender(driver) for driver in crowd]
    await found[0].rotate(Subject(crowd[0].mint()), KID, SECRET.reveal(), 0)
    return found


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except FlowFabricError as error:
        return error


async def all_at_once(seed: int, *calls: Awaitable[Any]) -> list[Any]:
    """Start the calls in the seed's order; the results come in the order of the arguments."""
    order = list(range(len(calls)))
    random.Random(seed).shuffle(order)
    started = {at: asyncio.ensure_future(outcome(calls[at])) for at in order}
    return [await started[at] for at in range(len(calls))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_execution_is_claimed_by_exactly_one_of_many(crowd: list[Driver], seed: int) -> None:
    subjects = [await crowd[0].create() for _ in range(25)]
    calls = [_claim_as(driver, subject, number) for subject in subjects for number, driver in enumerate(crowd * 2)]
    results = await all_at_once(seed, *calls)
    winners = Counter(result.execution_id for result in results if isinstance(result, c.ClaimedExecution))
    assert winners == {subject.execution_id: 1 for subject in subjects}
    await crowd[0].probe.check()


@pytest.mark.parametrize("seed", SEEDS)
async def test_one_grant_is_out_at_a_time_and_one_claim_uses_it(crowd: list[Driver], seed: int) -> None:
    x = await crowd[0].create()
    grants = await all_at_once(seed, *(driver.grant(x) for driver in crowd))
    assert Counter(type(result) for result in grants)[c.ClaimGrantIssued] == 1
    claims = await all_at_once(seed, *(driver.claim(Subject(x.execution_id)) for driver in crowd))
    assert Counter(type(result) for result in claims)[c.ClaimedExecution] == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_renewing_against_reclaiming_leaves_one_owner(crowd: list[Driver], seed: int) -> None:
    owner, thief = crowd[0], crowd[1]
    x = await owner.run(await owner.create())
    await owner.clock.advance(TTL - (seed % 2))  # due, or one millisecond before
    theirs = Subject(x.execution_id)

    async def take_over() -> Any:
        await thief.mark_expired(theirs)
        await thief.reclaim_grant(theirs)
        return await thief.reclaim(theirs)

    renewed, reclaimed = await all_at_once(seed, owner.renew(x), take_over())
    owners = [isinstance(renewed, c.LeaseRenewed), isinstance(reclaimed, c.ReclaimedExecution)]
    assert owners.count(True) == 1
    valid = x if owners[0] else theirs
    stale = theirs if owners[0] else x
    assert isinstance(await outcome(owner.complete(stale)), FlowFabricError)
    await owner.complete(valid)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_first_ending_wins_and_the_others_learn_which(crowd: list[Driver], seed: int) -> None:
    x = await crowd[0].run(await crowd[0].create())
    results = await all_at_once(
        seed, crowd[0].complete(x), crowd[1].cancel(x), crowd[2].fail(x), crowd[3].revoke(x), crowd[0].complete(x)
    )
    info = await crowd[0].info(x)
    endings = {
        PublicState.COMPLETED: c.ExecutionCompleted,
        PublicState.CANCELLED: c.ExecutionCancelled,
        PublicState.FAILED: c.TerminalFailed,
    }
    won = {kind for kind in endings.values() if any(isinstance(result, kind) for result in results)}
    assert won == {endings[info.public_state]}
    await crowd[0].probe.check()


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_idempotency_key_creates_one_execution(crowd: list[Driver], seed: int) -> None:
    results = await all_at_once(seed, *(driver.create(idempotency_key="once") for driver in crowd * 4))
    assert len({subject.execution_id for subject in results}) == 1
    assert len(await crowd[0].probe.check()) == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_timeout_against_a_completion_ends_it_once(crowd: list[Driver], seed: int) -> None:
    x = await crowd[0].run(await crowd[0].create(execution_deadline_at=crowd[0].clock.now_ms))
    completed, expired = await all_at_once(
        seed, crowd[0].complete(x), crowd[1].expire(x, c.ExpireReason.EXECUTION_DEADLINE)
    )
    assert isinstance(completed, c.ExecutionCompleted) != isinstance(expired, c.ExecutionExpired)


class TestWaiting:
    """Whoever ends a wait, or a race for it, is one: the others are told so, and nothing happens twice."""

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("behavior", [each for each in TimeoutBehavior if each is not TimeoutBehavior.ESCALATE])
    async def test_a_signal_against_a_time_out(
        self, waiters: list[Suspender], behavior: TimeoutBehavior, seed: int
    ) -> None:
        x, at = await waiters[0].suspended(timeout_ms=TTL, timeout_behavior=behavior)
        await waiters[0].driver.clock.advance(TTL)
        expire = waiters[1].backend.expire_suspension(c.ExpireSuspensionArgs(execution_id=x.execution_id))
        signalled, expired, due = await all_at_once(seed, waiters[0].signal(x, at), expire, waiters[2].due(x))
        assert isinstance(signalled, c.ResumeTriggered | Conflict)
        won = [isinstance(signalled, c.ResumeTriggered), isinstance(expired, c.SuspensionExpired), due.items == 1]
        assert won.count(True) == 1
        page = await waiters[0].resume_signals(x)
        assert (page.close_reason == "resumed") == won[0]
        assert len(await endings(waiters[0], x)) == 1
        await waiters[0].probe.check()

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_a_signal_against_a_cancel(self, waiters: list[Suspender], seed: int) -> None:
        """A cancel ends it either way; the signal came before it or is refused."""
        x, at = await waiters[0].suspended()
        signalled, cancelled = await all_at_once(seed, waiters[0].signal(x, at), waiters[1].driver.cancel(x))
        assert isinstance(cancelled, c.ExecutionCancelled)
        came_first = isinstance(signalled, c.ResumeTriggered)
        assert came_first or isinstance(signalled, Conflict)
        assert await endings(waiters[0], x) == (["woken", "cancelled"] if came_first else ["cancelled"])
        page = await waiters[0].resume_signals(x)
        assert page.close_reason == ("resumed" if came_first else "cancelled")
        await waiters[0].probe.check()

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_an_early_signal_against_the_suspend(self, waiters: list[Suspender], seed: int) -> None:
        """Kept and credited, or delivered: the wait is over, by this signal, once."""
        x = await waiters[0].running()
        at = await waiters[0].pending(x)
        args = waiters[0].args(x, by_name(), c.PendingWaitpoint(waitpoint_id=at.waitpoint_id))
        signalled, suspended = await all_at_once(
            seed, waiters[1].signal(x, at), waiters[0].backend.suspend_execution(args)
        )
        if isinstance(suspended, c.SuspensionAlreadySatisfied):
            assert signalled == c.SignalAccepted(signal_id=signalled.signal_id, effect=c.SignalEffect.BUFFERED)
        else:
            assert isinstance(suspended, c.ExecutionSuspended)
            assert isinstance(signalled, c.ResumeTriggered)
            assert await endings(waiters[0], x) == ["woken"]
        page = await waiters[0].resume_signals(x)
        assert [each.signal_id for each in page.signals] == [signalled.signal_id]

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_signals_each_of_which_suffices(self, waiters: list[Suspender], seed: int) -> None:
        x, at = await waiters[0].suspended()
        outcomes = await all_at_once(seed, *(each.signal(x, at) for each in waiters))
        (winner,) = [each for each in outcomes if isinstance(each, c.ResumeTriggered)]
        assert {each.code for each in outcomes if each is not winner} == {"waitpoint_closed"}
        assert [each.signal_id for each in (await waiters[0].resume_signals(x)).signals] == [winner.signal_id]
        assert await endings(waiters[0], x) == ["woken"]

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_an_operator_against_a_signal(self, waiters: list[Suspender], seed: int) -> None:
        x, at = await waiters[0].suspended()
        resumed, signalled = await all_at_once(seed, waiters[0].resume(x), waiters[1].signal(x, at))
        by_operator = isinstance(resumed, c.ExecutionResumed)
        assert by_operator != isinstance(signalled, c.ResumeTriggered)
        assert (signalled if by_operator else resumed).code == (
            "waitpoint_closed" if by_operator else "execution_not_suspended"
        )
        page = await waiters[0].resume_signals(x)
        assert (page.close_reason, len(page.signals)) == (("resumed_by_operator", 0) if by_operator else ("resumed", 1))
        assert await endings(waiters[0], x) == ["woken"]

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_the_same_suspend_at_once_waits_once(self, waiters: list[Suspender], seed: int) -> None:
        x = await waiters[0].running()
        args = waiters[0].args(x)
        first, *others = await all_at_once(seed, *(each.backend.suspend_execution(args) for each in waiters))
        assert isinstance(first, c.ExecutionSuspended)
        assert all(each == first for each in others)
        assert await endings(waiters[0], x, "suspended") == ["suspended"]

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_a_signal_said_by_several_counts_once(self, waiters: list[Suspender], seed: int) -> None:
        x = await waiters[0].running()
        reply = WaitpointKey("reply")
        await waiters[0].suspend(x, Count(2, CountKind.DISTINCT_SIGNALS, (reply,)))
        calls = [
            each.backend.signal_execution(
                c.SignalExecutionArgs(
                    execution_id=x.execution_id, signal_id=SignalId.new(), signal_name="go", idempotency_key="once"
                )
            )
            for each in waiters
        ]
        outcomes = await all_at_once(seed, *calls)
        (accepted,) = [each for each in outcomes if isinstance(each, c.SignalAccepted)]
        repeated = c.SignalDuplicate(existing_signal_id=accepted.signal_id)
        assert all(each == repeated for each in outcomes if each is not accepted)
        assert (await waiters[0].driver.info(x)).public_state is PublicState.SUSPENDED

    @pytest.mark.parametrize("seed", SEEDS)
    async def test_each_that_is_resumed_is_claimed_by_one(self, waiters: list[Suspender], seed: int) -> None:
        waiting = [await waiters[0].suspended() for _ in range(10)]
        signals = [waiters[0].signal(x, at) for x, at in waiting]
        claims = [_claim_as(each.driver, x, number) for x, _ in waiting for number, each in enumerate(waiters)]
        outcomes = await all_at_once(seed, *signals, *claims)
        assert all(isinstance(each, c.ResumeTriggered) for each in outcomes[: len(signals)])
        won = [each.execution_id for each in outcomes[len(signals) :] if not isinstance(each, FlowFabricError)]
        won += [x.execution_id for x in await waiters[0].driver.take(100)]
        assert Counter(won) == {x.execution_id: 1 for x, _ in waiting}
        await waiters[0].probe.check()


async def endings(waiter: Suspender, x: Subject, *events: str) -> list[str]:
    """What ended the wait, or the execution, as the log has it; or these events instead."""
    wanted = events or ("woken", "escalated", "failed", "cancelled", "expired")
    found = await waiter.backend.history(x.execution_id)
    return [each.event for each in found.events if each.event in wanted]


async def _claim_as(driver: Driver, subject: Subject, number: int) -> Any:
    name = f"worker-{number}"
    mine = Subject(subject.execution_id)
    return await driver.grant_and_claim(mine, worker_id=WorkerId(name), worker_instance_id=WorkerInstanceId(name))

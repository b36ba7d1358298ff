"""Leases are kept in a thread of their own, and what the store says about them reaches the attempts."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import BackendUnavailable, ExecutionNotActive, FlowFabricError, Invalid, LeaseRevoked
from flowfabric.worker.attempts.attempt import Attempt, Stop
from flowfabric.worker.loop.heartbeat import Keeper, Renewals
from flowfabric.worker.loop.presence import Presence
from tests.worker_fakes import LANE, FakeStore, claimed_work, settings


def held_attempt(*, due: bool = True, lease_s: float = 60.0) -> Attempt:
    now = time.monotonic()
    return Attempt(claimed_work(), None, LANE, now + lease_s, now - 1 if due else now + 30)  # type: ignore[arg-type]


class Kept:
    """Renewals of some attempts, and those that were told to stop."""

    def __init__(self, *attempts: Attempt) -> None:
        self.store = FakeStore()
        self.held = set(attempts)
        self.stopped: list[Attempt] = []
        self.renewals = Renewals(self.held, settings(), self.stopped.append)

    async def once(self) -> None:
        await self.renewals.once(self.store.port)


async def test_leases_that_are_due_are_renewed_together() -> None:
    kept = Kept(*(held_attempt() for _ in range(250)), held_attempt(due=False))
    await kept.once()
    assert sorted(len(call.renew) for call in kept.store.calls) == [50, 100, 100]
    assert kept.stopped == []


async def test_a_renewed_lease_is_not_renewed_again_at_once() -> None:
    attempt = held_attempt(lease_s=1)
    kept = Kept(attempt)
    await kept.once()
    await kept.once()
    (renewed,) = kept.store.renewed
    assert (renewed.execution_id, renewed.fence) == (attempt.execution_id, attempt.fence)
    assert renewed.lease_ttl_ms == settings().lease_ttl_ms
    assert attempt.lease_until > time.monotonic() + 20


async def test_a_cancelled_execution_stops_its_attempt() -> None:
    attempt = held_attempt()
    kept = Kept(attempt)
    kept.store.renewal_outcome = ExecutionNotActive(terminal_outcome="cancelled")
    await kept.once()
    assert (kept.stopped, attempt.stop) == ([attempt], Stop.CANCELLED)
    assert kept.held == set()


@pytest.mark.parametrize("error", [LeaseRevoked(), ExecutionNotActive(terminal_outcome="none")])
async def test_a_lost_lease_stops_its_attempt(error: FlowFabricError) -> None:
    attempt = held_attempt()
    kept = Kept(attempt)
    kept.store.renewal_outcome = error
    await kept.once()
    assert (kept.stopped, attempt.stop) == ([attempt], Stop.LEASE_LOST)
    assert not attempt.is_lease_healthy


async def test_an_attempt_whose_end_is_on_its_way_is_left_alone() -> None:
    attempt = held_attempt()
    attempt.settled = True
    kept = Kept(attempt)
    kept.store.renewal_outcome = ExecutionNotActive(terminal_outcome="success")
    await kept.once()
    assert (kept.stopped, attempt.stop) == ([], None)


async def test_a_lease_that_cannot_be_renewed_is_unhealthy_and_then_healthy_again() -> None:
    attempt = held_attempt()
    kept = Kept(attempt)
    healthy = []
    for outcome in (*[Invalid("odd")] * 3, c.LeaseRenewed(expires_at=0)):
        kept.store.renewal_outcome = outcome  # type: ignore[assignment]
        await kept.once()
        healthy.append(attempt.is_lease_healthy)
    assert healthy == [True, True, False, True]
    assert kept.stopped == []


async def test_a_store_that_is_silent_for_too_long_has_lost_us_the_lease() -> None:
    attempt, ran_out = held_attempt(), held_attempt(lease_s=-1)
    kept = Kept(attempt, ran_out)
    kept.store.answer = lambda _: BackendUnavailable("gone", sent=False)
    await kept.once()
    assert (kept.stopped, ran_out.stop) == ([ran_out], Stop.LEASE_LOST)
    assert (attempt.failures, attempt.stop) == (1, None)


class Watcher:
    """A duty that notes where it runs."""

    def __init__(self) -> None:
        self.thread = 0
        self.backend: EngineBackend | None = None
        self.began = threading.Event()

    async def run(self, backend: EngineBackend) -> None:
        self.thread, self.backend = threading.get_ident(), backend
        self.began.set()
        await asyncio.Event().wait()


async def test_duties_run_in_a_thread_with_a_connection_of_their_own() -> None:
    own, shared, duty = FakeStore(), FakeStore(), Watcher()

    async def open_own() -> EngineBackend:
        return own.port

    keeper = Keeper([duty], open_own, shared.port)
    await keeper.start()
    assert duty.began.wait(10), "it runs although this loop is blocked"
    await keeper.stop()
    assert duty.thread != threading.get_ident()
    assert duty.backend is own.port
    assert own.closed
    assert not shared.closed


async def test_without_a_connection_to_open_duties_share_the_loop() -> None:
    shared, duty = FakeStore(), Watcher()
    keeper = Keeper([duty], None, shared.port)
    await keeper.start()
    await asyncio.sleep(0)
    assert (duty.thread, duty.backend) == (threading.get_ident(), shared.port)
    await keeper.stop()


async def test_who_starts_a_keeper_that_cannot_connect_is_told() -> None:
    async def open_own() -> EngineBackend:
        raise BackendUnavailable("nobody there", sent=False)

    keeper = Keeper([Watcher()], open_own, FakeStore().port)
    with pytest.raises(BackendUnavailable, match="nobody there"):
        await keeper.start()
    await keeper.stop()


async def test_a_worker_that_was_taken_for_dead_registers_again() -> None:
    store, presence = FakeStore(), Presence(settings())
    await presence.register(store.port)
    await presence.beat(store.port)
    store.heartbeat = c.WorkerNotRegistered()
    await presence.beat(store.port)
    await presence.leave(store.port)
    assert store.presence == ["registered", "alive", "alive", "registered", "dead: stopped"]


def test_an_order_to_stop_is_given_once() -> None:
    attempt = held_attempt()
    waiting = attempt.stopping()
    assert attempt.order(Stop.CANCELLED)
    assert waiting.is_set()
    assert not attempt.order(Stop.LEASE_LOST)
    assert attempt.stop is Stop.CANCELLED


def test_who_begins_to_wait_after_the_order_does_not_wait() -> None:
    attempt = held_attempt()
    attempt.order(Stop.DRAINING)
    assert attempt.stopping().is_set()


def test_what_is_sent_without_checks_is_what_the_checks_would_make() -> None:
    from flowfabric.worker.reporting.requests import completion, renewal

    work = claimed_work()
    assert completion(work.execution_id, work.fence, b"1") == c.CompleteExecutionArgs(
        execution_id=work.execution_id, fence=work.fence, result_payload=b"1", result_encoding="json"
    )
    assert renewal(work.execution_id, 3, work.fence, 5_000) == c.RenewLeaseArgs(
        execution_id=ExecutionId(work.execution_id), attempt_index=3, fence=work.fence, lease_ttl_ms=5_000
    )


class Dying:
    """A duty with a fault."""

    async def run(self, backend: EngineBackend) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize("own_thread", [True, False])
async def test_a_duty_that_dies_is_told(own_thread: bool) -> None:
    async def open_own() -> EngineBackend:
        return FakeStore().port

    keeper = Keeper([Dying()], open_own if own_thread else None, FakeStore().port)
    await keeper.start()
    with pytest.raises(ZeroDivisionError):
        await keeper.failed()
    await keeper.stop()

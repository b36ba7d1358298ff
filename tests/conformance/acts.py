"""What a random life consists of: acts that are made on the store and on the model alike, and compared."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from flowfabric.core import contracts as c
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy
from flowfabric.core.rules.transitions import SITUATIONS, Situation
from flowfabric.core.states import (
    AttemptState,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    TerminalOutcome,
)
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import Driver, Subject
from tests.conformance.model import MAX_RECLAIMS, MAX_REPLAYS, MAX_RETRIES, Execution
from tests.stores.probe import Store

TTL, TIMEOUT, BACKOFF, DEADLINE = 1_000, 2_500, 300, 20_000
POLICY = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=MAX_RETRIES, backoff=FixedBackoff(delay_ms=BACKOFF)),
    max_reclaim_count=MAX_RECLAIMS,
    max_replay_count=MAX_REPLAYS,
)
REFUSED = "refused"


class Acts(RuleBasedStateMachine):
    """What workers, operators and the engine do, each act on the store and on the model alike."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.probe = self.run(self.store.open())
        self.backend, self.clock = self.probe.backend, self.probe.clock
        self.driver = Driver(self.probe)
        self.model: dict[str, Execution] = {}

    def run(self, awaitable: Any) -> Any:
        return self.runner.run(awaitable)

    def teardown(self) -> None:
        self.run(self.probe.close())
        self.runner.close()

    @property
    def now(self) -> int:
        return self.clock.now_ms

    def attempt(self, awaitable: Any) -> Any:
        """The result, or REFUSED."""
        try:
            return self.run(awaitable)
        except FlowFabricError:
            return REFUSED

    def of(self, x: Subject) -> Execution:
        return self.model[x.execution_id]

    def create(self, delay: int = 0, priority: int = 0) -> Subject:
        due = self.now + delay if delay else None
        deadline = self.now + DEADLINE
        x: Subject = self.run(
            self.driver.create(policy=POLICY, priority=priority, delay_until=due, execution_deadline_at=deadline)
        )
        situation = Situation.DELAYED if delay else Situation.WAITING
        self.model[x.execution_id] = Execution(SITUATIONS[situation], deadline, delay_until=due or 0)
        return x

    def let_time_pass(self, ms: int) -> None:
        self.run(self.clock.advance(ms))

    def claim(self, x: Subject) -> None:
        m = self.of(x)
        self.attempt(self.driver.grant(x))
        result = self.attempt(self.driver.claim(x, lease_ttl_ms=TTL, attempt_timeout_ms=TIMEOUT))
        self.run(self.driver.withdraw_grant(x))
        eligible = m.state.eligibility_state is EligibilityState.ELIGIBLE_NOW
        if eligible and m.state.attempt_state is not AttemptState.ATTEMPT_INTERRUPTED:
            m.start_attempt(self.now, TTL, TIMEOUT)
            assert (result.attempt_index, result.lease_epoch) == (m.attempts - 1, m.epoch)
        else:
            assert result == REFUSED

    def claim_in_one_step(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.grant_and_claim(x, lease_ttl_ms=TTL, attempt_timeout_ms=TIMEOUT))
        if m.state.eligibility_state is not EligibilityState.ELIGIBLE_NOW:
            assert result == REFUSED
        elif m.state.attempt_state is AttemptState.ATTEMPT_INTERRUPTED:
            assert isinstance(result, c.ClaimedResumedExecution)
            m.start(self.now, TTL, TIMEOUT)
        else:
            assert isinstance(result, c.ClaimedExecution)
            m.start_attempt(self.now, TTL, TIMEOUT)

    def renew(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.renew(x, lease_ttl_ms=TTL))
        if m.holds_lease(self.now):
            m.lease_expires_at = self.now + TTL
            assert result.expires_at == m.lease_expires_at
        else:
            assert result == REFUSED

    def complete(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.complete(x))
        if m.holds_lease(self.now):
            m.end(TerminalOutcome.SUCCESS)
        assert (result != REFUSED) == (self._ended_as(m, TerminalOutcome.SUCCESS))

    def fail(self, x: Subject) -> None:
        m = self.of(x)
        held = m.holds_lease(self.now)
        retries = m.phase is LifecyclePhase.RUNNABLE and m.state.attempt_state is AttemptState.PENDING_RETRY_ATTEMPT
        repeats = (retries and m.delay_until > 0) or self._ended_as(m, TerminalOutcome.FAILED)
        result = self.attempt(self.driver.fail(x, retry_policy_json=None))
        if held:
            m.fail_or_retry(self.now, BACKOFF, TerminalOutcome.FAILED)
        assert (result != REFUSED) == (held or repeats)

    def delay(self, x: Subject, ms: int = BACKOFF) -> None:
        m = self.of(x)
        if not m.holds_lease(self.now):
            return
        self.run(self.driver.delay(x, self.now + ms))
        m.wait_until(self.now + ms, BlockingReason.WAITING_FOR_DELAY, AttemptState.ATTEMPT_INTERRUPTED)
        if not ms:
            m.queue_up()

    def cancel(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.cancel(x))
        if m.phase is not LifecyclePhase.TERMINAL:
            m.end(TerminalOutcome.CANCELLED)
        assert (result != REFUSED) == (m.state.terminal_outcome is TerminalOutcome.CANCELLED)

    def reach_the_deadline(self, x: Subject) -> None:
        m = self.of(x)
        result = self.run(self.driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE))
        due = m.deadline_at is not None and m.deadline_at <= self.now
        assert isinstance(result, c.ExecutionExpired) == due
        if due:
            m.end(TerminalOutcome.EXPIRED)

    def reach_the_attempt_timeout(self, x: Subject) -> None:
        m = self.of(x)
        result = self.run(self.driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT))
        due = m.attempt_timeout_at is not None and m.attempt_timeout_at <= self.now
        if due:
            m.fail_or_retry(self.now, BACKOFF, TerminalOutcome.EXPIRED)
        assert isinstance(result, c.ExecutionExpired | c.RetryScheduled) == due

    def notice_an_expired_lease(self, x: Subject) -> None:
        m = self.of(x)
        result = self.run(self.driver.mark_expired(x))
        due = m.state.ownership_state is OwnershipState.LEASED and m.lease_expires_at <= self.now
        assert isinstance(result, c.LeaseMarkedExpired) == due
        if due:
            m.lose_lease(OwnershipState.LEASE_EXPIRED_RECLAIMABLE)

    def revoke(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.revoke(x))
        if m.state.ownership_state is OwnershipState.LEASED:
            m.lose_lease(OwnershipState.LEASE_REVOKED)
            assert isinstance(result, c.LeaseRevocation)

    def reclaim(self, x: Subject) -> None:
        m = self.of(x)
        lost = m.is_in(Situation.LEASE_EXPIRED, Situation.LEASE_REVOKED)
        self.run(self.driver.place_grant(x))
        result = self.run(self.driver.reclaim(x, lease_ttl_ms=TTL))
        self.run(self.driver.withdraw_grant(x))
        if lost and m.reclaims < MAX_RECLAIMS:
            assert isinstance(result, c.ReclaimedExecution)
            m.reclaims += 1
            m.start_attempt(self.now, TTL, TIMEOUT)
        elif lost:
            assert isinstance(result, c.ReclaimCapExceeded)
            m.end(TerminalOutcome.FAILED)
        else:
            assert isinstance(result, c.NotReclaimable)

    def promote(self, x: Subject) -> None:
        m = self.of(x)
        result = self.run(self.driver.promote(x))
        waits = m.state.eligibility_state is EligibilityState.NOT_ELIGIBLE_UNTIL_TIME
        if waits and m.delay_until <= self.now:
            m.queue_up()
            assert isinstance(result, c.DelayedPromoted)
        else:
            assert not isinstance(result, c.DelayedPromoted)

    def block(self, x: Subject, situation: Situation = Situation.BLOCKED_BY_OPERATOR) -> None:
        m = self.of(x)
        blocked = SITUATIONS[situation]
        result = self.attempt(self.driver.block(x, blocked.blocking_reason))
        if m.phase is LifecyclePhase.RUNNABLE:
            m.state = msgspec.structs.replace(blocked, attempt_state=m.state.attempt_state)
        else:
            assert result == REFUSED

    def unblock(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.unblock(x))
        if not m.state.eligibility_state.startswith("blocked"):
            assert result == REFUSED
        elif m.delay_until > self.now:
            retries = m.state.attempt_state is AttemptState.PENDING_RETRY_ATTEMPT
            reason = BlockingReason.WAITING_FOR_RETRY_BACKOFF if retries else BlockingReason.WAITING_FOR_DELAY
            m.wait_until(m.delay_until, reason, m.state.attempt_state)
        else:
            m.queue_up()

    def replay(self, x: Subject) -> None:
        m = self.of(x)
        result = self.attempt(self.driver.replay(x))
        if m.phase is LifecyclePhase.TERMINAL and m.replays < MAX_REPLAYS:
            m.replay(self.now)
        else:
            assert result == REFUSED

    def _ended_as(self, m: Execution, outcome: TerminalOutcome) -> bool:
        """Ended so by an attempt's own call, which is what a repeated call is recognised by."""
        recorded = m.state.terminal_outcome is outcome
        return recorded and m.state.attempt_state is AttemptState.ATTEMPT_TERMINAL

    @invariant()
    def store_and_model_agree(self) -> None:
        states = self.run(self.probe.check())
        assert states == {execution_id: m.state for execution_id, m in self.model.items()}

    @invariant()
    def attempts_are_all_there(self) -> None:
        for execution_id, m in self.model.items():
            attempts = self.run(self.backend.list_attempts(execution_id))
            assert [attempt.attempt_index for attempt in attempts] == list(range(m.attempts))


def agree(machine: type[Acts], store: Store, *, max_examples: int, step_count: int) -> None:
    """Run the machine on this store."""
    here = type(machine.__name__, (machine,), {"store": store})
    run_state_machine_as_test(
        here,
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=step_count,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

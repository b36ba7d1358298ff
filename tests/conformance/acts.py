"""What a random life consists of: acts made on the store and, through the rules, on the model alike, and compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, LeaseId, Namespace
from flowfabric.core.policy import ExecutionPolicy, FixedBackoff, RetryPolicy
from flowfabric.core.rules.execution import claims, due, lease, lifecycle, repeats, retrying, steps
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.states import AttemptState, LifecyclePhase
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import INSTANCE, LANE, WORKER, Driver, Subject
from tests.conformance.model import Execution
from tests.stores.probe import Store

TTL, TIMEOUT, BACKOFF, DEADLINE = 1_000, 2_500, 300, 20_000
MAX_RETRIES, MAX_RECLAIMS, MAX_REPLAYS = 2, 2, 4
MANY_LINES = 1_000
POLICY = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=MAX_RETRIES, backoff=FixedBackoff(delay_ms=BACKOFF)),
    max_reclaim_count=MAX_RECLAIMS,
    max_replay_count=MAX_REPLAYS,
)


@dataclass(frozen=True)
class Refused:
    """The store refused a call with this code."""

    code: str


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
        try:
            self.logs_agree()
        finally:
            self.run(self.probe.close())
            self.runner.close()

    @property
    def now(self) -> int:
        return self.clock.now_ms

    def attempt(self, awaitable: Any) -> Any:
        """The result, or Refused."""
        try:
            return self.run(awaitable)
        except FlowFabricError as error:
            return Refused(error.code)

    def of(self, x: Subject) -> Execution:
        return self.model[x.execution_id]

    def agree(self, x: Subject, decided: Refusal | Changes, result: Any, first: Any = None) -> bool:
        """The store did what the rules say, with the same code. `first`: what a repeated call was answered before."""
        if isinstance(decided, Refusal):
            assert isinstance(result, Refused) != bool(first), (decided, result)
            assert first or result == Refused(decided.code)
            return False
        assert not isinstance(result, Refused), (decided, result)
        return self.of(x).apply(decided)

    def own(self, x: Subject, fence: c.LeaseFence) -> None:
        """The worker holds the lease that the rules gave it; a store that claims many at once makes up their ids."""
        held = self.of(x).record
        assert held.attempt_index is not None
        assert fence.lease_epoch == held.lease_epoch
        self.of(x).record = replace(held, lease_id=fence.lease_id, attempt_id=fence.attempt_id)
        x.fence, x.attempt_index, x.attempted = fence, held.attempt_index, True

    def create(self, delay: int = 0, priority: int = 0) -> Subject:
        args = c.CreateExecutionArgs(
            execution_id=self.driver.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind",
            priority=priority, policy=POLICY, delay_until=self.now + delay if delay else None,
            execution_deadline_at=self.now + DEADLINE,
        )  # fmt: skip
        result = self.run(self.backend.create_execution(args))
        record, line = lifecycle.create(args, self.now)
        assert result == c.ExecutionCreated(execution_id=args.execution_id, public_state=record.public_state)
        self.model[args.execution_id] = Execution(record, [line])
        return Subject(args.execution_id)

    def let_time_pass(self, ms: int) -> None:
        self.run(self.clock.advance(ms))

    def claim(self, x: Subject) -> None:
        args = self.driver.claim_args(x, lease_ttl_ms=TTL, attempt_timeout_ms=TIMEOUT)
        self.attempt(self.driver.grant(x))
        result = self.attempt(self.backend.claim_execution(args))
        self.run(self.driver.withdraw_grant(x))
        kind = claims.next_attempt_type(self.of(x).record)
        if self.agree(x, claims.claim(self.of(x).record, args, self.now), result):
            self.own(x, result.fence)
            assert (result.attempt_index, result.attempt_type) == (x.attempt_index, kind)

    def claim_in_one_step(self, x: Subject) -> None:
        args = self.driver.one_step_args(x, lease_ttl_ms=TTL, attempt_timeout_ms=TIMEOUT)
        result = self.attempt(self.backend.issue_grant_and_claim(args))
        goes_on = self.of(x).state.attempt_state is AttemptState.ATTEMPT_INTERRUPTED
        if self.agree(x, claims.claim_in_one_step(self.of(x).record, args, self.now), result):
            self.own(x, result.fence)
            assert isinstance(result, c.ClaimedResumedExecution if goes_on else c.ClaimedExecution)
            assert result.attempt_index == x.attempt_index

    def renew(self, x: Subject) -> None:
        args = c.RenewLeaseArgs(
            execution_id=x.execution_id, attempt_index=x.attempt_index, fence=x.fence, lease_ttl_ms=TTL
        )
        result = self.attempt(self.backend.renew_lease(args))
        if self.agree(x, lease.renew(self.of(x).record, args, self.now), result):
            assert result.expires_at == self.of(x).record.lease_expires_at

    def complete(self, x: Subject) -> None:
        args = c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence, result_payload=b"result")
        self._end(x, args, lifecycle.complete, self.backend.complete_execution, repeats.was_completed)

    def fail(self, x: Subject) -> None:
        args = c.FailExecutionArgs(
            execution_id=x.execution_id, fence=x.fence, failure_reason="boom", failure_category="transient"
        )
        result = self._end(x, args, lifecycle.fail, self.backend.fail_execution, repeats.was_failed)
        if isinstance(result, c.RetryScheduled):
            assert result.delay_until == self.of(x).record.delay_until

    def delay(self, x: Subject, ms: int = BACKOFF) -> None:
        args = c.DelayExecutionArgs(execution_id=x.execution_id, fence=x.fence, delay_until=self.now + ms)
        self._end(x, args, lifecycle.delay, self.backend.delay_execution, repeats.was_delayed)

    def cancel(self, x: Subject, source: c.CancelSource = c.CancelSource.OPERATOR_OVERRIDE) -> None:
        fence = x.fence if source is c.CancelSource.LEASE_HOLDER else None
        args = c.CancelExecutionArgs(execution_id=x.execution_id, reason="enough", source=source, fence=fence)
        self._end(x, args, lifecycle.cancel, self.backend.cancel_execution, repeats.was_cancelled)

    def _end(self, x: Subject, args: Any, rule: Any, call: Any, recognise: Callable[[Any, Any], Any]) -> Any:
        """A call that is answered again when it was the one that led here."""
        decided, result = rule(self.of(x).record, args, self.now), self.attempt(call(args))
        first = recognise(args, decided.details) if isinstance(decided, Refusal) and decided.details else None
        self.agree(x, decided, result, first)
        return result

    def reach_the_deadline(self, x: Subject) -> None:
        result = self.run(self.driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE))
        did = self.agree(x, due.reach_deadline(self.of(x).record, self.now), result)
        assert isinstance(result, c.ExecutionExpired) == did

    def reach_the_attempt_timeout(self, x: Subject) -> None:
        result = self.run(self.driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT))
        did = self.agree(x, due.expire_attempt(self.of(x).record, self.now), result)
        assert isinstance(result, c.ExecutionExpired | c.RetryScheduled) == did

    def notice_an_expired_lease(self, x: Subject) -> None:
        result = self.run(self.driver.mark_expired(x))
        did = self.agree(x, lease.mark_expired(self.of(x).record, self.now), result)
        assert isinstance(result, c.LeaseMarkedExpired) == did

    def revoke(self, x: Subject) -> None:
        args = c.RevokeLeaseArgs(execution_id=x.execution_id, reason="operator")
        result = self.attempt(self.backend.revoke_lease(args))
        did = self.agree(x, lease.revoke(self.of(x).record, args), result)
        assert isinstance(result, c.LeaseRevocation) == did

    def reclaim(self, x: Subject) -> None:
        args = c.ReclaimExecutionArgs(
            execution_id=x.execution_id, worker_id=WORKER, worker_instance_id=INSTANCE, lane_id=LANE,
            lease_id=LeaseId.new(), lease_ttl_ms=TTL, attempt_id=AttemptId.new(),
        )  # fmt: skip
        self.run(self.driver.place_grant(x))
        result = self.run(self.backend.reclaim_execution(args))
        self.run(self.driver.withdraw_grant(x))
        decided = lease.reclaim(self.of(x).record, args, self.now)
        if isinstance(decided, Refusal):
            assert isinstance(result, c.NotReclaimable)
            return
        self.of(x).apply(decided)
        if self.of(x).phase is LifecyclePhase.TERMINAL:
            assert isinstance(result, c.ReclaimCapExceeded)
            return
        self.own(x, result.fence)
        assert result.new_attempt_index == x.attempt_index

    def promote(self, x: Subject) -> None:
        result = self.run(self.driver.promote(x))
        did = self.agree(x, due.promote(self.of(x).record, self.now), result)
        assert isinstance(result, c.DelayedPromoted) == did

    def block(self, x: Subject, situation: Situation = Situation.BLOCKED_BY_OPERATOR) -> None:
        reason = SITUATIONS[situation].blocking_reason
        args = c.BlockExecutionArgs(execution_id=x.execution_id, blocking_reason=reason, blocking_detail="because")
        result = self.attempt(self.backend.block_execution_for_admission(args))
        self.agree(x, lifecycle.block(self.of(x).record, args), result)

    def unblock(self, x: Subject) -> None:
        args = c.UnblockExecutionArgs(execution_id=x.execution_id)
        result = self.attempt(self.backend.unblock_execution(args))
        self.agree(x, lifecycle.unblock(self.of(x).record, args, self.now), result)

    def replay(self, x: Subject) -> None:
        result = self.attempt(self.driver.replay(x))
        if self.agree(x, lifecycle.replay(self.of(x).record, self.now), result):
            self.of(x).steps.clear()

    def retry(self, x: Subject) -> None:
        self.agree(x, retrying.retry(self.of(x).record, self.now), self.attempt(self.driver.retry(x)))

    def fork(self, x: Subject) -> Subject | None:
        """A new one beside it, without records: this machine makes none."""
        source, result = self.of(x).record, self.attempt(self.driver.fork(x))
        if isinstance(refused := steps.decide("fork_execution", source.state), Refusal):
            assert result == Refused(refused.code)
            return None
        args = c.CreateExecutionArgs(
            execution_id=result.execution_id, namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind",
            priority=source.priority, policy=source.policy,
        )  # fmt: skip
        record, line = lifecycle.create(args, self.now)
        assert (result.public_state, result.step_count) == (record.public_state, 0)
        self.model[args.execution_id] = Execution(record, [line])
        return Subject(args.execution_id)

    @invariant()
    def store_and_model_agree(self) -> None:
        states = self.run(self.probe.check())
        assert states == {execution_id: m.state for execution_id, m in self.model.items()}

    @invariant()
    def attempts_are_all_there(self) -> None:
        for execution_id, m in self.model.items():
            attempts = self.run(self.backend.list_attempts(execution_id))
            last = -1 if m.record.attempt_index is None else m.record.attempt_index
            assert [attempt.attempt_index for attempt in attempts] == list(range(last + 1))
            if attempts:
                assert attempts[-1].attempt_id == m.record.attempt_id

    def logs_agree(self) -> None:
        """Every line that the rules wrote, in their order, and no other."""
        for execution_id, m in self.model.items():
            page = self.run(self.backend.history(execution_id, limit=MANY_LINES))
            found = [Line(each.event, each.outcome or "") for each in page.events]
            assert found == m.lines, (found, m.lines)


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

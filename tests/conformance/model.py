"""What the engine should do, in memory: one page of rules against which the store is compared after every step."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.rules.transitions import SITUATIONS, Situation
from flowfabric.core.states import (
    AttemptState,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    StateVector,
    TerminalOutcome,
)
from tests.conformance.model_waits import Suspension, Waitpoint

MAX_RETRIES = 2
MAX_RECLAIMS = 2
MAX_REPLAYS = 4

_ENDINGS = {
    TimeoutBehavior.FAIL: TerminalOutcome.FAILED,
    TimeoutBehavior.CANCEL: TerminalOutcome.CANCELLED,
    TimeoutBehavior.EXPIRE: TerminalOutcome.EXPIRED,
}


@dataclass
class Execution:
    """The model's idea of one execution. Times are what was asked for, never read from a clock."""

    state: StateVector
    deadline_at: int | None
    delay_until: int = 0
    lease_expires_at: int = 0
    attempt_timeout_at: int | None = None
    epoch: int = 0
    attempts: int = 0
    retries: int = 0
    reclaims: int = 0
    replays: int = 0
    ended: list[str] = field(default_factory=list)
    suspension: Suspension | None = None  # the open one, or the last one
    waitpoints: list[Waitpoint] = field(default_factory=list)
    signals: set[str] = field(default_factory=set)  # of every signal that was accepted
    steps: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def is_in(self, *situations: Situation) -> bool:
        return self.state in [SITUATIONS[situation] for situation in situations]

    @property
    def phase(self) -> LifecyclePhase:
        return self.state.lifecycle_phase

    def holds_lease(self, now: int) -> bool:
        return self.state.ownership_state is OwnershipState.LEASED and now < self.lease_expires_at

    def queue_up(self, attempt: AttemptState | None = None) -> None:
        self.state = StateVector(
            lifecycle_phase=LifecyclePhase.RUNNABLE,
            eligibility_state=EligibilityState.ELIGIBLE_NOW,
            blocking_reason=BlockingReason.WAITING_FOR_WORKER,
            attempt_state=attempt or self.state.attempt_state,
        )

    def wait_until(self, due: int, reason: BlockingReason, attempt: AttemptState) -> None:
        self.delay_until = due
        self.attempt_timeout_at = None
        self.state = StateVector(
            lifecycle_phase=LifecyclePhase.RUNNABLE,
            eligibility_state=EligibilityState.NOT_ELIGIBLE_UNTIL_TIME,
            blocking_reason=reason,
            attempt_state=attempt,
        )

    def start(self, now: int, ttl: int, timeout: int) -> None:
        self.state = SITUATIONS[Situation.ACTIVE]
        self.epoch += 1
        self.lease_expires_at = now + ttl
        self.attempt_timeout_at = now + timeout
        self.delay_until = 0

    def start_attempt(self, now: int, ttl: int, timeout: int) -> None:
        self.start(now, ttl, timeout)
        self.attempts += 1

    def requeue(self) -> None:
        """A lost lease goes back to the queue; its attempt time-out went with it."""
        self.attempt_timeout_at = None
        self.queue_up(AttemptState.PENDING_RETRY_ATTEMPT)

    def lose_lease(self, ownership: OwnershipState) -> None:
        self.state = StateVector(
            lifecycle_phase=LifecyclePhase.ACTIVE,
            ownership_state=ownership,
            blocking_reason=BlockingReason.WAITING_FOR_WORKER,
            attempt_state=AttemptState.ATTEMPT_INTERRUPTED,
        )

    def end(self, outcome: TerminalOutcome) -> None:
        running = self.state.attempt_state in (AttemptState.RUNNING_ATTEMPT, AttemptState.ATTEMPT_INTERRUPTED)
        self.state = StateVector(
            lifecycle_phase=LifecyclePhase.TERMINAL,
            terminal_outcome=outcome,
            attempt_state=AttemptState.ATTEMPT_TERMINAL if running else self.state.attempt_state,
        )
        self.deadline_at = self.attempt_timeout_at = None
        self.ended.append(outcome)
        if self.suspension:
            self.suspension.close("expired:execution_deadline" if outcome is TerminalOutcome.EXPIRED else outcome)

    def fail_or_retry(self, now: int, backoff: int, terminal: TerminalOutcome) -> None:
        if self.retries < MAX_RETRIES:
            self.retries += 1
            self.wait_until(now + backoff, BlockingReason.WAITING_FOR_RETRY_BACKOFF, AttemptState.PENDING_RETRY_ATTEMPT)
        else:
            self.end(terminal)

    def suspend(self, suspension: Suspension) -> None:
        """Wait, unless the signals that came early suffice."""
        self.suspension = suspension
        if suspension.is_met:
            suspension.close("resumed")
            return
        self.attempt_timeout_at = None
        self.state = StateVector(
            lifecycle_phase=LifecyclePhase.SUSPENDED,
            blocking_reason=suspension.blocking_reason,
            attempt_state=AttemptState.ATTEMPT_INTERRUPTED,
        )

    def wake(self, reason: str, now: int, delay: int = 0) -> None:
        assert self.suspension
        self.suspension.close(reason)
        if delay:
            self.wait_until(now + delay, BlockingReason.WAITING_FOR_RESUME_DELAY, AttemptState.ATTEMPT_INTERRUPTED)
        else:
            self.queue_up()

    def time_out(self, now: int) -> bool:
        """Apply the time-out of the suspension; whether there was one to apply."""
        s = self.suspension
        if self.phase is not LifecyclePhase.SUSPENDED or not s or s.timeout_at is None or s.timeout_at > now:
            return False
        if s.behavior is TimeoutBehavior.ESCALATE:
            s.escalate()
            self.state = SITUATIONS[Situation.ESCALATED]
        elif s.behavior in _ENDINGS:
            s.close(f"timed_out_{s.behavior}")
            self.end(_ENDINGS[s.behavior])
        else:
            if s.behavior is TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL:
                s.leave_timeout_signal()
                self.signals.add(s.suspension_id)
            self.wake("timed_out_auto_resume", now)
        return True

    def replay(self, now: int) -> None:
        """A new life: nothing of what was recorded or waited for is met again."""
        self.replays += 1
        self.delay_until = 0
        self.queue_up(AttemptState.PENDING_REPLAY_ATTEMPT)
        self.suspension = None
        self.steps.clear()
        for waitpoint in self.waitpoints:
            if waitpoint.is_pending and waitpoint.expires_at > now:
                waitpoint.close()

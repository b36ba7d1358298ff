"""What the engine should do, in memory: one page of rules against which the store is compared after every step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flowfabric.core.states import (
    AttemptState,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    StateVector,
    TerminalOutcome,
)
from flowfabric.core.transitions import SITUATIONS, Situation

MAX_RETRIES = 2
MAX_RECLAIMS = 2
MAX_REPLAYS = 2


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

    def fail_or_retry(self, now: int, backoff: int, terminal: TerminalOutcome) -> None:
        if self.retries < MAX_RETRIES:
            self.retries += 1
            self.wait_until(now + backoff, BlockingReason.WAITING_FOR_RETRY_BACKOFF, AttemptState.PENDING_RETRY_ATTEMPT)
        else:
            self.end(terminal)

    def copy(self) -> Execution:
        return replace(self, ended=list(self.ended))

"""The input of the rules: one execution with its lease, attempt, counters, times, suspension and waitpoints.

A store loads these from its rows or hashes. A rule never changes one: it returns `Changes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from flowfabric.core.conditions import Delivery, ResumeCondition
from flowfabric.core.contracts.waits.suspension import SuspensionReasonCode
from flowfabric.core.contracts.waits.waitpoints import WaitpointState
from flowfabric.core.ids import AttemptId, ExecutionId, LeaseId, SuspensionId, WaitpointId, WaitpointKey
from flowfabric.core.policy import ExecutionPolicy, TimeoutBehavior
from flowfabric.core.states import AttemptType, LifecyclePhase, OwnershipState, PublicState, StateVector


class Arrival(NamedTuple):
    """A signal and its position in the order in which the execution accepted signals."""

    position: int
    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitpointRecord:
    """Pending until a suspension uses it, then active, then closed. A pending one keeps early signals and expires."""

    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    state: WaitpointState
    expires_at: int | None = None
    suspension_id: SuspensionId | None = None
    buffered: tuple[Arrival, ...] = ()
    was_pending: bool = False  # made before its wait, so that its link may be out
    is_out_of_time: bool = False  # closed because its wait did not come in time

    @property
    def is_pending(self) -> bool:
        return self.state is WaitpointState.PENDING

    @property
    def is_active(self) -> bool:
        return self.state is WaitpointState.ACTIVE

    def has_expired(self, now: int) -> bool:
        return self.is_pending and (self.expires_at or 0) <= now

    def is_open(self, now: int) -> bool:
        return self.is_active or (self.is_pending and not self.has_expired(now))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionRecord:
    """The open suspension, or the last one. `deliveries` are its signals in the order they were credited."""

    suspension_id: SuspensionId
    condition: ResumeCondition
    keys: dict[WaitpointId, WaitpointKey]
    reason_code: SuspensionReasonCode = SuspensionReasonCode.WAITING_FOR_SIGNAL
    timeout_at: int | None = None
    timeout_behavior: TimeoutBehavior = TimeoutBehavior.FAIL
    resume_delay_ms: int = 0
    continuation_metadata_pointer: str | None = None
    deliveries: tuple[Arrival, ...] = ()
    close_reason: str | None = None
    resume_signals: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.close_reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """One execution. Lease and attempt are the current ones, or the last ones if none is running."""

    execution_id: ExecutionId
    state: StateVector
    created_at: int = 0
    completed_at: int | None = None
    priority: int = 0
    policy: ExecutionPolicy | None = None

    lease_id: LeaseId | None = None
    lease_epoch: int = 0
    lease_expires_at: int | None = None
    attempt_id: AttemptId | None = None
    attempt_index: int | None = None  # None: never claimed
    next_attempt_type: AttemptType | None = None

    delay_until: int | None = None
    deadline_at: int | None = None
    attempt_timeout_ms: int | None = None  # from the policy, or from the last claim that set one
    attempt_timeout_at: int | None = None

    retry_count: int = 0
    reclaim_count: int = 0
    replay_count: int = 0
    signal_count: int = 0

    failure_reason: str | None = None
    failure_category: str | None = None
    cancellation_reason: str | None = None
    cancelled_by: str | None = None

    open_dependencies: int = 0
    suspension: SuspensionRecord | None = None
    waitpoints: tuple[WaitpointRecord, ...] = ()

    @property
    def phase(self) -> LifecyclePhase:
        return self.state.lifecycle_phase

    @property
    def public_state(self) -> PublicState:
        return self.state.public_state

    def holds_lease(self, now: int) -> bool:
        """An expired lease counts as lost before the engine marks it (D11)."""
        return self.state.ownership_state is OwnershipState.LEASED and (self.lease_expires_at or 0) > now

    def describe(self) -> dict[str, Any]:
        """The state for a refusal: enough for a caller to recognize its own earlier call (G3)."""
        return {
            "terminal_outcome": self.state.terminal_outcome,
            "lease_epoch": self.lease_epoch,
            "lifecycle_phase": self.phase,
            "attempt_id": self.attempt_id or "",
            "attempt_state": self.state.attempt_state,
            "delay_until": self.delay_until or "",
            "public_state": self.public_state,
        }

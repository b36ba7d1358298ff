"""The seven dimensions of an execution's state, their legal combinations, and the public state.

Six dimensions are stored. `derive_public_state` derives the public state from them; `lib/record/state.lua`
repeats that rule, and a test compares the two on every combination.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from flowfabric.errors import Corruption


class LifecyclePhase(StrEnum):
    SUBMITTED = "submitted"
    RUNNABLE = "runnable"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    TERMINAL = "terminal"


class OwnershipState(StrEnum):
    UNOWNED = "unowned"
    LEASED = "leased"
    LEASE_EXPIRED_RECLAIMABLE = "lease_expired_reclaimable"
    LEASE_REVOKED = "lease_revoked"


class EligibilityState(StrEnum):
    ELIGIBLE_NOW = "eligible_now"
    NOT_ELIGIBLE_UNTIL_TIME = "not_eligible_until_time"
    BLOCKED_BY_DEPENDENCIES = "blocked_by_dependencies"
    BLOCKED_BY_BUDGET = "blocked_by_budget"
    BLOCKED_BY_QUOTA = "blocked_by_quota"
    BLOCKED_BY_ROUTE = "blocked_by_route"
    BLOCKED_BY_LANE_STATE = "blocked_by_lane_state"
    BLOCKED_BY_OPERATOR = "blocked_by_operator"
    NOT_APPLICABLE = "not_applicable"


class BlockingReason(StrEnum):
    NONE = "none"
    WAITING_FOR_WORKER = "waiting_for_worker"
    WAITING_FOR_RETRY_BACKOFF = "waiting_for_retry_backoff"
    WAITING_FOR_RESUME_DELAY = "waiting_for_resume_delay"
    WAITING_FOR_DELAY = "waiting_for_delay"
    WAITING_FOR_SIGNAL = "waiting_for_signal"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_CALLBACK = "waiting_for_callback"
    WAITING_FOR_TOOL_RESULT = "waiting_for_tool_result"
    WAITING_FOR_CHILDREN = "waiting_for_children"
    WAITING_FOR_BUDGET = "waiting_for_budget"
    WAITING_FOR_QUOTA = "waiting_for_quota"
    WAITING_FOR_CAPABLE_WORKER = "waiting_for_capable_worker"
    WAITING_FOR_LOCALITY_MATCH = "waiting_for_locality_match"
    PAUSED_BY_OPERATOR = "paused_by_operator"
    PAUSED_BY_POLICY = "paused_by_policy"
    PAUSED_BY_FLOW_CANCEL = "paused_by_flow_cancel"


class TerminalOutcome(StrEnum):
    NONE = "none"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class AttemptState(StrEnum):
    NONE = "none"
    PENDING_FIRST_ATTEMPT = "pending_first_attempt"
    RUNNING_ATTEMPT = "running_attempt"
    ATTEMPT_INTERRUPTED = "attempt_interrupted"
    PENDING_RETRY_ATTEMPT = "pending_retry_attempt"
    PENDING_REPLAY_ATTEMPT = "pending_replay_attempt"
    ATTEMPT_TERMINAL = "attempt_terminal"


class PublicState(StrEnum):
    WAITING = "waiting"
    DELAYED = "delayed"
    RATE_LIMITED = "rate_limited"
    WAITING_CHILDREN = "waiting_children"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    RESUMABLE = "resumable"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class AttemptType(StrEnum):
    """Why an attempt was started."""

    INITIAL = "initial"
    RETRY = "retry"
    RECLAIM = "reclaim"
    REPLAY = "replay"
    FALLBACK = "fallback"


class AttemptRecordState(StrEnum):
    """The state of one attempt."""

    CREATED = "created"
    STARTED = "started"
    SUSPENDED = "suspended"
    ENDED_SUCCESS = "ended_success"
    ENDED_FAILURE = "ended_failure"
    ENDED_CANCELLED = "ended_cancelled"
    INTERRUPTED_RECLAIMED = "interrupted_reclaimed"


class LaneState(StrEnum):
    """What a lane allows: `paused` starts nothing, `draining` finishes what was started."""

    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"
    DISABLED = "disabled"


class StateVector(msgspec.Struct, frozen=True, kw_only=True):
    """One execution's state."""

    lifecycle_phase: LifecyclePhase
    ownership_state: OwnershipState = OwnershipState.UNOWNED
    eligibility_state: EligibilityState = EligibilityState.NOT_APPLICABLE
    blocking_reason: BlockingReason = BlockingReason.NONE
    terminal_outcome: TerminalOutcome = TerminalOutcome.NONE
    attempt_state: AttemptState = AttemptState.NONE

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> StateVector:
        """The state in a stored record; an unknown word means that the record is broken."""
        stored = {name: record[name] for name in cls.__struct_fields__ if name in record}
        try:
            given = msgspec.convert(stored, cls)
        except msgspec.ValidationError as cause:
            raise Corruption(f"the record holds no known state: {cause} in {stored}") from cause
        waits = given.lifecycle_phase is LifecyclePhase.RUNNABLE and record.get("public_state") == _WAITING_CHILDREN
        usual = WAITING_CHILDREN_DEFAULTS if waits else PHASE_DEFAULTS[given.lifecycle_phase]
        return msgspec.structs.replace(usual, **{n: getattr(given, n) for n in stored})

    @property
    def public_state(self) -> PublicState:
        return derive_public_state(self.lifecycle_phase, self.eligibility_state, self.terminal_outcome)


# The meaning of an absent field in each phase: the ordinary case. lib/record/state.lua has the same table.
PHASE_DEFAULTS = {
    LifecyclePhase.SUBMITTED: StateVector(lifecycle_phase=LifecyclePhase.SUBMITTED),
    LifecyclePhase.RUNNABLE: StateVector(
        lifecycle_phase=LifecyclePhase.RUNNABLE,
        eligibility_state=EligibilityState.ELIGIBLE_NOW,
        blocking_reason=BlockingReason.WAITING_FOR_WORKER,
        attempt_state=AttemptState.PENDING_FIRST_ATTEMPT,
    ),
    LifecyclePhase.ACTIVE: StateVector(
        lifecycle_phase=LifecyclePhase.ACTIVE,
        ownership_state=OwnershipState.LEASED,
        attempt_state=AttemptState.RUNNING_ATTEMPT,
    ),
    LifecyclePhase.SUSPENDED: StateVector(
        lifecycle_phase=LifecyclePhase.SUSPENDED,
        blocking_reason=BlockingReason.WAITING_FOR_SIGNAL,
        attempt_state=AttemptState.ATTEMPT_INTERRUPTED,
    ),
    LifecyclePhase.TERMINAL: StateVector(
        lifecycle_phase=LifecyclePhase.TERMINAL,
        terminal_outcome=TerminalOutcome.SUCCESS,
        attempt_state=AttemptState.ATTEMPT_TERMINAL,
    ),
}

# The same for members that wait for dependencies, which have a public state of their own.
_WAITING_CHILDREN = PublicState.WAITING_CHILDREN.value
WAITING_CHILDREN_DEFAULTS = StateVector(
    lifecycle_phase=LifecyclePhase.RUNNABLE,
    eligibility_state=EligibilityState.BLOCKED_BY_DEPENDENCIES,
    blocking_reason=BlockingReason.WAITING_FOR_CHILDREN,
    attempt_state=AttemptState.PENDING_FIRST_ATTEMPT,
)

BY_OUTCOME = {
    TerminalOutcome.SUCCESS: PublicState.COMPLETED,
    TerminalOutcome.FAILED: PublicState.FAILED,
    TerminalOutcome.CANCELLED: PublicState.CANCELLED,
    TerminalOutcome.EXPIRED: PublicState.EXPIRED,
    TerminalOutcome.SKIPPED: PublicState.SKIPPED,
    TerminalOutcome.NONE: PublicState.FAILED,  # a broken record must not look alive
}

BY_ELIGIBILITY = {
    EligibilityState.NOT_ELIGIBLE_UNTIL_TIME: PublicState.DELAYED,
    EligibilityState.BLOCKED_BY_DEPENDENCIES: PublicState.WAITING_CHILDREN,
    EligibilityState.BLOCKED_BY_BUDGET: PublicState.RATE_LIMITED,
    EligibilityState.BLOCKED_BY_QUOTA: PublicState.RATE_LIMITED,
}


def derive_public_state(phase: LifecyclePhase, eligibility: EligibilityState, outcome: TerminalOutcome) -> PublicState:
    """Derive the public state; ownership, reason and attempt do not matter."""
    if phase is LifecyclePhase.TERMINAL:
        return BY_OUTCOME[outcome]
    if phase is LifecyclePhase.SUSPENDED:
        return PublicState.SUSPENDED
    if phase is LifecyclePhase.ACTIVE:
        return PublicState.ACTIVE
    return BY_ELIGIBILITY.get(eligibility, PublicState.WAITING)


def violations(state: StateVector) -> list[str]:
    """Every legality rule that this state breaks; empty for a legal state."""
    phase, owner = state.lifecycle_phase, state.ownership_state
    leased = owner is OwnershipState.LEASED
    eligible = state.eligibility_state is EligibilityState.ELIGIBLE_NOW
    terminal = phase is LifecyclePhase.TERMINAL
    ended = state.terminal_outcome is not TerminalOutcome.NONE
    active = phase is LifecyclePhase.ACTIVE
    rules = {
        "a terminal execution holds no lease": terminal and leased,
        "a suspended execution holds no lease": phase is LifecyclePhase.SUSPENDED and leased,
        "a submitted execution holds no lease": phase is LifecyclePhase.SUBMITTED and leased,
        "only a terminal execution has an outcome": ended and not terminal,
        "a terminal execution has an outcome": terminal and not ended,
        "an active execution is past its first attempt's start": active
        and state.attempt_state is AttemptState.PENDING_FIRST_ATTEMPT,
        "an active execution is owned": active and owner is OwnershipState.UNOWNED,
        "a terminal execution is not eligible": terminal and eligible,
        "an active execution is not eligible": active and eligible,
        "a runnable execution runs no attempt": phase is LifecyclePhase.RUNNABLE
        and state.attempt_state is AttemptState.RUNNING_ATTEMPT,
        "a runnable execution says whether it is eligible": phase is LifecyclePhase.RUNNABLE
        and state.eligibility_state is EligibilityState.NOT_APPLICABLE,
    }
    return [rule for rule, broken in rules.items() if broken]

"""Every situation of an execution, and the effect of each operation in it.

This table is data: the conformance suite calls every operation in every situation and compares, the model
test walks it at random, the reachability test proves that no execution gets stuck (G1), and the graph in
the docs is printed from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from flowfabric.core.states import (
    AttemptState,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    StateVector,
    TerminalOutcome,
)


class Situation(StrEnum):
    """A named state vector."""

    WAITING = "waiting"
    DELAYED = "delayed"
    RETRY_BACKOFF = "retry_backoff"
    WAITING_RETRY = "waiting_retry"
    INTERRUPTED_DELAYED = "interrupted_delayed"
    INTERRUPTED_WAITING = "interrupted_waiting"
    RESUME_DELAYED = "resume_delayed"
    WAITING_CHILDREN = "waiting_children"
    BLOCKED_BY_DEPENDENCIES = "blocked_by_dependencies"
    WAITING_REPLAY = "waiting_replay"
    BLOCKED_BY_BUDGET = "blocked_by_budget"
    BLOCKED_BY_QUOTA = "blocked_by_quota"
    BLOCKED_BY_ROUTE = "blocked_by_route"
    BLOCKED_BY_OPERATOR = "blocked_by_operator"
    BLOCKED_BY_LANE_STATE = "blocked_by_lane_state"
    ACTIVE = "active"
    LEASE_EXPIRED = "lease_expired"
    LEASE_REVOKED = "lease_revoked"
    SUSPENDED = "suspended"
    ESCALATED = "escalated"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


_S = Situation
_P, _E, _B, _A = LifecyclePhase, EligibilityState, BlockingReason, AttemptState
_FIRST, _RETRY, _REPLAY = _A.PENDING_FIRST_ATTEMPT, _A.PENDING_RETRY_ATTEMPT, _A.PENDING_REPLAY_ATTEMPT
_INTERRUPTED = _A.ATTEMPT_INTERRUPTED


def _runnable(eligibility: EligibilityState, reason: BlockingReason, attempt: AttemptState) -> StateVector:
    return StateVector(
        lifecycle_phase=_P.RUNNABLE,
        eligibility_state=eligibility,
        blocking_reason=reason,
        attempt_state=attempt,
    )


def _owned(owner: OwnershipState, attempt: AttemptState, reason: BlockingReason = _B.NONE) -> StateVector:
    return StateVector(lifecycle_phase=_P.ACTIVE, ownership_state=owner, blocking_reason=reason, attempt_state=attempt)


def _suspended(reason: BlockingReason) -> StateVector:
    return StateVector(lifecycle_phase=_P.SUSPENDED, blocking_reason=reason, attempt_state=_INTERRUPTED)


def _ended(outcome: TerminalOutcome, attempt: AttemptState = _A.ATTEMPT_TERMINAL) -> StateVector:
    return StateVector(lifecycle_phase=_P.TERMINAL, terminal_outcome=outcome, attempt_state=attempt)


SITUATIONS: dict[Situation, StateVector] = {
    _S.WAITING: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _FIRST),
    _S.DELAYED: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_DELAY, _FIRST),
    _S.RETRY_BACKOFF: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_RETRY_BACKOFF, _RETRY),
    _S.WAITING_RETRY: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _RETRY),
    _S.INTERRUPTED_DELAYED: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_DELAY, _INTERRUPTED),
    _S.INTERRUPTED_WAITING: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _INTERRUPTED),
    _S.RESUME_DELAYED: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_RESUME_DELAY, _INTERRUPTED),
    _S.WAITING_CHILDREN: _runnable(_E.BLOCKED_BY_DEPENDENCIES, _B.WAITING_FOR_CHILDREN, _INTERRUPTED),
    _S.BLOCKED_BY_DEPENDENCIES: _runnable(_E.BLOCKED_BY_DEPENDENCIES, _B.WAITING_FOR_CHILDREN, _FIRST),
    _S.WAITING_REPLAY: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _REPLAY),
    _S.BLOCKED_BY_BUDGET: _runnable(_E.BLOCKED_BY_BUDGET, _B.WAITING_FOR_BUDGET, _FIRST),
    _S.BLOCKED_BY_QUOTA: _runnable(_E.BLOCKED_BY_QUOTA, _B.WAITING_FOR_QUOTA, _FIRST),
    _S.BLOCKED_BY_ROUTE: _runnable(_E.BLOCKED_BY_ROUTE, _B.WAITING_FOR_CAPABLE_WORKER, _FIRST),
    _S.BLOCKED_BY_OPERATOR: _runnable(_E.BLOCKED_BY_OPERATOR, _B.PAUSED_BY_OPERATOR, _FIRST),
    _S.BLOCKED_BY_LANE_STATE: _runnable(_E.BLOCKED_BY_LANE_STATE, _B.PAUSED_BY_POLICY, _FIRST),
    _S.ACTIVE: _owned(OwnershipState.LEASED, _A.RUNNING_ATTEMPT),
    _S.LEASE_EXPIRED: _owned(OwnershipState.LEASE_EXPIRED_RECLAIMABLE, _INTERRUPTED, _B.WAITING_FOR_WORKER),
    _S.LEASE_REVOKED: _owned(OwnershipState.LEASE_REVOKED, _INTERRUPTED, _B.WAITING_FOR_WORKER),
    # The worker chooses the reason of a suspension; this is the usual one.
    _S.SUSPENDED: _suspended(_B.WAITING_FOR_SIGNAL),
    _S.ESCALATED: _suspended(_B.PAUSED_BY_OPERATOR),
    _S.COMPLETED: _ended(TerminalOutcome.SUCCESS),
    _S.FAILED: _ended(TerminalOutcome.FAILED),
    _S.CANCELLED: _ended(TerminalOutcome.CANCELLED),
    _S.EXPIRED: _ended(TerminalOutcome.EXPIRED),
    _S.SKIPPED: _ended(TerminalOutcome.SKIPPED, _A.NONE),  # usually before its first attempt, which never starts
}

CREATED = (_S.WAITING, _S.DELAYED)
BLOCKED = (
    _S.BLOCKED_BY_BUDGET, _S.BLOCKED_BY_QUOTA, _S.BLOCKED_BY_ROUTE, _S.BLOCKED_BY_OPERATOR, _S.BLOCKED_BY_LANE_STATE,
)  # fmt: skip
TERMINAL = (_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.EXPIRED, _S.SKIPPED)
RUNNABLE = tuple(s for s, v in SITUATIONS.items() if v.lifecycle_phase is _P.RUNNABLE)
LOST = (_S.LEASE_EXPIRED, _S.LEASE_REVOKED)
SUSPENDED = (_S.SUSPENDED, _S.ESCALATED)
# Situations reached directly from create, before any other record exists.
UNATTEMPTED = (*CREATED, *BLOCKED, _S.BLOCKED_BY_DEPENDENCIES, _S.SKIPPED)
OF_MEMBERS = (_S.BLOCKED_BY_DEPENDENCIES, _S.SKIPPED)  # set by other members of its flow


class Move(NamedTuple):
    """The operation succeeds and moves to this situation."""

    to: Situation


class Keep(NamedTuple):
    """The operation succeeds without changing the state."""


class Refuse(NamedTuple):
    """The operation is refused with this code and writes nothing."""

    code: str


Effect = Move | Keep | Refuse

_NOT_ACTIVE = Refuse("execution_not_active")
_NOT_ELIGIBLE = Refuse("execution_not_eligible")


def _row(default: Effect, *rules: tuple[tuple[Situation, ...] | Situation, Effect]) -> dict[Situation, Effect]:
    row: dict[Situation, Effect] = dict.fromkeys(Situation, default)
    for situations, effect in rules:
        for situation in (situations,) if isinstance(situations, Situation) else situations:
            row[situation] = effect
    return row


def _held(effect: Effect) -> dict[Situation, Effect]:
    """What the lease holder may do, and the refusals of all other callers."""
    return _row(
        _NOT_ACTIVE,
        (_S.ACTIVE, effect),
        (_S.LEASE_EXPIRED, Refuse("lease_expired")),
        (_S.LEASE_REVOKED, Refuse("lease_revoked")),
    )


_ELIGIBLE_FRESH = (_S.WAITING, _S.WAITING_RETRY, _S.WAITING_REPLAY)
_ELIGIBLE = (*_ELIGIBLE_FRESH, _S.INTERRUPTED_WAITING)
_LATER = (_S.DELAYED, _S.RETRY_BACKOFF, _S.INTERRUPTED_DELAYED, _S.RESUME_DELAYED)
_DEPENDENT = (_S.WAITING_CHILDREN, _S.BLOCKED_BY_DEPENDENCIES)
_INTERRUPTED_ONES = (_S.INTERRUPTED_WAITING, _S.INTERRUPTED_DELAYED, _S.RESUME_DELAYED)
_NOT_LEASEABLE = Refuse("execution_not_leaseable")
_NOT_SIGNALABLE = Refuse("target_not_signalable")
_WAKE, _WAKE_LATER = Move(_S.INTERRUPTED_WAITING), Move(_S.RESUME_DELAYED)


def _times_out(effect: Effect) -> dict[Situation, Effect]:
    """The effect of a suspension's timeout. An escalated suspension has none left."""
    return _row(Keep(), (_S.SUSPENDED, effect))


def _resolved(fresh: Effect, interrupted: Effect) -> dict[Situation, Effect]:
    """The effect of an upstream's end on a member that waits for it; its edge moves no other member."""
    return _row(
        Refuse("invalid_dependency"),
        (_S.BLOCKED_BY_DEPENDENCIES, fresh),
        (_S.WAITING_CHILDREN, interrupted),
        (_S.SKIPPED, Keep()),
    )


def _signalled(effect: Effect) -> dict[Situation, Effect]:
    """Signals with the token of a used waitpoint; before the first attempt no token exists."""
    return _row(
        Refuse("waitpoint_closed"),
        (TERMINAL, _NOT_SIGNALABLE),
        (UNATTEMPTED, Refuse("invalid_token")),
        (SUSPENDED, effect),
    )


# Operations by name; `name:variant` where an operation has two effects.
TRANSITIONS: dict[str, dict[Situation, Effect]] = {
    "issue_claim_grant": _row(_NOT_ELIGIBLE, (_ELIGIBLE, Keep())),
    "claim_execution": _row(
        _NOT_LEASEABLE,
        (_ELIGIBLE_FRESH, Move(_S.ACTIVE)),
        (_S.INTERRUPTED_WAITING, Refuse("use_claim_resumed_execution")),
    ),
    "claim_resumed_execution": _row(
        Refuse("not_a_resumed_execution"),
        ((*TERMINAL, _S.ACTIVE, *LOST, *SUSPENDED), _NOT_LEASEABLE),
        ((_S.INTERRUPTED_DELAYED, _S.RESUME_DELAYED, _S.WAITING_CHILDREN), _NOT_LEASEABLE),
        (_S.INTERRUPTED_WAITING, Move(_S.ACTIVE)),
    ),
    "issue_grant_and_claim": _row(
        _NOT_ELIGIBLE,
        (_ELIGIBLE, Move(_S.ACTIVE)),
        ((*_LATER, *BLOCKED, *_DEPENDENT), Refuse("execution_not_in_eligible_set")),
    ),
    "renew_lease": _held(Keep()),
    "update_progress": _held(Keep()),
    "append_frame": _row(Refuse("stream_closed"), (_S.ACTIVE, Keep()), (LOST, Refuse("stale_owner_cannot_append"))),
    "complete_execution": _held(Move(_S.COMPLETED)),
    "fail_execution": _held(Move(_S.FAILED)),
    "fail_execution:retry": _held(Move(_S.RETRY_BACKOFF)),
    "delay_execution": _held(Move(_S.INTERRUPTED_DELAYED)),
    "delay_execution:past": _held(Move(_S.INTERRUPTED_WAITING)),
    "move_to_waiting_children": _held(Move(_S.WAITING_CHILDREN)),
    "record_step": _held(Keep()),
    "create_pending_waitpoint": _held(Keep()),
    "suspend_execution": _held(Move(_S.SUSPENDED)),
    "suspend_execution:early": _held(Keep()),  # signals that were kept for its waitpoint suffice
    "deliver_signal": _signalled(_WAKE),
    "deliver_signal:delayed": _signalled(_WAKE_LATER),
    "deliver_signal:other": _signalled(Keep()),  # no condition waits for it
    # A waitpoint without a suspension keeps the signal; a replay closes those of the earlier run.
    "deliver_signal:early": _row(
        Keep(),
        (TERMINAL, _NOT_SIGNALABLE),
        (UNATTEMPTED, Refuse("invalid_token")),
        (_S.WAITING_REPLAY, Refuse("waitpoint_closed")),
    ),
    "signal_execution": _row(_NOT_SIGNALABLE, (SUSPENDED, _WAKE)),
    "signal_execution:early": _row(Keep(), ((*UNATTEMPTED, *TERMINAL, _S.WAITING_REPLAY), _NOT_SIGNALABLE)),
    "resume_execution": _row(Refuse("execution_not_suspended"), (SUSPENDED, _WAKE)),
    "resume_execution:delayed": _row(Refuse("execution_not_suspended"), (SUSPENDED, _WAKE_LATER)),
    "close_waitpoint": _row(Keep(), (UNATTEMPTED, Refuse("waitpoint_not_found"))),
    "close_waitpoint:operator": _row(Keep(), (UNATTEMPTED, Refuse("waitpoint_not_found")), (SUSPENDED, _WAKE)),
    "expire_suspension:fail": _times_out(Move(_S.FAILED)),
    "expire_suspension:cancel": _times_out(Move(_S.CANCELLED)),
    "expire_suspension:expire": _times_out(Move(_S.EXPIRED)),
    "expire_suspension:auto_resume": _times_out(_WAKE),
    "expire_suspension:auto_resume_with_timeout_signal": _times_out(_WAKE),
    "expire_suspension:escalate": _times_out(Move(_S.ESCALATED)),
    "cancel_execution": _row(Move(_S.CANCELLED), (TERMINAL, _NOT_ACTIVE)),
    # An absolute deadline belongs to the first run of an execution; a replay has none.
    "expire_execution:deadline": _row(Move(_S.EXPIRED), ((*TERMINAL, _S.WAITING_REPLAY), Keep())),
    "expire_execution:attempt_timeout": _row(Keep(), ((_S.ACTIVE, *LOST), Move(_S.EXPIRED))),
    "expire_execution:attempt_timeout_retry": _row(Keep(), ((_S.ACTIVE, *LOST), Move(_S.RETRY_BACKOFF))),
    "mark_lease_expired_if_due": _row(Keep(), (_S.ACTIVE, Move(_S.LEASE_EXPIRED))),
    "revoke_lease": _row(_NOT_ACTIVE, (_S.ACTIVE, Move(_S.LEASE_REVOKED)), (LOST, Keep())),
    "issue_reclaim_grant": _row(Refuse("execution_not_reclaimable"), (LOST, Keep())),
    "reclaim_execution": _row(Refuse("execution_not_reclaimable"), (LOST, Move(_S.ACTIVE))),
    "reclaim_execution:at_cap": _row(Refuse("execution_not_reclaimable"), (LOST, Move(_S.FAILED))),
    "promote_delayed": _row(
        Keep(),
        (_S.DELAYED, Move(_S.WAITING)),
        (_S.RETRY_BACKOFF, Move(_S.WAITING_RETRY)),
        ((_S.INTERRUPTED_DELAYED, _S.RESUME_DELAYED), Move(_S.INTERRUPTED_WAITING)),
    ),
    "change_priority": _row(_NOT_ELIGIBLE, (_ELIGIBLE, Keep())),
    "unblock_execution": _row(_NOT_ELIGIBLE, (BLOCKED, Move(_S.WAITING))),
    # A skipped member waits again for the upstreams that had made it impossible.
    "replay_execution": _row(
        Refuse("execution_not_terminal"),
        (TERMINAL, Move(_S.WAITING_REPLAY)),
        (_S.SKIPPED, Move(_S.BLOCKED_BY_DEPENDENCIES)),
    ),
    # What ended without a result continues with its records; a pending attempt stays the next one.
    "retry_execution": _row(
        Refuse("execution_not_terminal"),
        ((_S.FAILED, _S.EXPIRED, _S.CANCELLED), Move(_S.WAITING_RETRY)),
        ((_S.COMPLETED, _S.SKIPPED), Refuse("retry_not_allowed")),
    ),
    # The source stays as it is. While it runs, a fork could run its steps in progress again.
    "fork_execution": _row(Keep(), ((_S.ACTIVE, *LOST), Refuse("fork_not_allowed"))),
    "set_execution_tags": _row(Keep()),
    "watch_execution": _row(Keep()),
    # The edge does not stop a member that runs or has ended.
    "apply_dependency_to_child": _row(
        Keep(),
        (RUNNABLE, Move(_S.BLOCKED_BY_DEPENDENCIES)),
        (_INTERRUPTED_ONES, Move(_S.WAITING_CHILDREN)),
        (_DEPENDENT, Keep()),
    ),
    "resolve_dependency:satisfied": _resolved(Move(_S.WAITING), Move(_S.INTERRUPTED_WAITING)),
    "resolve_dependency:impossible": _resolved(Move(_S.SKIPPED), Move(_S.SKIPPED)),
    "promote_blocked_to_eligible": _row(
        Refuse("not_runnable"),
        (RUNNABLE, Refuse("not_blocked_by_deps")),
        (_DEPENDENT, Refuse("deps_not_satisfied")),  # the step that satisfies the last one promotes it
    ),
    **{
        f"block_execution_for_admission:{SITUATIONS[blocked].blocking_reason}": _row(
            _NOT_ELIGIBLE,
            (RUNNABLE, Move(blocked)),
            (TERMINAL, _NOT_ACTIVE),
        )
        for blocked in BLOCKED
    },
}

# These keep the attempt state: it decides whether the next claim is initial, retry, replay or resume.
KEEPS_ATTEMPT_STATE = frozenset({
    "apply_dependency_to_child", "block_execution_for_admission", "promote_delayed", "unblock_execution",
})  # fmt: skip

# Steps that need no decision: workers that claim, and time.
AUTOMATIC = frozenset({
    "claim_execution", "claim_resumed_execution", "issue_grant_and_claim", "complete_execution",
    "mark_lease_expired_if_due", "promote_delayed", "reclaim_execution",
})  # fmt: skip

# Steps that need a decision, and its owner.
OPERATORS = {
    **dict.fromkeys(BLOCKED, "unblock_execution, by the caller that blocked it"),
    _S.SUSPENDED: "deliver_signal or signal_execution, by the sender it waits for; its timeout, if it has one; "
    "resume_execution or close_waitpoint, by an operator",
    _S.ESCALATED: "resume_execution, close_waitpoint or cancel_execution, by an operator; the signals it waits for",
    **dict.fromkeys(_DEPENDENT, "the end of its upstreams, or cancel_execution"),
}


def state_of(situation: Situation, *, attempted: bool = True) -> StateVector:
    """The state vector; an end before the first attempt keeps the attempt pending, unless it was skipped."""
    state = SITUATIONS[situation]
    if situation not in TERMINAL:
        return state
    if attempted:
        return _ended(state.terminal_outcome)
    return state if situation is _S.SKIPPED else _ended(state.terminal_outcome, _FIRST)


def moves() -> Iterator[tuple[str, Situation, Situation]]:
    """Every (operation, from, to) of the table."""
    for operation, row in TRANSITIONS.items():
        for situation, effect in row.items():
            if isinstance(effect, Move):
                yield operation, situation, effect.to

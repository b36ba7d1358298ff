"""Every situation an execution can be in, and what each operation makes of it.

This table is data: the conformance suite calls every operation in every situation and compares, the model test
walks it at random, the reachability test proves that nothing gets stuck (G1), and the graph in the docs is printed
from it.
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


def _ended(outcome: TerminalOutcome) -> StateVector:
    return StateVector(lifecycle_phase=_P.TERMINAL, terminal_outcome=outcome, attempt_state=_A.ATTEMPT_TERMINAL)


SITUATIONS: dict[Situation, StateVector] = {
    _S.WAITING: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _FIRST),
    _S.DELAYED: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_DELAY, _FIRST),
    _S.RETRY_BACKOFF: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_RETRY_BACKOFF, _RETRY),
    _S.WAITING_RETRY: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _RETRY),
    _S.INTERRUPTED_DELAYED: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_DELAY, _INTERRUPTED),
    _S.INTERRUPTED_WAITING: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _INTERRUPTED),
    _S.RESUME_DELAYED: _runnable(_E.NOT_ELIGIBLE_UNTIL_TIME, _B.WAITING_FOR_RESUME_DELAY, _INTERRUPTED),
    _S.WAITING_CHILDREN: _runnable(_E.BLOCKED_BY_DEPENDENCIES, _B.WAITING_FOR_CHILDREN, _INTERRUPTED),
    _S.WAITING_REPLAY: _runnable(_E.ELIGIBLE_NOW, _B.WAITING_FOR_WORKER, _REPLAY),
    _S.BLOCKED_BY_BUDGET: _runnable(_E.BLOCKED_BY_BUDGET, _B.WAITING_FOR_BUDGET, _FIRST),
    _S.BLOCKED_BY_QUOTA: _runnable(_E.BLOCKED_BY_QUOTA, _B.WAITING_FOR_QUOTA, _FIRST),
    _S.BLOCKED_BY_ROUTE: _runnable(_E.BLOCKED_BY_ROUTE, _B.WAITING_FOR_CAPABLE_WORKER, _FIRST),
    _S.BLOCKED_BY_OPERATOR: _runnable(_E.BLOCKED_BY_OPERATOR, _B.PAUSED_BY_OPERATOR, _FIRST),
    _S.BLOCKED_BY_LANE_STATE: _runnable(_E.BLOCKED_BY_LANE_STATE, _B.PAUSED_BY_POLICY, _FIRST),
    _S.ACTIVE: _owned(OwnershipState.LEASED, _A.RUNNING_ATTEMPT),
    _S.LEASE_EXPIRED: _owned(OwnershipState.LEASE_EXPIRED_RECLAIMABLE, _INTERRUPTED, _B.WAITING_FOR_WORKER),
    _S.LEASE_REVOKED: _owned(OwnershipState.LEASE_REVOKED, _INTERRUPTED, _B.WAITING_FOR_WORKER),
    # The reason of a suspension is what its worker says it waits for; this is the usual one.
    _S.SUSPENDED: _suspended(_B.WAITING_FOR_SIGNAL),
    _S.ESCALATED: _suspended(_B.PAUSED_BY_OPERATOR),
    _S.COMPLETED: _ended(TerminalOutcome.SUCCESS),
    _S.FAILED: _ended(TerminalOutcome.FAILED),
    _S.CANCELLED: _ended(TerminalOutcome.CANCELLED),
    _S.EXPIRED: _ended(TerminalOutcome.EXPIRED),
}

CREATED = (_S.WAITING, _S.DELAYED)
BLOCKED = (
    _S.BLOCKED_BY_BUDGET, _S.BLOCKED_BY_QUOTA, _S.BLOCKED_BY_ROUTE, _S.BLOCKED_BY_OPERATOR, _S.BLOCKED_BY_LANE_STATE,
)  # fmt: skip
TERMINAL = (_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.EXPIRED)
RUNNABLE = tuple(s for s, v in SITUATIONS.items() if v.lifecycle_phase is _P.RUNNABLE)
LOST = (_S.LEASE_EXPIRED, _S.LEASE_REVOKED)
SUSPENDED = (_S.SUSPENDED, _S.ESCALATED)
UNATTEMPTED = (*CREATED, *BLOCKED)  # as far as they are reached straight from create; nothing was made for them yet


class Move(NamedTuple):
    """The operation succeeds and leads here."""

    to: Situation


class Keep(NamedTuple):
    """The operation succeeds and changes nothing about the state."""


class Refuse(NamedTuple):
    """The operation is refused with this code and nothing is written."""

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
    """What the holder of the lease may do, and what everyone else is told."""
    return _row(
        _NOT_ACTIVE,
        (_S.ACTIVE, effect),
        (_S.LEASE_EXPIRED, Refuse("lease_expired")),
        (_S.LEASE_REVOKED, Refuse("lease_revoked")),
    )


_ELIGIBLE_FRESH = (_S.WAITING, _S.WAITING_RETRY, _S.WAITING_REPLAY)
_ELIGIBLE = (*_ELIGIBLE_FRESH, _S.INTERRUPTED_WAITING)
_LATER = (_S.DELAYED, _S.RETRY_BACKOFF, _S.INTERRUPTED_DELAYED, _S.RESUME_DELAYED)
_NOT_LEASEABLE = Refuse("execution_not_leaseable")
_NOT_SIGNALABLE = Refuse("target_not_signalable")
_WAKE, _WAKE_LATER = Move(_S.INTERRUPTED_WAITING), Move(_S.RESUME_DELAYED)


def _times_out(effect: Effect) -> dict[Situation, Effect]:
    """What the time-out of a suspension does. One that asked a human has none any more."""
    return _row(Keep(), (_S.SUSPENDED, effect))


def _signalled(effect: Effect) -> dict[Situation, Effect]:
    """With the token of a waitpoint that is or was waited at; before the first attempt nobody has one."""
    return _row(
        Refuse("waitpoint_closed"),
        (UNATTEMPTED, Refuse("invalid_token")),
        (TERMINAL, _NOT_SIGNALABLE),
        (SUSPENDED, effect),
    )


# The operations by name; `name:variant` where one operation has two ways to go.
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
        ((*_LATER, *BLOCKED, _S.WAITING_CHILDREN), Refuse("execution_not_in_eligible_set")),
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
    "deliver_signal:other": _signalled(Keep()),  # nothing that is waited for
    # The signal is kept at a waitpoint where nobody waits yet; a replay closes those of the life before it.
    "deliver_signal:early": _row(
        Keep(),
        (UNATTEMPTED, Refuse("invalid_token")),
        (TERMINAL, _NOT_SIGNALABLE),
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
    # An absolute deadline belongs to the first life of an execution; a replay has none.
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
    "replay_execution": _row(Refuse("execution_not_terminal"), (TERMINAL, Move(_S.WAITING_REPLAY))),
    "set_execution_tags": _row(Keep()),
    **{
        f"block_execution_for_admission:{SITUATIONS[blocked].blocking_reason}": _row(
            _NOT_ELIGIBLE,
            (RUNNABLE, Move(blocked)),
            (TERMINAL, _NOT_ACTIVE),
        )
        for blocked in BLOCKED
    },
}

# These carry the attempt state along: it decides whether the next claim is initial, retry, replay or resume.
KEEPS_ATTEMPT_STATE = frozenset({"promote_delayed", "block_execution_for_admission", "unblock_execution"})

# What happens without anyone deciding it: workers asking for work, and time passing.
AUTOMATIC = frozenset({
    "claim_execution", "claim_resumed_execution", "issue_grant_and_claim", "complete_execution",
    "mark_lease_expired_if_due", "promote_delayed", "reclaim_execution",
})  # fmt: skip

# Ways out that need a decision, and whose it is.
OPERATORS = {
    **dict.fromkeys(BLOCKED, "unblock_execution, by whoever blocked it"),
    _S.SUSPENDED: "deliver_signal or signal_execution, by whom it waits for; its time-out, if it has one; "
    "resume_execution or close_waitpoint, by an operator",
    _S.ESCALATED: "resume_execution, close_waitpoint or cancel_execution, by an operator; the signals it waits for",
    _S.WAITING_CHILDREN: "the end of its upstreams, or cancel_execution",
}


def state_of(situation: Situation, *, attempted: bool = True) -> StateVector:
    """The state vector; an execution that ended before its first attempt keeps its pending attempt state."""
    state = SITUATIONS[situation]
    if attempted or situation not in TERMINAL:
        return state
    return StateVector(
        lifecycle_phase=state.lifecycle_phase, terminal_outcome=state.terminal_outcome, attempt_state=_FIRST
    )


def moves() -> Iterator[tuple[str, Situation, Situation]]:
    """Every (operation, from, to) of the table."""
    for operation, row in TRANSITIONS.items():
        for situation, effect in row.items():
            if isinstance(effect, Move):
                yield operation, situation, effect.to

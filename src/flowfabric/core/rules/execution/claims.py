"""Claims: start a new attempt, or continue the interrupted one under a new lease."""

from __future__ import annotations

from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.lease import ClaimExecutionArgs, ClaimResumedExecutionArgs, IssueGrantAndClaimArgs
from flowfabric.core.rules.execution.lease import held_by, started
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.steps import decide
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.states import AttemptState, AttemptType

_NEXT = {
    AttemptState.PENDING_RETRY_ATTEMPT: AttemptType.RETRY,
    AttemptState.PENDING_REPLAY_ATTEMPT: AttemptType.REPLAY,
}


def next_attempt_type(record: ExecutionRecord) -> AttemptType:
    """Why the next attempt starts."""
    return record.next_attempt_type or _NEXT.get(record.state.attempt_state, AttemptType.INITIAL)


def claim(record: ExecutionRecord, args: ClaimExecutionArgs | IssueGrantAndClaimArgs, now: int) -> Refusal | Changes:
    """runnable, eligible -> active, with a new attempt under a new lease."""
    refused = decide("claim_execution", record.state)
    if isinstance(refused, Refusal):
        return Refusal(refused.code, {"state": record.public_state})
    fields = started(record, args, args.attempt_id, args.attempt_timeout_ms, now)
    if args.execution_deadline_at:
        fields["deadline_at"] = args.execution_deadline_at
    kind = next_attempt_type(record)
    event = EventKind.RECLAIMED if kind is AttemptType.RECLAIM else EventKind.CLAIMED
    return Changes(fields, (Line(event, kind),))


def claim_resumed(
    record: ExecutionRecord, args: ClaimResumedExecutionArgs | IssueGrantAndClaimArgs, now: int
) -> Refusal | Changes:
    """runnable, interrupted -> active: the same attempt continues under a new lease (D22)."""
    refused = decide("claim_resumed_execution", record.state)
    if isinstance(refused, Refusal):
        return Refusal(refused.code, {"state": record.public_state})
    if isinstance(args, IssueGrantAndClaimArgs):
        timeout_ms = args.attempt_timeout_ms
    else:
        timeout_ms = args.remaining_attempt_timeout_ms
    fields = held_by(record, args, timeout_ms, now)
    fields["attempt_timeout_ms"] = record.attempt_timeout_ms or timeout_ms
    return Changes(fields, (Line(EventKind.RESUMED),))


def claim_in_one_step(record: ExecutionRecord, args: IssueGrantAndClaimArgs, now: int) -> Refusal | Changes:
    """Apply the claim that the execution needs. The caller checks grants, limits and capabilities first."""
    refused = decide("issue_grant_and_claim", record.state)
    if isinstance(refused, Refusal):
        return Refusal(refused.code, {"state": record.public_state})
    is_interrupted = record.state.attempt_state is AttemptState.ATTEMPT_INTERRUPTED
    return claim_resumed(record, args, now) if is_interrupted else claim(record, args, now)

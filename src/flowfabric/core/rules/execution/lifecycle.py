"""The lifecycle of an execution: create, complete, fail, retry, delay, block, replay."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.execution import (
    CancelExecutionArgs,
    CancelSource,
    CompleteExecutionArgs,
    CreateExecutionArgs,
    DelayExecutionArgs,
    FailExecutionArgs,
    MoveToWaitingChildrenArgs,
)
from flowfabric.core.contracts.scheduling import BlockExecutionArgs, UnblockExecutionArgs
from flowfabric.core.limits import DEFAULT_MAX_REPLAY_COUNT
from flowfabric.core.policy import RetryPolicy, retry_policy_from_json
from flowfabric.core.rules.execution import order
from flowfabric.core.rules.execution.endings import end
from flowfabric.core.rules.execution.lease import NO_LEASE, check_fence, check_held, is_owner, not_active
from flowfabric.core.rules.execution.record import ExecutionRecord
from flowfabric.core.rules.execution.retry import jitter_fraction, retry_delay_ms, should_retry
from flowfabric.core.rules.execution.steps import decide
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.rules.waits.waitpoints import close_waitpoints
from flowfabric.core.states import LifecyclePhase, StateVector, TerminalOutcome

TIMEOUT: Final = "timeout"  # the category of an attempt timeout

_UNFENCED = frozenset(CancelSource) - {CancelSource.LEASE_HOLDER}


def create(args: CreateExecutionArgs, now: int) -> tuple[ExecutionRecord, Line]:
    """absent -> runnable: eligible now, or delayed. Returns the record to insert and its event."""
    policy, timeouts = args.policy, args.policy.timeout_policy if args.policy else None
    due = args.effective_delay_until if args.delay_ms is None else now + args.delay_ms
    is_delayed = due is not None and due > now
    deadline = args.execution_deadline_at
    if deadline is None and timeouts is not None and timeouts.execution_deadline_ms:
        deadline = now + timeouts.execution_deadline_ms
    record = ExecutionRecord(
        execution_id=args.execution_id,
        state=SITUATIONS[Situation.DELAYED if is_delayed else Situation.WAITING],
        created_at=now,
        priority=order.clamp_priority(args.priority),
        policy=policy,
        delay_until=due if is_delayed else None,
        deadline_at=deadline,
        attempt_timeout_ms=timeouts.attempt_timeout_ms if timeouts else None,
    )
    return record, Line(EventKind.CREATED)


def complete(record: ExecutionRecord, args: CompleteExecutionArgs, now: int) -> Refusal | Changes:
    """active -> terminal, success."""
    refusal = check_fence("complete_execution", record, args.fence, args.source, now)
    return refusal or end(record, TerminalOutcome.SUCCESS, now)


def fail(record: ExecutionRecord, args: FailExecutionArgs, now: int) -> Refusal | Changes:
    """active -> delayed until its retry, or terminal, failed."""
    refusal = check_fence("fail_execution", record, args.fence, args.source, now)
    if refusal is not None:
        return refusal
    policy = _stored_retry_policy(record)
    if args.retry_policy_json is not None:
        policy = retry_policy_from_json(args.retry_policy_json) if args.retry_policy_json else None
    category = args.failure_category
    retried = schedule_retry("fail_execution:retry", record, policy, category, now, args.retry_delay_ms)
    failure = Changes({"failure_reason": args.failure_reason, "failure_category": category})
    return (retried or end(record, TerminalOutcome.FAILED, now)) | failure


def schedule_retry(
    operation: str,
    record: ExecutionRecord,
    policy: RetryPolicy | None,
    category: str,
    now: int,
    requested_delay_ms: int | None = None,
) -> Changes | None:
    """End the attempt and schedule a retry; None if the policy allows none."""
    if policy is None or not should_retry(policy, record.retry_count, category):
        return None
    state = decide(operation, record.state)
    assert isinstance(state, StateVector)
    jitter = jitter_fraction(f"{record.execution_id}:{record.retry_count}:{now}")
    fields = NO_LEASE | {
        "state": state,
        "delay_until": now + retry_delay_ms(policy, record.retry_count, requested_delay_ms, jitter),
        "retry_count": record.retry_count + 1,
    }
    return Changes(fields, (Line(EventKind.RETRY_SCHEDULED, category),))


def _stored_retry_policy(record: ExecutionRecord) -> RetryPolicy | None:
    return record.policy.retry_policy if record.policy else None


def time_out_attempt(record: ExecutionRecord, now: int) -> Changes:
    """The engine found that the attempt timed out: it fails like any other, in the words of a worker."""
    failure = Changes({"failure_reason": took_longer_than(record.attempt_timeout_ms), "failure_category": TIMEOUT})
    return (_retry_after_timeout(record, now) or end(record, TerminalOutcome.FAILED, now)) | failure


def expire_attempt(record: ExecutionRecord, now: int) -> Changes:
    """A direct caller found it: without a retry the execution expires, as in 0.2.0 (D12)."""
    reason = "attempt_timeout"
    retried = _retry_after_timeout(record, now)
    if retried is not None:
        return retried | Changes({"failure_reason": reason, "failure_category": TIMEOUT})
    return end(record, TerminalOutcome.EXPIRED, now, closes_wait_as=f"expired:{reason}") | Changes(
        {"failure_reason": reason}
    )


def _retry_after_timeout(record: ExecutionRecord, now: int) -> Changes | None:
    operation = "expire_execution:attempt_timeout_retry"
    return schedule_retry(operation, record, _stored_retry_policy(record), TIMEOUT, now)


def took_longer_than(timeout_ms: int | None) -> str:
    """The reason of an attempt timeout, the same from workers and from the engine."""
    return f"the attempt took longer than {(timeout_ms or 0) / 1000:g} s"


def expire(record: ExecutionRecord, now: int) -> Changes:
    """The deadline of the whole execution has passed."""
    reason = "execution_deadline"
    ending = end(record, TerminalOutcome.EXPIRED, now, closes_wait_as=f"expired:{reason}")
    return ending | Changes({"failure_reason": reason})


def cancel(record: ExecutionRecord, args: CancelExecutionArgs, now: int) -> Refusal | Changes:
    """any live state -> terminal, cancelled. A lease holder needs its fence; operators and the engine need none."""
    refused = decide("cancel_execution", record.state)
    if isinstance(refused, Refusal):
        return not_active(record)
    if args.source not in _UNFENCED:
        if args.fence is None:
            return Refusal("fence_required")
        # An empty fence does not match everything, and a holder can only cancel an active execution (D15).
        if record.phase is not LifecyclePhase.ACTIVE:
            return Refusal("stale_lease")
        refusal = check_held("complete_execution", record, now)
        if refusal is not None or not is_owner(record, args.fence):
            return refusal or Refusal("stale_lease")
    return end(record, TerminalOutcome.CANCELLED, now) | Changes(
        {"cancellation_reason": args.reason, "cancelled_by": args.source}
    )


def delay(record: ExecutionRecord, args: DelayExecutionArgs, now: int) -> Refusal | Changes:
    """active -> delayed: the same attempt continues later. A time in the past queues it at once."""
    operation = "delay_execution:past" if args.delay_until <= now else "delay_execution"
    return _release(operation, record, args, now, EventKind.DELAYED, delay_until=args.delay_until)


def wait_for_children(record: ExecutionRecord, args: MoveToWaitingChildrenArgs, now: int) -> Refusal | Changes:
    """active -> waiting_children: the same attempt continues when its dependencies are resolved."""
    return _release("move_to_waiting_children", record, args, now, EventKind.WAITING_CHILDREN)


def _release(
    operation: str,
    record: ExecutionRecord,
    args: DelayExecutionArgs | MoveToWaitingChildrenArgs,
    now: int,
    event: EventKind,
    **fields: Any,
) -> Refusal | Changes:
    refusal = check_fence(operation, record, args.fence, args.source, now)
    if refusal is not None:
        return refusal
    return Changes(NO_LEASE | fields | {"state": decide(operation, record.state)}, (Line(event),))


def block(record: ExecutionRecord, args: BlockExecutionArgs) -> Refusal | Changes:
    """runnable -> runnable, blocked for a named reason. A delay stays and applies afterwards."""
    decided = decide(f"block_execution_for_admission:{args.blocking_reason}", record.state)
    if isinstance(decided, Refusal):
        if decided.code == "execution_not_active":
            return not_active(record)
        return Refusal(decided.code, {"state": record.public_state})
    return Changes({"state": decided}, (Line(EventKind.BLOCKED, args.blocking_reason),))


def unblock(record: ExecutionRecord, args: UnblockExecutionArgs, now: int) -> Refusal | Changes:
    """Return to the queue, or to the dependencies or the delay that the execution still waits for."""
    decided = decide("unblock_execution", record.state)
    if isinstance(decided, Refusal):
        return Refusal(decided.code, {"state": record.public_state})
    expected = args.expected_blocking_reason
    if expected is not None and expected is not record.state.blocking_reason:
        return Refusal("execution_not_eligible", {"state": record.state.blocking_reason})
    return Changes({"state": _still_waits(record, now)}, (Line(EventKind.UNBLOCKED),))


def _still_waits(record: ExecutionRecord, now: int) -> StateVector:
    attempt = record.state.attempt_state
    if record.open_dependencies:
        situation = Situation.BLOCKED_BY_DEPENDENCIES
    elif (record.delay_until or 0) <= now:
        situation = Situation.WAITING
    else:
        is_retry = attempt is SITUATIONS[Situation.RETRY_BACKOFF].attempt_state
        situation = Situation.RETRY_BACKOFF if is_retry else Situation.DELAYED
    return replace(SITUATIONS[situation], attempt_state=attempt)


def replay(record: ExecutionRecord, now: int) -> Refusal | Changes:
    """terminal -> runnable, with a new attempt. Steps, waits and pending waitpoints of the earlier run are deleted."""
    decided = decide("replay_execution", record.state)
    if isinstance(decided, Refusal):
        return Refusal(decided.code, {"state": record.public_state})
    own = record.policy.max_replay_count if record.policy else None
    cap = DEFAULT_MAX_REPLAY_COUNT if own is None else own
    if record.replay_count >= cap:
        return Refusal("max_replays_exhausted", {"max_replay_count": cap})
    timeouts = record.policy.timeout_policy if record.policy else None
    deadline_ms = timeouts.execution_deadline_ms if timeouts else None
    pending = [each for each in record.waitpoints if each.is_pending]
    fields = close_waitpoints(record, *pending) | {
        "state": decided,
        "completed_at": None,
        "replay_count": record.replay_count + 1,
        "retry_count": 0,
        "reclaim_count": 0,
        "deadline_at": now + deadline_ms if deadline_ms else None,
        "suspension": None,
    }
    return Changes(fields, (Line(EventKind.REPLAYED),))

"""Suspensions: how they begin, time out and resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from flowfabric.core.conditions import is_satisfied
from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.execution import CancelSource
from flowfabric.core.contracts.waits.suspension import SuspendExecutionArgs, SuspensionReasonCode
from flowfabric.core.contracts.waits.waitpoints import FreshWaitpoint, WaitpointBinding, WaitpointState
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.rules.execution.endings import end
from flowfabric.core.rules.execution.lease import NO_LEASE, check_fence
from flowfabric.core.rules.execution.record import Arrival, ExecutionRecord, SuspensionRecord, WaitpointRecord
from flowfabric.core.rules.execution.steps import decide, moves
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.rules.waits import tally
from flowfabric.core.rules.waits.waitpoints import closed
from flowfabric.core.states import BlockingReason, LifecyclePhase, StateVector

# The visible blocking reason by the suspension's reason code; all others wait for a signal.
BLOCKING_REASONS = {
    SuspensionReasonCode.WAITING_FOR_APPROVAL: BlockingReason.WAITING_FOR_APPROVAL,
    SuspensionReasonCode.WAITING_FOR_CALLBACK: BlockingReason.WAITING_FOR_CALLBACK,
    SuspensionReasonCode.WAITING_FOR_TOOL_RESULT: BlockingReason.WAITING_FOR_TOOL_RESULT,
    SuspensionReasonCode.WAITING_FOR_OPERATOR_REVIEW: BlockingReason.PAUSED_BY_OPERATOR,
    SuspensionReasonCode.PAUSED_BY_POLICY: BlockingReason.PAUSED_BY_POLICY,
    SuspensionReasonCode.PAUSED_BY_BUDGET: BlockingReason.WAITING_FOR_BUDGET,
    SuspensionReasonCode.MANUAL_PAUSE: BlockingReason.PAUSED_BY_OPERATOR,
}


def blocking_reason(reason_code: SuspensionReasonCode) -> BlockingReason:
    return BLOCKING_REASONS.get(reason_code, BlockingReason.WAITING_FOR_SIGNAL)


def suspend(record: ExecutionRecord, args: SuspendExecutionArgs, now: int) -> Refusal | Changes:
    """active -> suspended, and the lease is returned; still active if early signals meet the condition."""
    refusal = check_fence("suspend_execution", record, args.fence, CancelSource.LEASE_HOLDER, now)
    if refusal is not None:
        return refusal
    places: list[WaitpointRecord] = []
    for binding in args.waitpoints:
        place = _bind(record, binding, args, now)
        if isinstance(place, Refusal):
            return place
        places.append(place)
    opened = _open(args, places, now)
    activated = {each.waitpoint_id: _activate(each, args) for each in places}
    kept = tuple(activated.pop(each.waitpoint_id, each) for each in record.waitpoints)
    suspended = Changes({"suspension": opened, "waitpoints": (*kept, *activated.values())})
    if is_satisfied(opened.condition, [each.delivery for each in opened.deliveries], opened.keys):
        return suspended | Changes(closed(suspended.apply_to(record), "resumed", signals_of(opened)))
    state = decide("suspend_execution", record.state)
    assert isinstance(state, StateVector)
    state = msgspec.structs.replace(state, blocking_reason=blocking_reason(args.reason_code))
    return suspended | Changes(NO_LEASE | {"state": state}, (Line(EventKind.SUSPENDED, args.reason_code),))


def _bind(
    record: ExecutionRecord, binding: WaitpointBinding, args: SuspendExecutionArgs, now: int
) -> WaitpointRecord | Refusal:
    """The waitpoint of the wait: a new one, or a pending one that is still open."""
    if isinstance(binding, FreshWaitpoint):
        return WaitpointRecord(
            waitpoint_id=binding.waitpoint_id,
            waitpoint_key=binding.waitpoint_key,
            state=WaitpointState.ACTIVE,
            suspension_id=args.suspension_id,
        )
    place = next((each for each in record.waitpoints if each.waitpoint_id == binding.waitpoint_id), None)
    if place is None:
        return Refusal("waitpoint_not_found")
    if not place.is_pending:
        return Refusal("waitpoint_not_pending", {"waitpoint_state": place.state})
    return Refusal("pending_waitpoint_expired") if place.has_expired(now) else place


def _activate(waitpoint: WaitpointRecord, args: SuspendExecutionArgs) -> WaitpointRecord:
    state, suspension_id = WaitpointState.ACTIVE, args.suspension_id
    return replace(waitpoint, state=state, suspension_id=suspension_id, expires_at=None, buffered=())


def _open(args: SuspendExecutionArgs, places: Sequence[WaitpointRecord], now: int) -> SuspensionRecord:
    """Credit early signals waitpoint by waitpoint, in the order of the bindings."""
    early: tuple[Arrival, ...] = sum((each.buffered for each in places), ())
    return SuspensionRecord(
        suspension_id=args.suspension_id,
        condition=args.resume_condition,
        keys={each.waitpoint_id: each.waitpoint_key for each in places},
        reason_code=args.reason_code,
        timeout_at=args.timeout_at if args.timeout_ms is None else now + args.timeout_ms,
        timeout_behavior=args.timeout_behavior,
        resume_delay_ms=args.resume_policy.resume_delay_ms or 0,
        continuation_metadata_pointer=args.continuation_metadata_pointer,
        deliveries=early,
    )


def signals_of(suspension: SuspensionRecord) -> tuple[str, ...]:
    """The signals that counted, for the resumed worker."""
    return tally.useful(suspension.condition, suspension.keys, suspension.deliveries)


def wake(
    operation: str,
    record: ExecutionRecord,
    reason: str,
    cause: str,
    now: int,
    *,
    delay_ms: int = 0,
    signals: tuple[str, ...] = (),
) -> Changes:
    """suspended -> waiting, or delayed (D3). `reason` closes the suspension, `cause` goes to the log."""
    state = decide(f"{operation}:delayed" if delay_ms else operation, record.state)
    fields: dict[str, Any] = closed(record, reason, signals) | {"state": state}
    if delay_ms:
        fields["delay_until"] = now + delay_ms
    return Changes(fields, (Line(EventKind.WOKEN, cause),))


def resume(record: ExecutionRecord, now: int, *, trigger: str, delay_ms: int = 0) -> Refusal | Changes:
    """An operator ends the suspension, regardless of its condition."""
    decided = decide("resume_execution", record.state)
    if isinstance(decided, Refusal):
        return Refusal(decided.code, {"state": record.public_state})
    return wake("resume_execution", record, "resumed_by_operator", trigger, now, delay_ms=delay_ms)


def time_out(record: ExecutionRecord, now: int) -> Changes:
    """Apply the due timeout of an open suspension: end the execution, resume it, or escalate to an operator."""
    open_one = record.suspension
    if record.phase is not LifecyclePhase.SUSPENDED or open_one is None:
        return Changes()
    if open_one.timeout_at is None or open_one.timeout_at > now:
        return Changes()
    behavior = open_one.timeout_behavior
    operation = f"expire_suspension:{behavior}"
    if behavior is TimeoutBehavior.ESCALATE:
        return _escalate(operation, record, open_one)
    state = decide(operation, record.state)
    assert isinstance(state, StateVector)
    if state.lifecycle_phase is LifecyclePhase.TERMINAL:
        ending = end(record, state.terminal_outcome, now, closes_wait_as=f"timed_out_{behavior}")
        return ending | Changes(_timeout_failure(behavior))
    signals: tuple[str, ...] = ()
    told: dict[str, Any] = {}
    if behavior is TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL:  # it has the suspension's id (D4)
        signals, told = (str(open_one.suspension_id),), {"signal_count": record.signal_count + 1}
    return wake(operation, record, "timed_out_auto_resume", "timeout", now, signals=signals) | Changes(told)


def _timeout_failure(behavior: TimeoutBehavior) -> dict[str, Any]:
    failure: dict[str, Any] = {"failure_reason": f"suspension_timeout:{behavior}"}
    return failure | ({"failure_category": "timeout"} if behavior is TimeoutBehavior.FAIL else {})


def _escalate(operation: str, record: ExecutionRecord, open_one: SuspensionRecord) -> Changes:
    """The execution keeps waiting for an operator or its signals, without a timeout."""
    review = SuspensionReasonCode.WAITING_FOR_OPERATOR_REVIEW
    fields = {
        "state": decide(operation, record.state),
        "suspension": replace(open_one, reason_code=review, timeout_at=None),
    }
    return Changes(fields, (Line(EventKind.ESCALATED),))


def can_wake(record: ExecutionRecord) -> bool:
    """Whether the execution waits in an open suspension."""
    return moves("resume_execution", record.state) and record.suspension is not None and record.suspension.is_open

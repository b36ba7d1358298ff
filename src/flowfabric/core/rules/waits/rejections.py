"""Rejections: a wait continues after signals that met its condition turned out not to fit its type."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from flowfabric.core.conditions import is_satisfied
from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.execution import CancelSource
from flowfabric.core.contracts.waits.rejections import RejectSignalsArgs
from flowfabric.core.contracts.waits.waitpoints import WaitpointState
from flowfabric.core.rules.execution.lease import NO_LEASE, check_fence
from flowfabric.core.rules.execution.record import ExecutionRecord, SuspensionRecord, WaitpointRecord
from flowfabric.core.rules.execution.steps import decide
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.rules.waits.suspension import blocking_reason, signals_of
from flowfabric.core.rules.waits.waitpoints import closed
from flowfabric.core.states import StateVector


def reject(record: ExecutionRecord, args: RejectSignalsArgs, now: int) -> Refusal | Changes:
    """active -> suspended at the same waitpoints; still active if the signals that are left meet the condition."""
    refusal = check_fence("suspend_execution", record, args.fence, CancelSource.LEASE_HOLDER, now)
    if refusal is not None:
        return refusal
    last, gone = record.suspension, [str(each.signal_id) for each in args.rejected]
    if last is None or last.close_reason != "resumed" or not set(gone) <= set(last.resume_signals):
        return Refusal("signal_not_rejectable")
    if len(set(gone)) < len(gone):
        return Refusal("signal_not_rejectable")
    lines = tuple(Line(EventKind.SIGNAL_REJECTED, f"{each.signal_id} {each.problem}") for each in args.rejected)
    opened = _reopened(last, args, gone)
    places = tuple(_active(each, args) if each.waitpoint_id in last.keys else each for each in record.waitpoints)
    continued = Changes({"suspension": opened, "waitpoints": places}, lines)
    if is_satisfied(opened.condition, [each.delivery for each in opened.deliveries], opened.keys):
        return continued | Changes(closed(continued.apply_to(record), "resumed", signals_of(opened)))
    state = decide("suspend_execution", record.state)
    assert isinstance(state, StateVector)
    state = msgspec.structs.replace(state, blocking_reason=blocking_reason(opened.reason_code))
    return continued | Changes(NO_LEASE | {"state": state}, (Line(EventKind.SUSPENDED, opened.reason_code),))


def _reopened(last: SuspensionRecord, args: RejectSignalsArgs, gone: list[str]) -> SuspensionRecord:
    """The signals that are left count from the beginning, in order of arrival."""
    left = [each for each in last.deliveries if each.delivery.signal_id not in gone]
    deliveries = tuple(sorted(left, key=lambda each: each.position))
    return replace(last, suspension_id=args.suspension_id, deliveries=deliveries, close_reason=None, resume_signals=())


def _active(waitpoint: WaitpointRecord, args: RejectSignalsArgs) -> WaitpointRecord:
    return replace(waitpoint, state=WaitpointState.ACTIVE, suspension_id=args.suspension_id)

"""Signals and waitpoints: a pending waitpoint keeps a signal, an active one evaluates it in the same step (D2).

The caller has authenticated the sender and knows whether the signal is a duplicate: `known` is the earlier
signal with the same id or idempotency key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from flowfabric.core.conditions import Delivery
from flowfabric.core.contracts.events import EventKind
from flowfabric.core.contracts.execution import CancelSource
from flowfabric.core.contracts.waits.signals import SignalEffect
from flowfabric.core.contracts.waits.waitpoints import CreatePendingWaitpointArgs, WaitpointState
from flowfabric.core.ids import SignalId, WaitpointId, WaitpointKey
from flowfabric.core.rules.execution.lease import check_fence
from flowfabric.core.rules.execution.record import Arrival, ExecutionRecord, SuspensionRecord, WaitpointRecord
from flowfabric.core.rules.outcome import Changes, Line, Refusal
from flowfabric.core.rules.waits import tally
from flowfabric.core.rules.waits.suspension import signals_of, wake
from flowfabric.core.rules.waits.waitpoints import close_waitpoints
from flowfabric.core.states import LifecyclePhase


class Duplicate(NamedTuple):
    """The signal was accepted before; nothing is written."""

    existing_signal_id: SignalId


def create_pending_waitpoint(record: ExecutionRecord, args: CreatePendingWaitpointArgs, now: int) -> Refusal | Changes:
    """The lease holder creates a waitpoint before its suspension, so that early signals are kept."""
    refusal = check_fence("create_pending_waitpoint", record, args.fence, CancelSource.LEASE_HOLDER, now)
    if refusal is not None:
        return refusal
    made = WaitpointRecord(
        waitpoint_id=args.waitpoint_id,
        waitpoint_key=args.waitpoint_key,
        state=WaitpointState.PENDING,
        expires_at=now + args.expires_in_ms,
        was_pending=True,
    )
    return Changes({"waitpoints": (*record.waitpoints, made)})


def deliver(
    record: ExecutionRecord, delivery: Delivery, now: int, *, known: SignalId | None = None, delay_ms: int | None = None
) -> Refusal | Changes | Duplicate:
    """Deliver one signal to one waitpoint. `answer` of the changes is its effect."""
    if known is not None:
        return Duplicate(known)
    if record.phase is LifecyclePhase.TERMINAL:
        return Refusal("target_not_signalable", {"state": record.public_state})
    target = find(record, delivery.waitpoint_id)
    if target is None or not _takes(record, target, now):
        return Refusal("waitpoint_closed")
    arrival = Arrival(record.signal_count, delivery)
    accepted = Changes({"signal_count": record.signal_count + 1})
    if target.is_pending:
        return accepted | _buffer(record, target, arrival)
    assert record.suspension is not None
    return accepted | _evaluate(record, record.suspension, arrival, now, delay_ms)


def find(record: ExecutionRecord, waitpoint_id: WaitpointId) -> WaitpointRecord | None:
    return next((each for each in record.waitpoints if each.waitpoint_id == waitpoint_id), None)


def _takes(record: ExecutionRecord, target: WaitpointRecord, now: int) -> bool:
    """Whether it is open: a pending waitpoint until it expires, and an active one of the open suspension (D1)."""
    if target.is_pending:
        return not target.has_expired(now)
    open_one = record.suspension
    is_waited_at = open_one is not None and open_one.is_open and target.waitpoint_id in open_one.keys
    return record.phase is LifecyclePhase.SUSPENDED and target.is_active and is_waited_at


def _buffer(record: ExecutionRecord, target: WaitpointRecord, arrival: Arrival) -> Changes:
    kept = replace(target, buffered=(*target.buffered, arrival))
    waitpoints = tuple(kept if each is target else each for each in record.waitpoints)
    return _signalled({"waitpoints": waitpoints}, SignalEffect.BUFFERED, arrival)


def _signalled(fields: dict[str, Any], effect: SignalEffect, arrival: Arrival) -> Changes:
    line = Line(EventKind.SIGNALLED, f"{effect} {arrival.delivery.signal_id}")
    return Changes(fields, (line,), effect)


def _evaluate(
    record: ExecutionRecord, open_one: SuspensionRecord, arrival: Arrival, now: int, delay_ms: int | None
) -> Changes:
    before = [each.delivery for each in open_one.deliveries]
    effect = tally.effect_of(open_one.condition, open_one.keys, before, arrival.delivery)
    credited = replace(open_one, deliveries=(*open_one.deliveries, arrival))
    if effect is not SignalEffect.RESUMED:
        return _signalled({"suspension": credited}, effect, arrival)
    delay = open_one.resume_delay_ms if delay_ms is None else delay_ms
    woken = wake(
        "deliver_signal", replace(record, suspension=credited), "resumed", f"signal {arrival.delivery.signal_id}", now,
        delay_ms=delay, signals=signals_of(credited),
    )  # fmt: skip
    return woken | Changes(answer=effect)


def takers(record: ExecutionRecord, name: str, key: WaitpointKey | None, now: int) -> tuple[WaitpointRecord, ...]:
    """The targets of a signal without a token: waitpoints that wait for its name, else the pending waitpoints."""
    if record.phase is LifecyclePhase.TERMINAL:
        return ()
    of_key = [each for each in record.waitpoints if key in (None, each.waitpoint_key) and _takes(record, each, now)]
    condition = record.suspension.condition if record.suspension else None
    waited_at = [
        each for each in of_key
        if each.is_active and condition is not None and tally.accepts(condition, each.waitpoint_key, name)
    ]  # fmt: skip
    return tuple(waited_at or [each for each in of_key if each.is_pending])


def close_waitpoint(
    record: ExecutionRecord, target: WaitpointRecord, source: CancelSource, now: int
) -> Refusal | Changes:
    """Close a waitpoint. Only an operator may close an active one, which ends the suspension (D8)."""
    if target.state is WaitpointState.CLOSED:
        return Changes()
    if target.is_pending or not _takes(record, target, now):
        return Changes(close_waitpoints(record, target))
    if source is not CancelSource.OPERATOR_OVERRIDE:
        return Refusal("waitpoint_not_pending", {"waitpoint_state": target.state})
    return wake("close_waitpoint:operator", record, "resumed_by_operator", "operator", now)


def expire_waitpoints(record: ExecutionRecord, now: int) -> Changes:
    """Close expired pending waitpoints and drop the signals they kept."""
    over = [each for each in record.waitpoints if each.has_expired(now)]
    return Changes(close_waitpoints(record, *over, is_out_of_time=True)) if over else Changes()

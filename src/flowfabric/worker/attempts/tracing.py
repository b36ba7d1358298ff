"""Runs each pass of an attempt in its own span, in programs that have configured OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.worker.attempts.attempt import Attempt, Stop, Suspension
from flowfabric.worker.attempts.outcomes import Cancel, Snooze, reason_of, spoken

_logger: Final = logging.getLogger("flowfabric.worker")


async def run_traced(attempt: Attempt, backend: EngineBackend) -> None:
    """Run the attempt with its span as the current span."""
    with await _span(attempt, backend) as span:
        attempt.span = span
        await attempt.handler.run(attempt)


async def _span(attempt: Attempt, backend: EngineBackend) -> tracing.Span:
    """Claims carry no tags, so read them. If the span cannot be made, the attempt runs without one."""
    try:
        snapshot = await backend.describe_execution(attempt.execution_id)
        return tracing.run_span(
            attempt.handler.name,
            snapshot.tags if snapshot else {},
            [signal.correlation_id for signal in await _signals(attempt, backend)],
            execution_id=attempt.execution_id,
            attempt_index=attempt.attempt_index,
            lane=attempt.lane_id,
            task=attempt.handler.name,
        )
    except Exception:
        _logger.warning("could not make a span for %s; running it untraced", attempt.execution_id.short, exc_info=True)
        return tracing.NO_SPAN


async def _signals(attempt: Attempt, backend: EngineBackend) -> Sequence[c.ResumeSignal]:
    """The signals that resumed the attempt. A claim leaves them out if they are too large."""
    work = attempt.work
    if work.resumption is not None:
        return work.resumption.latest.signals
    if work.attempt_type is not None:
        return ()
    args = c.ListResumeSignalsArgs(execution_id=attempt.execution_id, attempt_index=attempt.attempt_index)
    return (await backend.list_resume_signals(args)).signals


def tell(span: tracing.Span, attempt: Attempt, error: BaseException | None) -> None:
    """Record in the span how the pass ended."""
    if attempt.suspension is Suspension.DONE:
        span.note(outcome="suspended")
    elif stop := attempt.stopped(error):
        span.note(outcome=stop.value)
        if stop is Stop.TIMED_OUT:
            span.fail("the attempt took too long")
    elif error is None:
        span.note(outcome="completed")
    else:
        _tell_raised(span, spoken(error))


def _tell_raised(span: tracing.Span, error: BaseException) -> None:
    match error:
        case Snooze():
            span.note(outcome="snoozed")
        case Cancel():
            span.note(outcome="cancelled", reason=reason_of(error))
        case _:
            span.note(outcome="failed")
            span.fail(reason_of(error), error)

"""Reports how attempts end, from the value or exception of their handlers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.rules.execution.lifecycle import took_longer_than
from flowfabric.errors import FlowFabricError, Invalid
from flowfabric.worker.attempts import outcomes
from flowfabric.worker.attempts.attempt import Attempt, Stop, Suspension, stop_for
from flowfabric.worker.attempts.failure_details import detail_of
from flowfabric.worker.attempts.outcomes import Cancel, Fail, Interrupted, Retry, Snooze, Suspended
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.attempts.tracing import tell
from flowfabric.worker.clock import Clock
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.reporting.log_sender import LogSender
from flowfabric.worker.reporting.outbox import Ending, Outbox
from flowfabric.worker.reporting.outgoing_frames import when_frames_taken
from flowfabric.worker.reporting.requests import completion
from flowfabric.worker.reporting.single_calls import SingleCalls
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger("flowfabric.worker")


class Reporter:
    """Sends one end for each attempt, after its frames, and handles the store's answers."""

    def __init__(
        self,
        pool: AttemptPool,
        outbox: Outbox,
        calls: SingleCalls,
        clock: Clock,
        stats: WorkerStats,
        categories: Mapping[type[BaseException], str],
        turns: Turns,
        logs: LogSender,
    ) -> None:
        self._pool = pool
        self._outbox = outbox
        self._calls = calls
        self._clock = clock
        self._stats = stats
        self._categories = categories
        self._turns = turns
        self._logs = logs

    def completed(self, attempt: Attempt, payload: bytes) -> None:
        """The handler returned."""
        self._leave(attempt)
        if attempt.settled:
            if attempt.suspension is Suspension.DONE:
                _logger.warning("%s; its return value is ignored", _went_on(attempt))
            return
        attempt.settled = True
        if attempt.stopped() is None:
            self._finish(attempt, completion(attempt.execution_id, attempt.fence, payload))
        else:
            self.stopped(attempt)

    def raised(self, attempt: Attempt, error: BaseException) -> None:
        """The handler raised."""
        self._leave(attempt, error)
        if attempt.settled:
            if attempt.suspension is Suspension.DONE and not _unwinds(error):
                _logger.warning("%s; its exception is ignored", _went_on(attempt), exc_info=error)
            return
        attempt.settled = True
        if attempt.stopped(error) is None:
            self._end(attempt, error)
        else:
            self.stopped(attempt, error)

    def stopped(self, attempt: Attempt, error: BaseException | None = None) -> None:
        """The attempt ends because it was ordered to stop; `error` is what its handler raised then."""
        match attempt.stop:
            case Stop.TIMED_OUT:
                self._stats.timed_out += 1
                self._fail(attempt, took_longer_than(attempt.handler.timeout_ms), outcomes.TIMEOUT, error)
            case Stop.DRAINING:
                self._after_frames(attempt, lambda _: self._calls.delay(attempt, 0, "handed_back"))
            case Stop.CANCELLED:
                self._stats.cancelled += 1
            case _:
                self._stats.lost += 1

    def answered(self, endings: Sequence[Ending], results: Sequence[b.FinishOutcome]) -> None:
        """The store has accepted or refused these ends."""
        stats, held = self._stats, self._pool.held
        for ending, result in zip(endings, results, strict=True):
            held.discard(ending.attempt)
            if type(result) is c.ExecutionCompleted:
                stats.completed += 1
            elif type(result) is c.RetryScheduled:
                stats.retried += 1
            elif type(result) is c.TerminalFailed:
                stats.failed += 1
            elif isinstance(result, FlowFabricError):
                self._refused(ending, result)

    def _leave(self, attempt: Attempt, error: BaseException | None = None) -> None:
        """Free the slot of a handler that ended."""
        if attempt.span is not None:
            tell(attempt.span, attempt, error)
        self._pool.running.discard(attempt)
        if attempt.log is not None:
            self._logs.flush(attempt)
        attempt.context = None  # it refers to the attempt; break the cycle so that no garbage collection is needed
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._turns.soon()

    def _end(self, attempt: Attempt, error: BaseException) -> None:
        """Report what the handler raised by itself."""
        raised, error = error, outcomes.spoken(error)
        match error:
            case Retry():
                self._fail(attempt, outcomes.reason_of(error), "retry", raised, delay_ms=error.after_ms)
            case Fail():
                self._fail(attempt, outcomes.reason_of(error), error.category, raised, retryable=error.retryable)
            case Snooze():
                until = error.until_ms if error.until_ms is not None else self._clock.now_ms() + (error.for_ms or 0)
                self._after_frames(attempt, lambda _: self._calls.delay(attempt, until, "snoozed"))
            case Cancel():
                reason = outcomes.reason_of(error)
                self._after_frames(attempt, lambda _: self._calls.cancel(attempt, reason))
            case _:
                _logger.warning("%s of %s raised", attempt.handler.name, attempt.execution_id.short, exc_info=error)
                self._fail(attempt, outcomes.reason_of(error), outcomes.category_of(error, self._categories), raised)

    def _fail(
        self,
        attempt: Attempt,
        reason: str,
        category: str,
        error: BaseException | None = None,
        *,
        retryable: bool = True,
        delay_ms: int | None = None,
    ) -> None:
        args = c.FailExecutionArgs(
            execution_id=attempt.execution_id,
            fence=attempt.fence,
            failure_reason=reason,
            failure_category=category,
            retry_policy_json=None if retryable else "",
            retry_delay_ms=delay_ms,
            failure_detail=None if error is None else detail_of(error),
        )
        self._finish(attempt, args)

    def _finish(self, attempt: Attempt, args: b.FinishArgs) -> None:
        """Send the end after the store has taken all frames; an attempt whose frames are refused cannot complete."""
        if attempt.frames is None:
            self._outbox.add(attempt, args)
            return

        def end(refusal: FlowFabricError | None) -> None:
            if refusal is None or isinstance(args, c.FailExecutionArgs):
                self._outbox.add(attempt, args)
            else:
                self._fail(attempt, outcomes.bounded(str(refusal)), outcomes.INVALID_RESULT, retryable=False)

        self._after_frames(attempt, end)

    def _after_frames(self, attempt: Attempt, end: Callable[[FlowFabricError | None], None]) -> None:
        def then(refusal: FlowFabricError | None) -> None:
            attempt.frames = None  # break the cycle, as in _leave
            end(refusal)

        when_frames_taken(attempt, then)

    def _refused(self, ending: Ending, error: FlowFabricError) -> None:
        attempt = ending.attempt
        if isinstance(error, Invalid) and isinstance(ending.args, c.CompleteExecutionArgs):
            # The store rejects this result, so a retry would run the execution forever: it fails instead.
            self._pool.held.add(attempt)
            self._fail(attempt, outcomes.bounded(str(error)), outcomes.INVALID_RESULT, retryable=False)
            return
        if stop_for(error) is Stop.CANCELLED:  # between two renewals; joins cancel members they do not need this way
            self._stats.cancelled += 1
            return
        self._stats.lost += 1
        _logger.warning(
            "the end of %s attempt %d was refused: %s", attempt.execution_id.short, attempt.attempt_index, error
        )


def _unwinds(error: BaseException) -> bool:
    """Whether the error is the one that unwound the handler."""
    if isinstance(error, BaseExceptionGroup):
        return any(_unwinds(each) for each in error.exceptions)
    return isinstance(error, Suspended | Interrupted | asyncio.CancelledError)


def _went_on(attempt: Attempt) -> str:
    return f"{attempt.handler.name} of {attempt.execution_id.short} caught Suspended and went on after its suspension"

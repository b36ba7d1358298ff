"""The attempts of a worker: begun when they are claimed, ended once, stopped when they must be."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from flowfabric import tracing
from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId
from flowfabric.errors import FlowFabricError, Invalid
from flowfabric.worker.attempts import outcomes
from flowfabric.worker.attempts.attempt import Attempt, Stop, Suspension, stop_for
from flowfabric.worker.attempts.outcomes import Cancel, Fail, Interrupted, Retry, Snooze, Suspended
from flowfabric.worker.attempts.tracing import run_traced, tell
from flowfabric.worker.context.bridge import WorkerLink
from flowfabric.worker.context.context import Context
from flowfabric.worker.executors.dispatch import Handler
from flowfabric.worker.executors.inline import SharedTask
from flowfabric.worker.executors.processes import Processes
from flowfabric.worker.executors.threads import Threads
from flowfabric.worker.loop.claim_loop import Ending
from flowfabric.worker.loop.end_calls import completion
from flowfabric.worker.loop.frame_sender import Emitter
from flowfabric.worker.loop.reporting import SingleCalls
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

T = TypeVar("T")

_logger: Final = logging.getLogger("flowfabric.worker")

Finish = Callable[[Attempt, b.FinishArgs], None]


class Attempts:
    """Every attempt that this worker has, from its claim to the answer to its end."""

    def __init__(
        self,
        backend: EngineBackend,
        settings: WorkerSettings,
        stats: WorkerStats,
        categories: Mapping[type[BaseException], str],
    ) -> None:
        self.handlers: dict[str, Handler] = {}
        self.held: set[Attempt] = set()  # leases to renew
        self.running: set[Attempt] = set()
        self.state: Any = None
        self.callback_url = ""  # the address in the links of waitpoints
        self.finish: Finish
        self.changed: Callable[[], None]
        self.left: Callable[[str], None]  # an attempt has left this partition, and sends no end
        self.loop = asyncio.get_running_loop()
        self.thread_id = threading.get_ident()
        self.calls = SingleCalls(backend, stats, self.held)
        self.emitter = Emitter(backend, self.calls.start, self._lost)
        self.backend = backend
        self.settings = settings
        self.threads = Threads()
        self.processes = Processes(settings.processes, self.threads)
        self._shared_task = SharedTask()
        self._stats = stats
        self._categories = categories
        self._backlog: deque[Attempt] = deque()  # claimed ahead
        self._store_ahead_ms = 0.0  # of our own clock
        self._unknown: set[str] = set()

    @property
    def occupied(self) -> int:
        return len(self.running) + len(self._backlog)

    def store_now_ms(self) -> int:
        """The store's time, as well as it can be known from the last claim."""
        return int(time.monotonic() * 1000 + self._store_ahead_ms)

    # Beginning.

    def claimed(self, works: Sequence[b.ClaimedWork], lane_id: LaneId, sent_at: float) -> None:
        if not works:
            return
        ttl_ms = self.settings.lease_ttl_ms
        self._stats.claimed += len(works)
        self._store_ahead_ms = works[0].lease_expires_at - ttl_ms - time.monotonic() * 1000
        lease_until, renew_at = sent_at + ttl_ms / 1000, sent_at + self.settings.renew_every_ms / 1000
        for work in works:
            handler = self.handlers.get(work.execution_kind)
            if handler is None:
                self._hand_back_unknown(work, lane_id)
                continue
            attempt = Attempt(work, handler, lane_id, lease_until, renew_at)
            self.held.add(attempt)
            if len(self.running) < self.settings.concurrency:
                self._begin(attempt)
            else:
                self._backlog.append(attempt)

    def _begin(self, attempt: Attempt) -> None:
        self.running.add(attempt)
        handler = attempt.handler
        if tracing.is_on():
            attempt.handle = self.loop.create_task(run_traced(attempt, self.backend))
        elif handler.waits:
            attempt.handle = self.loop.create_task(handler.run(attempt))
        else:
            self._shared_task.run(attempt)
        if handler.timeout_ms is not None:
            attempt.timer = self.loop.call_later(handler.timeout_ms / 1000, self._time_out, attempt)

    def _hand_back_unknown(self, work: b.ClaimedWork, lane_id: LaneId) -> None:
        """Another worker may know the task; what becomes of it shows in the execution's progress."""
        name = work.execution_kind
        self._stats.unknown += 1
        if name not in self._unknown:
            self._unknown.add(name)
            _logger.warning("no task %r in this worker; its executions of lane %s are handed back", name, lane_id)
        message = f"{self.settings.worker_instance_id} has no task {name!r} and handed it back"
        until_ms = self.store_now_ms() + self.settings.unknown_delay_ms
        self.calls.return_unknown(work, outcomes.bounded(message, limits.PROGRESS_MESSAGE_MAX_BYTES), until_ms)

    # Ending, called by the handlers.

    def completed(self, attempt: Attempt, payload: bytes) -> None:
        self._leave(attempt)
        if attempt.settled:
            if attempt.suspension is Suspension.DONE:
                _logger.warning("%s; what it returned is ignored", _went_on(attempt))
            return
        attempt.settled = True
        if attempt.stopped() is None:
            self._finish(attempt, completion(attempt.execution_id, attempt.fence, payload))
        else:
            self._end_stopped(attempt)

    def raised(self, attempt: Attempt, error: BaseException) -> None:
        self._leave(attempt, error)
        if attempt.settled:
            if attempt.suspension is Suspension.DONE and not _unwinds(error):
                _logger.warning("%s; what it raised is ignored", _went_on(attempt), exc_info=error)
            return
        attempt.settled = True
        if attempt.stopped(error) is None:
            self._end(attempt, error)
        else:
            self._end_stopped(attempt)

    def _leave(self, attempt: Attempt, error: BaseException | None = None) -> None:
        """The handler has ended, and its slot is free."""
        if attempt.span is not None:
            tell(attempt.span, attempt, error)
        self.running.discard(attempt)
        attempt.context = None  # it knows the attempt: without this, each would wait for the garbage collector
        if attempt.timer is not None:
            attempt.timer.cancel()
        while self._backlog and len(self.running) < self.settings.concurrency:
            self._begin(self._backlog.popleft())
        self.changed()

    def _end_stopped(self, attempt: Attempt) -> None:
        match attempt.stop:
            case Stop.TIMED_OUT:
                self._end_timed_out(attempt)
            case Stop.DRAINING:
                self._after_frames(attempt, lambda _: self.calls.delay(attempt, 0, "handed_back"))
            case Stop.CANCELLED:
                self._stats.cancelled += 1
            case _:
                self._stats.lost += 1

    def _end_timed_out(self, attempt: Attempt) -> None:
        self._stats.timed_out += 1
        limit = (attempt.handler.timeout_ms or 0) / 1000
        self._fail(attempt, f"the attempt took longer than {limit:g} s", outcomes.TIMEOUT)

    def _end(self, attempt: Attempt, error: BaseException) -> None:
        """What the handler raised, by itself."""
        error = outcomes.spoken(error)
        match error:
            case Retry():
                self._fail(attempt, outcomes.reason_of(error), "retry", delay_ms=error.after_ms)
            case Fail():
                self._fail(attempt, outcomes.reason_of(error), error.category, retryable=error.retryable)
            case Snooze():
                until = error.until_ms if error.until_ms is not None else self.store_now_ms() + (error.for_ms or 0)
                self._after_frames(attempt, lambda _: self.calls.delay(attempt, until, "snoozed"))
            case Cancel():
                reason = outcomes.reason_of(error)
                self._after_frames(attempt, lambda _: self.calls.cancel(attempt, reason))
            case _:
                _logger.warning("%s of %s raised", attempt.handler.name, attempt.execution_id, exc_info=error)
                self._fail(attempt, outcomes.reason_of(error), outcomes.category_of(error, self._categories))

    def _fail(
        self, attempt: Attempt, reason: str, category: str, *, retryable: bool = True, delay_ms: int | None = None
    ) -> None:
        args = c.FailExecutionArgs(
            execution_id=attempt.execution_id,
            fence=attempt.fence,
            failure_reason=reason,
            failure_category=category,
            retry_policy_json=None if retryable else "",
            retry_delay_ms=delay_ms,
        )
        self._finish(attempt, args)

    def _finish(self, attempt: Attempt, args: b.FinishArgs) -> None:
        """Send the end, when all that the attempt emitted has been taken; without it, a success is none."""
        if attempt.frames is None:
            self.finish(attempt, args)
            return

        def end(refusal: FlowFabricError | None) -> None:
            if refusal is None or isinstance(args, c.FailExecutionArgs):
                self.finish(attempt, args)
            else:
                self._fail(attempt, outcomes.bounded(str(refusal)), outcomes.INVALID_RESULT, retryable=False)

        self._after_frames(attempt, end)

    def _after_frames(self, attempt: Attempt, end: Callable[[FlowFabricError | None], None]) -> None:
        def then(refusal: FlowFabricError | None) -> None:
            attempt.frames = None  # it knows the attempt, too
            end(refusal)

        self.emitter.when_taken(attempt, then)

    # Waiting, called by the handler through its context.

    async def suspend(self, attempt: Attempt, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        """active -> suspended. From the answer on the attempt is settled, whatever its handler does."""
        call = partial(self.backend.suspend_execution, args)
        return await self.calls.see_through(lambda: self._step_back(attempt, call))

    async def move_to_waiting_children(self, attempt: Attempt) -> c.MoveToWaitingChildrenResult:
        """active -> waiting_children. The same holds."""
        args = c.MoveToWaitingChildrenArgs(execution_id=attempt.execution_id, fence=attempt.fence)
        call = partial(self.backend.move_to_waiting_children, args)
        return await self.calls.see_through(lambda: self._step_back(attempt, call))

    async def _step_back(self, attempt: Attempt, call: Callable[[], Awaitable[T]]) -> T:
        await self.emitter.taken(attempt)
        attempt.suspension = Suspension.ASKED
        self.held.discard(attempt)  # a renewal that comes behind it would be refused
        try:
            result = await call()
        except asyncio.CancelledError:
            raise  # it is asked once more
        except BaseException:
            self._keep(attempt)
            raise
        if isinstance(result, c.ExecutionSuspended | c.MovedToWaitingChildren):
            self._suspended(attempt)
        else:
            self._keep(attempt)
        return result

    def _suspended(self, attempt: Attempt) -> None:
        attempt.suspension = Suspension.DONE
        attempt.settled = True
        attempt.frames = None
        self._stats.suspended += 1
        if attempt.timer is not None:
            attempt.timer.cancel()
        self.left(attempt.execution_id.tag)

    def _keep(self, attempt: Attempt) -> None:
        """It was not suspended."""
        attempt.suspension = None
        if not attempt.settled:
            self.held.add(attempt)

    def lose(self, attempt: Attempt, cause: Stop) -> None:
        """The store has refused a call of it, because its lease is gone."""
        self.held.discard(attempt)
        attempt.order(cause)

    def _lost(self, attempt: Attempt, cause: Stop) -> None:
        """The same, where the handler has not asked."""
        if attempt.settled or attempt.suspension or attempt.stop:
            return
        _logger.warning("%s attempt %d is to stop: its frames are refused", attempt.execution_id, attempt.attempt_index)
        self.lose(attempt, cause)
        self.interrupt(attempt)

    def answered(self, endings: Sequence[Ending], results: Sequence[b.FinishOutcome]) -> None:
        """The store has taken, or refused, the ends of these."""
        stats, held = self._stats, self.held
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

    def _refused(self, ending: Ending, error: FlowFabricError) -> None:
        attempt = ending.attempt
        if isinstance(error, Invalid) and isinstance(ending.args, c.CompleteExecutionArgs):
            # The store will not have this result, so the execution would run for ever: it fails instead.
            self.held.add(attempt)
            self._fail(attempt, outcomes.bounded(str(error)), outcomes.INVALID_RESULT, retryable=False)
            return
        if stop_for(error) is Stop.CANCELLED:  # between two renewals; that is how joins end what they do not need
            self._stats.cancelled += 1
            return
        self._stats.lost += 1
        _logger.warning("the end of %s attempt %d was refused: %s", attempt.execution_id, attempt.attempt_index, error)

    # Stopping.

    def _time_out(self, attempt: Attempt) -> None:
        self.stop(attempt, Stop.TIMED_OUT)
        attempt.timer = self.loop.call_later(self.settings.cancel_grace_ms / 1000, self._give_up, attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """It was told to stop and has not: its attempt ends, its slot stays taken until the handler does."""
        if not attempt.settled:
            attempt.settled = True
            self._end_stopped(attempt)

    def stop(self, attempt: Attempt, cause: Stop) -> None:
        attempt.order(cause)
        self.interrupt(attempt)

    def interrupt(self, attempt: Attempt) -> None:
        """Have the handler of an attempt that was ordered to stop do so."""
        if attempt in self.running:
            attempt.handler.interrupt(attempt)
        elif attempt in self._backlog:
            self._backlog.remove(attempt)
            self._give_up(attempt)

    def hand_back_waiting(self) -> None:
        """Give back what was claimed ahead and has not begun."""
        for attempt in list(self._backlog):
            self.stop(attempt, Stop.DRAINING)

    def stop_all(self) -> None:
        for attempt in list(self.running):
            self.stop(attempt, Stop.DRAINING)

    def give_up_all(self) -> None:
        for attempt in list(self.running):
            self._give_up(attempt)

    def abandon_all(self) -> None:
        """Stop everything and say nothing about it."""
        for attempt in (*self.running, *self._backlog):
            attempt.settled = True
        self.stop_all()

    def context_of(self, attempt: Attempt) -> Context:
        if attempt.context is None:
            attempt.context = Context(WorkerLink(attempt, self))
        return attempt.context


def _unwinds(error: BaseException) -> bool:
    """Whether the handler let through what was to end it."""
    if isinstance(error, BaseExceptionGroup):
        return any(_unwinds(each) for each in error.exceptions)
    return isinstance(error, Suspended | Interrupted | asyncio.CancelledError)


def _went_on(attempt: Attempt) -> str:
    return f"{attempt.handler.name} of {attempt.execution_id} was suspended, and has caught Suspended and gone on"

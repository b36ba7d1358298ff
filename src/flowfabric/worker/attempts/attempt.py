"""The state of one attempt in a worker: its lease, its handler, and why it must stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from flowfabric.core import contracts as c
from flowfabric.core.contracts.batch import ClaimedWork
from flowfabric.core.ids import LaneId
from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import ExecutionNotActive, FlowFabricError
from flowfabric.worker.attempts.outcomes import Interrupted, Suspended

if TYPE_CHECKING:
    from flowfabric.tracing import Span
    from flowfabric.worker.context.context import Context
    from flowfabric.worker.executors.dispatch import Handler
    from flowfabric.worker.reporting.log_sender import AttemptLog
    from flowfabric.worker.reporting.outgoing_frames import Outgoing, StepSpan

# After this many failed renewals in a row a lease counts as unhealthy.
UNHEALTHY_AFTER = 3


class Stop(StrEnum):
    """Why a handler must stop."""

    CANCELLED = "cancelled"  # the execution was cancelled
    LEASE_LOST = "lease_lost"  # another worker may have it
    TIMED_OUT = "timed_out"
    DRAINING = "draining"  # the worker stops; another worker resumes the attempt


class Suspension(StrEnum):
    """How far the suspension of an attempt is."""

    ASKED = "asked"  # the call is out; the store may have suspended it already
    DONE = "done"


class Attempt:
    """Everything a worker knows about an attempt that it owns, or owned.

    The worker's thread writes it. The heartbeat's thread writes only the fields of the lease, and `stop`.
    """

    __slots__ = (
        "attempt_index", "context", "execution_id", "failures", "fence", "frames", "handle", "handler", "kill",
        "lane_id", "lease_until", "log", "note", "renew_at", "settled", "span", "started", "step_spans", "stop",
        "stop_event", "suspension", "timer", "work",
    )  # fmt: skip

    def __init__(
        self, work: ClaimedWork, handler: Handler, lane_id: LaneId, lease_until: float, renew_at: float
    ) -> None:
        self.work = work
        self.execution_id = work.execution_id
        self.attempt_index = work.attempt_index
        self.fence = work.fence
        self.handler = handler
        self.lane_id = lane_id
        self.lease_until = lease_until  # by the local clock
        self.renew_at = renew_at
        self.failures = 0  # failed renewals in a row
        self.stop: Stop | None = None
        self.stop_event: threading.Event | None = None
        self.started = False  # the handler has started
        self.suspension: Suspension | None = None
        self.settled = False  # its one outcome was sent, or must not be sent by this worker
        self.handle: asyncio.Task[None] | None = None
        self.kill: Callable[[], None] | None = None  # kills the process that it runs in
        self.timer: asyncio.TimerHandle | None = None
        self.context: Context | None = None
        self.frames: Outgoing | None = None  # emitted, not yet taken by the store
        self.log: AttemptLog | None = None  # records that it logged, not yet taken by the store
        self.step_spans: dict[str, StepSpan] | None = None  # where the frames of step runs are
        self.note: c.UpdateProgressArgs | None = None  # progress that is being sent
        self.span: Span | None = None  # if tracing is on

    def order(self, stop: Stop) -> bool:
        """Order the attempt to stop, from any thread. Returns False if it was ordered before."""
        if self.stop is not None:
            return False
        self.stop = stop
        if self.stop_event is not None:
            self.stop_event.set()
        return True

    def stopping(self) -> threading.Event:
        """The event that a handler in a thread waits on to learn that it must stop."""
        if self.stop_event is None:
            self.stop_event = threading.Event()
        if self.stop is not None:  # the order may have come before the event was made
            self.stop_event.set()
        return self.stop_event

    def check(self) -> None:
        """Raise the exception that unwinds the handler if the attempt is over."""
        if self.suspension is Suspension.DONE:
            raise Suspended(f"{self.execution_id.short} is suspended; its handler will be run again")
        if self.stop is not None:
            raise Interrupted(f"{self.execution_id.short}: {self.stop}")

    def stopped(self, error: BaseException | None = None) -> Stop | None:
        """Why the attempt was stopped; None if its handler ended by itself, as it may while the worker drains."""
        was_interrupted = self.kill is not None or isinstance(error, asyncio.CancelledError | Interrupted)
        if self.stop is Stop.DRAINING and (error is None or not was_interrupted):
            return None
        return self.stop

    @property
    def is_lease_healthy(self) -> bool:
        return self.failures < UNHEALTHY_AFTER and self.stop is not Stop.LEASE_LOST


def stop_for(refusal: FlowFabricError) -> Stop:
    """Why an attempt must stop whose lease the store refused to renew."""
    ended_as = refusal.details.get("terminal_outcome") if isinstance(refusal, ExecutionNotActive) else None
    return Stop.CANCELLED if ended_as == TerminalOutcome.CANCELLED else Stop.LEASE_LOST

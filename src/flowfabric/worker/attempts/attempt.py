"""One attempt while a worker has it: its lease, its handler and, when it is to stop, why."""

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
    from flowfabric.worker.reporting.outgoing_frames import Outgoing

# A lease whose renewals failed so often in a row is not to be relied on.
UNHEALTHY_AFTER = 3


class Stop(StrEnum):
    """Why a handler is told to stop."""

    CANCELLED = "cancelled"  # somebody cancelled the execution
    LEASE_LOST = "lease_lost"  # another worker may have it
    TIMED_OUT = "timed_out"
    DRAINING = "draining"  # the worker stops; the attempt goes on elsewhere


class Suspension(StrEnum):
    """How far an attempt is with its suspension."""

    ASKED = "asked"  # the store may have it suspended by now
    DONE = "done"


class Attempt:
    """What a worker knows of an attempt that it owns, or owned.

    The loop's thread writes it; the keeper's writes what concerns the lease, and `stop`.
    """

    __slots__ = (
        "attempt_index", "context", "execution_id", "failures", "fence", "frames", "handle", "handler", "kill",
        "lane_id", "lease_until", "note", "renew_at", "settled", "span", "started", "stop", "stop_event",
        "suspension", "timer", "work",
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
        self.lease_until = lease_until  # by our own clock, which is enough to know that silence was too long
        self.renew_at = renew_at
        self.failures = 0  # renewals in a row
        self.stop: Stop | None = None
        self.stop_event: threading.Event | None = None
        self.started = False  # the handler has begun
        self.suspension: Suspension | None = None
        self.settled = False  # its one outcome is on its way, or is not ours to send
        self.handle: asyncio.Task[None] | None = None
        self.kill: Callable[[], None] | None = None  # of the process it runs in
        self.timer: asyncio.TimerHandle | None = None
        self.context: Context | None = None
        self.frames: Outgoing | None = None  # that it emitted
        self.note: c.UpdateProgressArgs | None = None  # progress that was not sent yet
        self.span: Span | None = None  # when it is traced

    def order(self, stop: Stop) -> bool:
        """Note that it must stop; from any thread. False when it knew."""
        if self.stop is not None:
            return False
        self.stop = stop
        if self.stop_event is not None:
            self.stop_event.set()
        return True

    def stopping(self) -> threading.Event:
        """What a thread waits for to learn that it must stop."""
        if self.stop_event is None:
            self.stop_event = threading.Event()
        if self.stop is not None:  # it may have come before the event was there
            self.stop_event.set()
        return self.stop_event

    def check(self) -> None:
        """Raise what unwinds its handler, when it is over."""
        if self.suspension is Suspension.DONE:
            raise Suspended(f"{self.execution_id} waits; its handler will be run again")
        if self.stop is not None:
            raise Interrupted(f"{self.execution_id}: {self.stop}")

    def stopped(self, error: BaseException | None = None) -> Stop | None:
        """What made it end; None when it did so by itself, as it may while its worker drains."""
        was_interrupted = self.kill is not None or isinstance(error, asyncio.CancelledError | Interrupted)
        if self.stop is Stop.DRAINING and (error is None or not was_interrupted):
            return None
        return self.stop

    @property
    def is_lease_healthy(self) -> bool:
        return self.failures < UNHEALTHY_AFTER and self.stop is not Stop.LEASE_LOST


def stop_for(refusal: FlowFabricError) -> Stop:
    """Why an attempt must stop whose lease the store does not know any more."""
    ended_as = refusal.details.get("terminal_outcome") if isinstance(refusal, ExecutionNotActive) else None
    return Stop.CANCELLED if ended_as == TerminalOutcome.CANCELLED else Stop.LEASE_LOST

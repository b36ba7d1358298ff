"""Sends frames: those of all attempts of a worker in few calls, those of one attempt in order.

Batching adds no delay. If no call of the partition is out, a frame goes in the next round of the event loop, together
with everything that was emitted in this round. Frames that come while a call is out go together when it returns. An
attempt has one call out at a time, so its frames keep their order. Its end is sent after all of its frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts.frame_marks import RERUN
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError, InvalidInput, Unavailable
from flowfabric.worker.attempts.attempt import Attempt, Stop
from flowfabric.worker.attempts.outcomes import Interrupted
from flowfabric.worker.attempts.stopper import Stopper
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.reporting.outgoing_frames import ENOUGH_BYTES, ENOUGH_FRAMES, ROOM, Outgoing

_logger: Final = logging.getLogger("flowfabric.worker")

# A handler that never awaits `ctx.emit` is refused when this many of its frames wait.
_FAR_TOO_MANY: Final = 20 * ENOUGH_FRAMES
# Limits of one call: other clients of the server wait while it runs.
_FRAMES_A_CALL: Final = 1_000
_BYTES_A_CALL: Final = 1_048_576
_CALLS_PER_PARTITION: Final = 2
_PAUSE_S: Final = 0.5  # after a call that failed; the client has already retried for a while

_PASS: Final = c.Frame(frame_type=RERUN, payload=b"")
_LOST: Final = frozenset({"stale_owner_cannot_append", "stream_closed"})


class _Line:
    """A partition: its attempts with unsent frames, and how many calls are out."""

    def __init__(self) -> None:
        self.due: deque[Outgoing] = deque()
        self.calls = 0
        self.is_called = False  # a task will send the due frames in the next round of the event loop

    def take(self) -> list[Outgoing]:
        """The frames of the next call, by attempt."""
        self.is_called = False
        group: list[Outgoing] = []
        count = size = 0
        while self.due and count < _FRAMES_A_CALL and size < _BYTES_A_CALL:
            out = self.due.popleft()
            if not out.waiting:
                continue
            out.take()
            group.append(out)
            count += len(out.sending)
            size += out.size
        return group


class FrameSender:
    """Sends the frames of a worker's attempts."""

    def __init__(self, backend: EngineBackend, tasks: CallTasks, stopper: Stopper) -> None:
        self._backend = backend
        self._tasks = tasks
        self._stopper = stopper
        self._lines: dict[str, _Line] = {}

    def emit(self, attempt: Attempt, frame: c.Frame) -> Awaitable[None]:
        """Send a frame in the background. Await the result: it waits while too many frames are unsent."""
        if attempt.settled or attempt.stop is not None:
            attempt.check()
            raise Interrupted(f"{attempt.execution_id.short}: the attempt has ended")
        out = attempt.frames
        if out is None:
            out = self._begin(attempt)
        elif out.refusal is not None:
            raise out.refusal
        waiting = out.waiting
        count = len(waiting) + 1
        if count > _FAR_TOO_MANY:
            raise InvalidInput("ctx.emit", count, "frames wait for the store; await ctx.emit(...)")
        waiting.append(frame)
        out.size += len(frame.payload)
        if count == 1 and not out.sending:
            self._send_soon(out)
        # The same as has_room, inlined because it runs for every frame.
        if count + len(out.sending) <= ENOUGH_FRAMES and out.size <= ENOUGH_BYTES:
            return ROOM
        return out.room()

    def _begin(self, attempt: Attempt) -> Outgoing:
        """The first frame of a pass. If the attempt had an earlier pass, a mark makes its frames void."""
        out = attempt.frames = Outgoing(attempt)
        if attempt.work.attempt_type is None:
            out.waiting.append(_PASS)
            self._send_soon(out)
        return out

    def _send_soon(self, out: Outgoing) -> None:
        tag = out.attempt.execution_id.tag
        line = self._lines.get(tag)
        if line is None:
            line = self._lines[tag] = _Line()
        line.due.append(out)
        if line.calls < _CALLS_PER_PARTITION and not line.is_called:
            line.calls += 1
            line.is_called = True
            self._tasks.start(self._serve(line))

    async def _serve(self, line: _Line) -> None:
        try:
            while group := line.take():
                await self._send(group)
        finally:
            line.calls -= 1

    async def _send(self, group: list[Outgoing]) -> None:
        """Send until the store has answered. Frames are numbered, so a repeated call does not append them twice."""
        while group:
            try:
                outcomes = await self._backend.append_frames([out.args() for out in group])
            except Unavailable as error:
                _logger.warning("could not send frames of %d attempts; retrying: %s", len(group), error)
                await asyncio.sleep(_PAUSE_S)
                group = [out for out in group if not _is_over(out)]
                continue
            except FlowFabricError as error:
                outcomes = [error] * len(group)
            for out, outcome in zip(group, outcomes, strict=True):
                if isinstance(outcome, FlowFabricError):
                    self._refused(out, outcome)
                else:
                    out.taken(outcome.entry_ids)
                    if out.waiting:
                        self._send_soon(out)
            return

    def _refused(self, out: Outgoing, refusal: FlowFabricError) -> None:
        attempt = out.attempt
        if refusal.code not in _LOST:
            _logger.warning("frames of %s were refused: %s", attempt.execution_id.short, refusal)
            out.drop(refusal)
            return
        out.drop()
        if not (attempt.settled or attempt.suspension or attempt.stop):
            self._tasks.start(self._lose(attempt))

    async def _lose(self, attempt: Attempt) -> None:
        """The lease is gone; read the state of the execution to learn why."""
        try:
            state = await self._backend.get_execution_state(attempt.execution_id)
        except FlowFabricError:
            state = None
        self._stopper.frames_refused(attempt, Stop.CANCELLED if state is PublicState.CANCELLED else Stop.LEASE_LOST)


def _is_over(out: Outgoing) -> bool:
    """Whether the attempt is cancelled or has lost its lease; then drop its frames."""
    over = out.attempt.stop in (Stop.CANCELLED, Stop.LEASE_LOST)
    if over:
        out.drop()
    return over

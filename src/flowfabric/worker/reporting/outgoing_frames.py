"""The frames of one attempt that the store has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, cast

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import FlowFabricError
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.reporting.requests import frames_of

# How much of an attempt may wait for the store before the handler has to wait.
ENOUGH_FRAMES: Final = 512
ENOUGH_BYTES: Final = 1_048_576

WhenTaken = Callable[[FlowFabricError | None], None]


class _Room:
    """An awaitable that is done: there is room for more frames."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, None]:
        return cast("Generator[Any, Any, None]", iter(()))


ROOM: Final = _Room()
SENT: Final = _Room()  # in threads and processes, where the call itself has waited


class StepSpan(NamedTuple):
    """The entries of a step's run: the first, the last, and how many the store has taken. None: the id is not known."""

    first_id: str | None
    last_id: str | None = None
    frames: int = 0


class Outgoing:
    """The frames of one attempt that the store has not taken yet."""

    __slots__ = ("attempt", "number", "refusal", "sending", "size", "waiters", "waiting", "when_taken")

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.number = 0  # of the first frame
        self.sending: tuple[c.Frame, ...] = ()
        self.waiting: deque[c.Frame] = deque()
        self.size = 0  # bytes
        self.refusal: FlowFabricError | None = None
        self.waiters: list[asyncio.Future[None]] = []  # handlers that wait for room
        self.when_taken: list[WhenTaken] = []

    @property
    def has_room(self) -> bool:
        return len(self.waiting) + len(self.sending) <= ENOUGH_FRAMES and self.size <= ENOUGH_BYTES

    async def room(self) -> None:
        while not self.has_room:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            await waiter
        self.check()

    def check(self) -> None:
        self.attempt.check()
        if self.refusal is not None:
            raise self.refusal

    def take(self) -> None:
        """Move the next frames to `sending`."""
        waiting = self.waiting
        if len(waiting) <= limits.MAX_FRAMES_AT_ONCE:
            self.sending = tuple(waiting)
            waiting.clear()
        else:
            self.sending = tuple(waiting.popleft() for _ in range(limits.MAX_FRAMES_AT_ONCE))

    def args(self) -> c.AppendFramesArgs:
        attempt = self.attempt
        return frames_of(attempt.execution_id, attempt.attempt_index, attempt.fence, self.number, self.sending)

    def taken(self, entry_ids: Sequence[str] = ()) -> None:
        """The store has taken the frames in `sending`. It may not know all ids if a call was repeated."""
        if self.attempt.step_spans is not None:
            _note_spans(self.attempt.step_spans, self.sending, entry_ids)
        self.number += len(self.sending)
        self.size -= sum(len(frame.payload) for frame in self.sending)
        self.sending = ()
        self._tell()

    def drop(self, refusal: FlowFabricError | None = None) -> None:
        """Drop all frames; the store does not take them."""
        self.refusal = self.refusal or refusal
        self.sending, self.size = (), 0
        self.waiting.clear()
        self._tell()

    def _tell(self) -> None:
        if self.waiters and self.has_room:
            for waiter in self.waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self.waiters.clear()
        if self.when_taken and not self.waiting:
            for tell in self.when_taken:
                tell(self.refusal)
            self.when_taken.clear()


def _note_spans(spans: dict[str, StepSpan], frames: tuple[c.Frame, ...], entry_ids: Sequence[str]) -> None:
    known = entry_ids if len(entry_ids) == len(frames) else [None] * len(frames)
    for frame, entry_id in zip(frames, known, strict=True):
        if frame.step_run is not None:
            before = spans.get(frame.step_run) or StepSpan(entry_id)
            spans[frame.step_run] = StepSpan(before.first_id, entry_id, before.frames + 1)


async def frames_taken(attempt: Attempt) -> None:
    """Wait until the store has taken all frames of the attempt; raise its refusal."""
    if attempt.frames is None:
        return
    done: asyncio.Future[FlowFabricError | None] = asyncio.get_running_loop().create_future()
    when_frames_taken(attempt, lambda refusal: None if done.done() else done.set_result(refusal))
    if (refusal := await done) is not None:
        raise refusal


def when_frames_taken(attempt: Attempt, tell: WhenTaken) -> None:
    """Call `tell` when the store has taken all frames of the attempt, or has refused them."""
    out = attempt.frames
    if out is None or not (out.waiting or out.sending):
        tell(None if out is None else out.refusal)
    else:
        out.when_taken.append(tell)

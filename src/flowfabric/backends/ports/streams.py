"""The port of output streams; it is part of EngineBackend (backends/ports.py), and what is said there holds here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptIndex, ExecutionId


class FrameFollower(Protocol):
    """Reads one stream as it grows."""

    async def next(self) -> c.StreamFrames:
        """The frames after those of the last call, as soon as there are some; the last page says that it is the end.

        A call that is cancelled has taken nothing. After the end each call answers the end again.
        """
        ...


class StreamPort(Protocol):
    """What an attempt emits. An attempt that is suspended and resumed goes on with the same stream."""

    async def append_frame(self, args: c.AppendFrameArgs) -> c.AppendFrameResult:
        """Add a frame to the stream of the running attempt; the state does not change. Repeated, it adds another."""
        ...

    async def append_frames(self, batch: Sequence[c.AppendFramesArgs]) -> list[b.AppendFramesOutcome]:
        """Add frames to the streams of running attempts: those of one attempt together, in order, or none of them.

        Each attempt has its own outcome: a refused one is an error in the list and spoils no other.
        """
        ...

    async def read_attempt_stream(self, args: c.ReadFramesArgs) -> c.StreamFrames:
        """The frames of one attempt, oldest first, whether it runs or has ended."""
        ...

    async def tail_attempt_stream(self, args: c.TailFramesArgs) -> c.StreamFrames:
        """The frames after a place; where there are none yet, wait for the first, or for the end of the attempt.

        An empty page that is not closed means that `block_ms` have passed.
        """
        ...

    def follow_attempt_stream(self, args: c.FollowFramesArgs) -> AbstractAsyncContextManager[FrameFollower]:
        """Read one attempt's stream as it grows, until the attempt ends. How many are read at once is limited."""
        ...

    async def describe_stream(self, execution_id: ExecutionId, attempt_index: AttemptIndex) -> c.StreamInfo:
        """How long a stream is, where it begins and ends, and whether it is closed."""
        ...

    async def read_summary(self, execution_id: ExecutionId, attempt_index: AttemptIndex) -> c.SummaryDocument | None:
        """What the summary frames of an attempt made by now; None when there were none."""
        ...

"""Streams: the frames that an attempt emits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptIndex, ExecutionId


class FrameFollower(Protocol):
    """Follows one stream as it grows."""

    async def next(self) -> c.StreamFrames:
        """Wait for the next frames and return them; the last page is marked as the end.

        A cancelled call consumes nothing. After the end, each call returns the end again.
        """
        ...


class StreamPort(Protocol):
    """Write and read the streams of attempts. A resumed attempt continues its stream."""

    async def append_frame(self, args: c.AppendFrameArgs) -> c.AppendFrameResult:
        """Append a frame to the stream of the running attempt. A repeated call appends a second frame."""
        ...

    async def append_frames(self, batch: Sequence[c.AppendFramesArgs]) -> list[b.AppendFramesOutcome]:
        """Append frames to the streams of running attempts; the frames of one attempt are kept together, in order.

        Each attempt has its own outcome: a refused one is an error in the list, the others succeed.
        """
        ...

    async def read_attempt_stream(self, args: c.ReadFramesArgs) -> c.StreamFrames:
        """Read the frames of a running or ended attempt, oldest first."""
        ...

    async def tail_attempt_stream(self, args: c.TailFramesArgs) -> c.StreamFrames:
        """Read the frames after a cursor. If there are none, wait for the first one or for the end of the attempt.

        An empty page that is not closed means that `block_ms` have passed.
        """
        ...

    def follow_attempt_stream(self, args: c.FollowFramesArgs) -> AbstractAsyncContextManager[FrameFollower]:
        """Follow one attempt's stream until the attempt ends. A backend follows a limited number of streams."""
        ...

    async def describe_stream(self, execution_id: ExecutionId, attempt_index: AttemptIndex) -> c.StreamInfo:
        """The length of a stream, its first and last entry, and whether it is closed."""
        ...

    async def read_summary(self, execution_id: ExecutionId, attempt_index: AttemptIndex) -> c.SummaryDocument | None:
        """The document built from the summary frames of an attempt; None when it has none."""
        ...

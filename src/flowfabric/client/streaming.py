"""Read the output stream of an execution over all its attempts, until it ends.

All readers of one stream in a process share one read of the store. A reader that falls behind reads from its own place.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final, Literal, TypeAlias

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.standing_output import Standing
from flowfabric.client.stream_items import Place, StreamItem
from flowfabric.client.tasks import payloads
from flowfabric.core import contracts as c
from flowfabric.core.contracts.frame_marks import is_mark
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import ExecutionNotFound, InvalidInput

__all__ = ["Attempts", "Place", "StreamItem", "checked_attempts", "latest_attempt", "stream", "summary"]

Attempts: TypeAlias = Literal["latest", "all"]

_NEVER_STARTED: Final = "never_started"  # the execution has ended, and there was no such attempt
_PAGE: Final = 500


def stream(
    backend: EngineBackend, execution_id: ExecutionId, *, after: str | None, attempts: Attempts, live: bool
) -> AsyncGenerator[StreamItem, None]:
    """The frames after a position as they are emitted, until the execution ends."""
    begun = None if after is None else Place.parse(after)
    if checked_attempts(attempts) == "all":
        return _all(backend, execution_id, begun or Place(0), live)
    return _latest(backend, execution_id, begun, live)


async def _all(
    backend: EngineBackend, execution_id: ExecutionId, place: Place, live: bool
) -> AsyncGenerator[StreamItem, None]:
    """Every frame of every attempt in turn, as it was emitted."""
    while True:
        async with backend.follow_attempt_stream(_args(execution_id, place, live)) as follower:
            page = c.StreamFrames()
            while not page.is_end:
                page = await follower.next()
                for frame in page.frames:
                    if not is_mark(frame.frame_type):
                        yield StreamItem(place.attempt_index, frame)
        if page.closed_reason == _NEVER_STARTED:
            return
        place = Place(place.attempt_index + 1)


async def _latest(
    backend: EngineBackend, execution_id: ExecutionId, begun: Place | None, live: bool
) -> AsyncGenerator[StreamItem, None]:
    """The output that stands: that of the latest pass of the latest attempt, with the steps that it skipped."""
    place = max(begun or Place(0), Place(await latest_attempt(backend, execution_id)))
    shown = place.attempt_index if begun is None else begun.attempt_index
    standing = Standing(backend, execution_id, live, from_start=begun is None)
    if place.inner is not None:
        async for item in standing.resumed(place):
            yield item
    while True:
        async with backend.follow_attempt_stream(_args(execution_id, place, live)) as follower:
            page = c.StreamFrames()
            while not page.is_end:
                page = await follower.next()
                index = place.attempt_index
                if index != shown and page.closed_reason != _NEVER_STARTED:
                    standing.begin(StreamItem(index))
                    shown = index
                if standing.is_plain(page.frames):
                    for frame in page.frames:
                        yield StreamItem(index, frame)
                else:
                    async for item in standing.items(index, page):
                        yield item
        if page.closed_reason == _NEVER_STARTED:
            return
        place = Place(place.attempt_index + 1)


async def latest_attempt(backend: EngineBackend, execution_id: ExecutionId) -> int:
    """The index of the running or last attempt; 0 before the first."""
    snapshot = await backend.describe_execution(execution_id)
    if snapshot is None:
        raise ExecutionNotFound(f"{execution_id}: no such execution", execution_id=str(execution_id))
    return max(0, snapshot.total_attempt_count - 1)


async def summary(backend: EngineBackend, execution_id: ExecutionId) -> dict[str, Any] | None:
    """The merged summary frames of the latest attempt."""
    found = await backend.read_summary(execution_id, await latest_attempt(backend, execution_id))
    return None if found is None else payloads.decode(found.document, payloads.decode_any, "summary")


def checked_attempts(attempts: str) -> str:
    if attempts not in ("latest", "all"):
        raise InvalidInput("attempts", attempts, "must be 'latest' or 'all'")
    return attempts


def _args(execution_id: ExecutionId, place: Place, live: bool) -> c.FollowFramesArgs:
    return c.FollowFramesArgs(
        execution_id=execution_id,
        attempt_index=place.attempt_index,
        after=StreamCursor(place.entry_id),
        count_limit=_PAGE,
        visibility=c.Visibility.ALL if live else c.Visibility.EXCLUDE_BEST_EFFORT,
    )

"""Read the output stream of an execution over all its attempts, until it ends.

All readers of one stream in a process share one read of the store. A reader that falls behind reads from its own place.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, TypeVar

import msgspec

from flowfabric.backends.ports import EngineBackend
from flowfabric.client import frame_values
from flowfabric.client.tasks import payloads
from flowfabric.core import contracts as c
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import ExecutionNotFound, InvalidInput

T = TypeVar("T")

Attempts: TypeAlias = Literal["latest", "all"]

_NEVER_STARTED: Final = "never_started"  # the execution has ended, and there was no such attempt
_PAGE: Final = 500
_FIRST: Final = "0-0"  # before the first frame of an attempt
_PLACE: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,20}-[0-9]{1,20})")


class StreamItem(msgspec.Struct, frozen=True):
    """A frame and its attempt. Without a frame it is a reset: discard the frames of earlier attempts."""

    attempt_index: int
    frame: c.StreamFrame | None = None

    @property
    def is_reset(self) -> bool:
        return self.frame is None

    @property
    def cursor(self) -> str:
        """Its position: `handle.stream(after=cursor)` continues after it."""
        return f"{self.attempt_index}:{_FIRST if self.frame is None else self.frame.id}"

    @property
    def type(self) -> str:
        """The frame type that the handler chose; "reset" for a reset."""
        return "reset" if self.frame is None else self.frame.frame_type

    @property
    def value(self) -> Any:
        """The emitted value: text, bytes, or decoded JSON. None for a reset."""
        return None if self.frame is None else frame_values.decode(self.frame.payload, self.frame.encoding)

    @property
    def text(self) -> str:
        """The payload as text, JSON undecoded; empty for a reset."""
        return "" if self.frame is None else self.frame.text

    @property
    def at(self) -> datetime | None:
        """When it was emitted, by the store's clock; None for a reset."""
        return None if self.frame is None else datetime.fromtimestamp(self.frame.ts / 1000, UTC)

    def read(self, kind: builtins.type[T]) -> T:
        """A JSON value, decoded as this type."""
        data = b"null" if self.frame is None else self.frame.payload
        value: T = payloads.decode(data, payloads.decoder(kind, "kind"), "value")
        return value


class Place(NamedTuple):
    """A reader's position: an attempt and an entry of its stream."""

    attempt_index: int
    entry_id: str = _FIRST

    @classmethod
    def parse(cls, cursor: str) -> Self:
        found = _PLACE.fullmatch(cursor) if isinstance(cursor, str) else None
        if found is None:
            raise InvalidInput("after", cursor, "must be the cursor of an item, like 0:1713100800150-0")
        return cls(int(found[1]), found[2])


async def stream(
    backend: EngineBackend, execution_id: ExecutionId, *, after: str | None, attempts: Attempts, live: bool
) -> AsyncGenerator[StreamItem, None]:
    """The frames after a position as they are emitted, until the execution ends."""
    begun = None if after is None else Place.parse(after)
    place = begun or Place(0)
    if checked_attempts(attempts) == "latest":
        newest = await latest_attempt(backend, execution_id)
        place = max(place, Place(newest))
    shown = place.attempt_index if begun is None else begun.attempt_index
    while True:
        async with backend.follow_attempt_stream(_args(execution_id, place, live)) as follower:
            page = c.StreamFrames()
            while not page.is_end:
                page = await follower.next()
                index = place.attempt_index
                if index != shown and attempts == "latest" and page.closed_reason != _NEVER_STARTED:
                    yield StreamItem(index)
                    shown = index
                for frame in page.frames:
                    yield StreamItem(index, frame)
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

"""The items of an execution's output, and the positions of its readers."""

from __future__ import annotations

import builtins
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec

from flowfabric.client import frame_values
from flowfabric.client.tasks import payloads
from flowfabric.core import contracts as c
from flowfabric.errors import InvalidInput

T = TypeVar("T")

_FIRST: Final = "0-0"  # before the first frame of an attempt
_ENTRY: Final = r"[0-9]{1,20}-[0-9]{1,20}"
_PLACE: Final = re.compile(rf"([0-9]{{1,10}}):({_ENTRY})(?:/({_ENTRY}))?")


class StreamItem(msgspec.Struct, frozen=True):
    """A frame and the attempt that shows it. Without a frame it is a reset: discard the frames so far."""

    attempt_index: int
    frame: c.StreamFrame | None = None
    place: str = ""  # in the stream of the attempt, if it is not that of the frame

    @property
    def is_reset(self) -> bool:
        return self.frame is None

    @property
    def cursor(self) -> str:
        """Its position: `handle.stream(after=cursor)` continues after it."""
        return f"{self.attempt_index}:{self.place or (_FIRST if self.frame is None else self.frame.id)}"

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
    """A reader's position: an attempt, an entry of its stream, and a frame of the step that the entry refers to."""

    attempt_index: int
    entry_id: str = _FIRST
    inner: str | None = None

    @classmethod
    def parse(cls, cursor: str) -> Self:
        found = _PLACE.fullmatch(cursor) if isinstance(cursor, str) else None
        if found is None:
            raise InvalidInput("after", cursor, "must be the cursor of an item, like 0:1713100800150-0")
        return cls(int(found[1]), found[2], found[3])

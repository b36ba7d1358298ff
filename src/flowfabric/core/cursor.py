"""Cursors: where a read of a stream starts or ends.

The grammar is `start`, `end`, `<ms>` and `<ms>-<seq>`. The store's own markers `-` and `+` are not part of
it: only a backend and its store use them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self

from flowfabric.core import limits
from flowfabric.errors import InvalidInput

_ENTRY = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_MARKERS = {"start": "-", "end": "+"}


class CursorProblem(StrEnum):
    """Why a text is not a cursor."""

    EMPTY = "empty"
    BARE_MARKER = "bare_marker"
    MALFORMED = "malformed"


_PROBLEM_TEXT = {
    CursorProblem.EMPTY: "must not be empty",
    CursorProblem.BARE_MARKER: "must be spelled 'start' or 'end', not as a bare marker",
    CursorProblem.MALFORMED: "must be 'start', 'end', '<ms>' or '<ms>-<seq>'",
}


class StreamCursorParseError(InvalidInput):
    """The text is not a cursor; `reason` names the problem."""

    default_code = "invalid_offset"

    def __init__(self, value: object, reason: CursorProblem, field: str = "cursor") -> None:
        self.reason = reason
        super().__init__(field, value, _PROBLEM_TEXT[reason])


class StreamCursor(str):
    """A position in a stream, as text: `StreamCursor("1713100800150-0")`."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        problem = _problem(text)
        if problem is not None:
            raise StreamCursorParseError(text, problem)
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return f"StreamCursor({super().__repr__()})"

    @classmethod
    def start(cls) -> Self:
        """Before the first frame."""
        return cls("start")

    @classmethod
    def end(cls) -> Self:
        """After the latest frame."""
        return cls("end")

    @classmethod
    def from_beginning(cls) -> Self:
        """The position before every entry: tailing after it returns the whole stream."""
        return cls("0-0")

    @property
    def is_concrete(self) -> bool:
        """Whether it names an entry; only such a cursor can be tailed after."""
        return self not in _MARKERS

    def to_wire(self) -> str:
        """The form that Valkey stream commands take."""
        return _MARKERS.get(self, str(self))


def _problem(text: object) -> CursorProblem | None:
    if text == "":
        return CursorProblem.EMPTY
    if text in ("-", "+"):
        return CursorProblem.BARE_MARKER
    if not isinstance(text, str):
        return CursorProblem.MALFORMED
    if text in _MARKERS:
        return None
    entry = _ENTRY.fullmatch(text)
    if entry and all(int(part or 0) <= limits.MAX_U64 for part in entry.groups()):
        return None
    return CursorProblem.MALFORMED

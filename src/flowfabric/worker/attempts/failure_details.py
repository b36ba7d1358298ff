"""What is kept of the exception of a handler: a bounded document without local values."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import flowfabric
from flowfabric.core import limits
from flowfabric.core.codec import to_json
from flowfabric.core.contracts.failures import FailureDetail, FailureFrame
from flowfabric.worker.attempts.outcomes import bounded

_OURS: Final = str(Path(flowfabric.__file__).parent)
_SOURCE_CHARS: Final = 200
_FILE_CHARS: Final = 200


class _Bounds(NamedTuple):
    """How much of an exception is kept, and of the exceptions behind it."""

    exceptions: int
    frames: int
    text_bytes: int  # of a message or note
    notes: int = 10
    members: int = 10


# From generous to sparse: the first whose document fits is taken.
_TRIES: Final = (
    _Bounds(exceptions=24, frames=30, text_bytes=2_048),
    _Bounds(exceptions=12, frames=16, text_bytes=1_024),
    _Bounds(exceptions=6, frames=10, text_bytes=512, notes=4, members=4),
    _Bounds(exceptions=2, frames=6, text_bytes=256, notes=2, members=1),
    _Bounds(exceptions=1, frames=2, text_bytes=128, notes=0, members=0),
)


def detail_of(error: BaseException) -> FailureDetail | None:
    """The document of an exception, within the limit of the store. None when it cannot be told at all."""
    known = getattr(error, "failure_detail", None)
    if isinstance(known, FailureDetail):  # it came from a handler in another process
        return known
    try:
        for bounds in _TRIES:
            detail = _Teller(bounds).tell(error)
            if len(to_json(detail)) <= limits.FAILURE_DETAIL_MAX_BYTES:
                return detail
    except Exception:
        return None  # an exception class of the user that cannot be read must not fail the report
    return None


class _Teller:
    """Tells one exception and those behind it; each exception once."""

    def __init__(self, bounds: _Bounds) -> None:
        self._bounds = bounds
        self._left = bounds.exceptions
        self._seen: set[int] = set()

    def tell(self, error: BaseException) -> FailureDetail:
        self._seen.add(id(error))
        self._left -= 1
        frames, left_out = self._frames(error.__traceback__)
        cause, context = error.__cause__, error.__context__
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        told = tuple(self._behind(each) for each in members[: self._bounds.members])
        kept = tuple(each for each in told if each is not None)
        return FailureDetail(
            type=_name(error),
            message=self._text(_message(error)),
            notes=tuple(self._text(str(note)) for note in _notes(error)[: self._bounds.notes]),
            frames=frames,
            frames_left_out=left_out,
            members=kept,
            members_left_out=len(members) - len(kept),
            cause=self._behind(cause),
            context=None if cause is not None or error.__suppress_context__ else self._behind(context),
        )

    def _behind(self, error: BaseException | None) -> FailureDetail | None:
        if error is None or self._left <= 0 or id(error) in self._seen:
            return None
        return self.tell(error)

    def _frames(self, trace: TracebackType | None) -> tuple[tuple[FailureFrame, ...], int]:
        """The calls of the user's code, the most recent last; the middle of a long traceback is left out."""
        places = list(_places(trace))
        most = self._bounds.frames
        if len(places) <= most:
            return tuple(map(_frame, places)), 0
        half = most // 2
        return tuple(map(_frame, places[:half] + places[-half:])), len(places) - 2 * half

    def _text(self, text: str) -> str:
        return bounded(text, self._bounds.text_bytes)


class _Place(NamedTuple):
    file: str
    line: int
    function: str


def _places(trace: TracebackType | None) -> Iterator[_Place]:
    """Without calls of this library; with them if there are no others."""
    steps = [(frame.f_code, line) for frame, line in traceback.walk_tb(trace)]
    found = [_Place(code.co_filename, line, code.co_qualname) for code, line in steps]
    return iter([each for each in found if not each.file.startswith(_OURS)] or found[-1:])


def _frame(place: _Place) -> FailureFrame:
    source = linecache.getline(place.file, place.line).strip()
    return FailureFrame(
        file=place.file[-_FILE_CHARS:],
        line=place.line,
        function=place.function[:_FILE_CHARS],
        source=bounded(source[:_SOURCE_CHARS]),
    )


def _name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return bounded(name[:_FILE_CHARS])


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(str() of the exception failed)"


def _notes(error: BaseException) -> list[object]:
    notes = getattr(error, "__notes__", None)
    return list(notes) if isinstance(notes, list | tuple) else []

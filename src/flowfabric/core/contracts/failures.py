"""What an attempt keeps of the exception that ended it: types, messages, notes, causes and source lines.

Local values are never kept: they may be secrets.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from flowfabric.core import codec, limits
from flowfabric.core.contracts.fields import Rule
from flowfabric.errors import InvalidInput

_FEW: Final = msgspec.Meta(max_length=limits.FAILURE_DETAIL_MAX_ITEMS)


class FailureFrame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a traceback."""

    file: str
    line: int
    function: str = ""
    source: str = ""  # the line itself, if the file could be read


class FailureDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception with its notes and traceback, and the exceptions behind it.

    frames: the most recent call last; `frames_left_out` of the middle are missing. cause: the exception that it was
    raised from. context: the one that was being handled when it was raised. members: those of an exception group.
    """

    type: str
    message: str = ""
    notes: Annotated[tuple[str, ...], _FEW] = ()
    frames: Annotated[tuple[FailureFrame, ...], _FEW] = ()
    frames_left_out: int = 0
    cause: FailureDetail | None = None
    context: FailureDetail | None = None
    members: Annotated[tuple[FailureDetail, ...], _FEW] = ()
    members_left_out: int = 0


def _bounded(field: str, value: Any) -> FailureDetail:
    if not isinstance(value, FailureDetail):
        raise InvalidInput(field, type(value).__name__, "must be a FailureDetail")
    size = len(codec.to_json(value))
    if size > limits.FAILURE_DETAIL_MAX_BYTES:
        raise InvalidInput(field, size, f"must have at most {limits.FAILURE_DETAIL_MAX_BYTES} bytes as JSON")
    return value


BoundedFailureDetail: TypeAlias = Annotated[FailureDetail, Rule(_bounded)]


def detail_to_json(detail: FailureDetail | None) -> str | None:
    """As the store keeps it."""
    return None if detail is None else codec.to_json(detail).decode()


def detail_from_json(text: str) -> FailureDetail | None:
    """None for text that is no such document: a worker of another language may keep what it likes."""
    if not text:
        return None
    try:
        return codec.from_json(FailureDetail, text)
    except InvalidInput:
        return None

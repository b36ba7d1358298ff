"""What kind of error a code is, and what a caller should do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Family(StrEnum):
    """The kind of error. Outer layers map families, never codes."""

    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    INVALID = "invalid"
    LIMITED = "limited"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class ErrorClass(StrEnum):
    """What the caller should do after the error."""

    TERMINAL = "terminal"  # stop, do not retry
    RETRYABLE = "retryable"  # retry after a pause, or dispatch again
    COOPERATIVE = "cooperative"  # do as the message says, then stop
    INFORMATIONAL = "informational"  # nothing to do, continue
    BUG = "bug"  # must not happen; alert
    EXPECTED = "expected"  # a normal empty state
    SOFT_ERROR = "soft_error"  # log it, may continue


class CodeInfo(NamedTuple):
    family: Family
    error_class: ErrorClass
    meaning: str

"""What a rule decides: a refusal that changes nothing, or the changes to write.

A rule is a pure function `(record, args, now) -> Refusal | Changes`. Its caller has loaded the record, and writes the
changes in the same atomic step: SQL scripts flush them as rows, the tests' model applies them in memory, and the Lua
library is the second text of the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")


class Line(NamedTuple):
    """One line for the event log."""

    event: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The operation is refused with this code, and nothing is written (G4)."""

    code: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Fields of the record that get a new value, and the lines that the event log gets in the same step."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Line, ...] = ()

    def apply_to(self, record: R) -> R:
        """The record as it is after the step."""
        return replace(record, **self.fields) if self.fields else record  # type: ignore[type-var]

    def __or__(self, other: Changes) -> Changes:
        """These changes followed by those."""
        return Changes({**self.fields, **other.fields}, self.events + other.events)

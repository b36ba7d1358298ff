"""What a rule decides: a refusal that changes nothing, or the changes to write.

A rule is a pure function `(record, args, now) -> Refusal | Changes`. The caller has loaded the record, and writes the
changes in the same atomic step. SQL scripts flush them as rows, the model test applies them in memory, and the Lua
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
    """Fields of the record that get a new value, and the lines that the event log gets in the same step.

    `answer` is what the caller learns beside the changes, where they do not say it: the effect of a signal.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Line, ...] = ()
    answer: Any = None

    def __bool__(self) -> bool:
        """False when nothing is written: the operation had nothing to do."""
        return bool(self.fields or self.events)

    def apply_to(self, record: R) -> R:
        """The record as it is after the step."""
        return replace(record, **self.fields) if self.fields else record  # type: ignore[type-var]

    def __or__(self, other: Changes) -> Changes:
        """These changes followed by those."""
        answer = self.answer if other.answer is None else other.answer
        return Changes({**self.fields, **other.fields}, self.events + other.events, answer)

"""The outcome of a rule: a refusal that changes nothing, or the changes to write.

A rule is a pure function `(record, args, now) -> Refusal | Changes`. The caller has loaded the record, and
writes the changes in the same atomic step. SQL scripts write them as rows, the model test applies them in
memory, and the Lua library implements the same rules a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

R = TypeVar("R")


class Line(NamedTuple):
    """One line of the event log."""

    event: str
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The operation is refused with this code, and nothing is written (G4)."""

    code: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """New values for fields of the record, and events for the log, written in the same step.

    `answer` is the caller's answer where the changes do not determine it: the effect of a signal.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Line, ...] = ()
    answer: Any = None

    def __bool__(self) -> bool:
        """False when the operation had nothing to do and writes nothing."""
        return bool(self.fields or self.events)

    def apply_to(self, record: R) -> R:
        """The record after the step."""
        return replace(record, **self.fields) if self.fields else record  # type: ignore[type-var]

    def __or__(self, other: Changes) -> Changes:
        """These changes followed by `other`."""
        answer = self.answer if other.answer is None else other.answer
        return Changes({**self.fields, **other.fields}, self.events + other.events, answer)

"""Steps that failed and from which the handler went on: recorded, so that later passes of the attempt go the same way.

A failure is recorded ahead of what shows that the handler went on: the record of a step that it came to later, or a
suspension. One that ends the attempt is not recorded, and the step is run again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from flowfabric.client import payloads
from flowfabric.core import contracts as c
from flowfabric.worker.occurrences import Occurrence
from flowfabric.worker.outcomes import Outcome, StepFailed, bounded, spoken

if TYPE_CHECKING:
    from flowfabric.worker.journal import Journal

ENCODING: Final = "failure"  # of these records; the payload is JSON

_ATTRIBUTES_MAX_BYTES: Final = 16_384


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a step raised, and in which attempt."""

    module: str
    qualname: str
    message: str
    attempt_index: int
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)  # those that JSON gives back as they were

    @staticmethod
    def of(error: Exception, attempt_index: int) -> Failure:
        kind = type(error)
        return Failure(
            module=kind.__module__,
            qualname=kind.__qualname__,
            message=bounded(_message(error)),
            attempt_index=attempt_index,
            attributes=_attributes(error),
        )

    def error(self, step: Occurrence) -> Exception:
        """The same again, made without its __init__, whose arguments nobody knows; or what stands in for it."""
        kind = _loaded(self.module, self.qualname)
        if kind is not None:
            with suppress(Exception):  # of a __new__ that wants something else
                error: Exception = kind.__new__(kind, self.message)
                error.args = (self.message,)
                error.__dict__.update(self.attributes)
                return error
        return StepFailed(str(step), f"{self.module}.{self.qualname}", self.message)


class Unrecorded(NamedTuple):
    """A failure of this pass that only the handler knows of."""

    step: Occurrence
    failure: Failure
    digest: str


class Failures:
    """Those of one execution, for one pass of its handler."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._unrecorded: dict[Occurrence, Unrecorded] = {}
        self._succeeded: dict[tuple[str, str], int] = {}  # the last success, by name and digest of the inputs

    def learn(self, records: Iterable[c.StepRecord]) -> None:
        for each in records:
            if each.encoding != ENCODING:
                call = (each.name, each.input_digest)
                self._succeeded[call] = max(each.occurrence, self._succeeded.get(call, 0))

    def counted(self, record: c.StepRecord) -> Failure | None:
        """What a record of a failure says to this attempt, if anything.

        Later attempts try again what failed, unless an earlier one has done so with success: that must not be repeated.
        """
        failure = msgspec.json.decode(record.payload, type=Failure)
        if failure.attempt_index == self._journal.attempt.attempt_index:
            return failure
        tried_again = self._succeeded.get((record.name, record.input_digest), -1) > record.occurrence
        return failure if tried_again else None

    def note(self, step: Occurrence, digest: str, error: Exception) -> None:
        """A step has raised it; what is said to the worker on purpose is no failure."""
        if not isinstance(spoken(error), Outcome):
            failure = Failure.of(error, self._journal.attempt.attempt_index)
            self._unrecorded[step] = Unrecorded(step, failure, digest)

    @property
    def unrecorded(self) -> Sequence[Unrecorded]:
        """Those that were raised so far."""
        return tuple(self._unrecorded.values())

    async def keep(self, failures: Sequence[Unrecorded]) -> None:
        """Record them; a step beside this one may have done so."""
        for each in failures:
            if each.step in self._unrecorded:
                await self._journal.record_failure(each.step, payloads.to_json(each.failure), each.digest)
                self._unrecorded.pop(each.step, None)

    async def keep_all(self) -> None:
        await self.keep(self.unrecorded)


def _message(error: Exception) -> str:
    if len(error.args) == 1 and isinstance(error.args[0], str):
        return error.args[0]
    try:
        return str(error)
    except Exception:
        return "(its message cannot be made)"


def _attributes(error: Exception) -> dict[str, Any]:
    """A status, a code and the like, for handlers that look at them. Too much of it is left out."""
    found = {name: value for name, value in vars(error).items() if _survives(value)}
    return found if len(msgspec.json.encode(found)) <= _ATTRIBUTES_MAX_BYTES else {}


def _survives(value: object) -> bool:
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except payloads.UNWRITABLE:
        return False


def _loaded(module: str, qualname: str) -> type[Exception] | None:
    """The class of that name, if its module is loaded; nothing is imported for it."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None

"""Failed steps that the handler recovered from: every later pass of the attempt gets the same failures.

They are recorded before a suspension, with the number of their step. A later pass raises them again before it uses the
record of the step or runs it. A failure that ends the attempt is not recorded, and failures of earlier attempts do not
count, so a retry runs the step again. A mark, which is recorded before the next step, tells that retry that the steps
after it may be those of another way.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from flowfabric.client.tasks import payloads
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.worker.attempts.outcomes import Outcome, StepFailed, bounded, spoken
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.durable.step_output import Kept, StepRun

if TYPE_CHECKING:
    from flowfabric.worker.durable.journal import Journal

FAILED_STEPS: Final = "ff:failed:"  # followed by the name of the step

_ATTRIBUTES_MAX_BYTES: Final = 16_384

Key: TypeAlias = tuple[str, int]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An exception that a step raised."""

    module: str
    qualname: str
    message: str
    attributes: dict[str, Any] = msgspec.field(default_factory=dict)  # those that survive a JSON round trip
    kept: Kept = Kept()  # what the step emitted before

    @staticmethod
    def of(error: Exception, kept: Kept) -> Failure:
        kind = type(error)
        return Failure(
            module=kind.__module__,
            qualname=kind.__qualname__,
            message=bounded(_message(error)),
            attributes=_attributes(error),
            kept=kept,
        )

    def error(self, step: Occurrence) -> Exception:
        """The same exception, made without its __init__, whose arguments are unknown; or else StepFailed."""
        kind = _loaded(self.module, self.qualname)
        if kind is not None:
            with suppress(Exception):  # __new__ may need other arguments
                error: Exception = kind.__new__(kind, self.message)
                error.args = (self.message,)
                error.__dict__.update(self.attributes)
                return error
        return StepFailed(str(step), f"{self.module}.{self.qualname}", self.message)


class Met(msgspec.Struct, kw_only=True):
    """The failures of one step in one attempt, in order; if they are too many, only the first ones."""

    attempt_index: int
    failures: list[Failure] = msgspec.field(default_factory=list)

    def to_json(self) -> bytes:
        """As many failures as fit in a record."""
        count = len(self.failures)
        while len(kept := payloads.to_json(Met(attempt_index=self.attempt_index, failures=self.failures[:count]))) > (
            limits.STEP_RESULT_MAX_BYTES
        ):
            count //= 2
        return kept


class Failures:
    """The failed steps of one execution, for one pass of its handler."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._earlier: dict[Key, tuple[str, Met]] = {}  # of earlier passes, with the digest of the step's inputs
        self._met: defaultdict[Key, list[Failure]] = defaultdict(list)  # in this pass
        self._unrecorded: dict[Key, str] = {}  # steps with failures that are not recorded
        self._unmarked: dict[Key, str] = {}  # those whose failure has left no trace at all
        self._leads_elsewhere = False

    def learn(self, records: Iterable[c.StepRecord]) -> None:
        for each in records:
            if each.name.startswith(FAILED_STEPS):
                met = msgspec.json.decode(each.payload, type=Met)
                self._earlier[each.name.removeprefix(FAILED_STEPS), each.occurrence] = (each.input_digest, met)

    async def raise_next(self, step: Occurrence, digest: str, was: str | None) -> None:
        """Raise the next failure that an earlier pass of this attempt had here; other inputs make it another step."""
        key = (step.name, step.number)
        recorded, met = self._earlier.get(key) or self._earlier.get((was or "", step.number)) or ("", None)
        if met is None or met.attempt_index != self._journal.attempt.attempt_index:
            return
        if recorded and digest and recorded != digest:
            return
        seen = self._met[key]
        if len(seen) < len(met.failures):
            failure = met.failures[len(seen)]
            seen.append(failure)
            await self._journal.outputs.show(failure.kept)
            raise failure.error(step)

    def leads_elsewhere(self, step: Occurrence) -> bool:
        """Whether a failed step was run again: the steps recorded after it may not apply any more."""
        self._leads_elsewhere = self._leads_elsewhere or (step.name, step.number) in self._earlier
        return self._leads_elsewhere

    @property
    def led_elsewhere(self) -> bool:
        return self._leads_elsewhere

    def note_break(self, step: Occurrence, digest: str) -> None:
        """Note that a step was broken off: a later pass runs it, and may take another way then."""
        self._unmarked[step.name, step.number] = digest

    def note(self, step: Occurrence, digest: str, error: Exception, run: StepRun) -> None:
        """Note a failure of a step; an outcome such as Retry is not a failure."""
        if not isinstance(spoken(error), Outcome):
            key = (step.name, step.number)
            self._met[key].append(Failure.of(error, run.kept(is_taken=False)))
            self._unrecorded[key] = self._unmarked[key] = digest

    async def mark(self, step: Occurrence) -> None:
        """Before this step is recorded, mark the others that failed, without what later passes would raise."""
        self._unmarked.pop((step.name, step.number), None)
        for key, digest in list(self._unmarked.items()):
            _, known = self._earlier.get(key, ("", None))
            met = known or Met(attempt_index=self._journal.attempt.attempt_index)
            await self._journal.keep_json(FAILED_STEPS + key[0], key[1], met.to_json(), digest)
            self._unmarked.pop(key, None)

    async def keep(self) -> None:
        """Record the failures of this pass."""
        for key, digest in list(self._unrecorded.items()):
            name, number = key
            met = Met(attempt_index=self._journal.attempt.attempt_index, failures=self._met[key])
            await self._journal.keep_json(FAILED_STEPS + name, number, met.to_json(), digest)
            self._unrecorded.pop(key, None)
            self._unmarked.pop(key, None)


def _message(error: Exception) -> str:
    if len(error.args) == 1 and isinstance(error.args[0], str):
        return error.args[0]
    try:
        return str(error)
    except Exception:
        return "(str() of the exception failed)"


def _attributes(error: Exception) -> dict[str, Any]:
    """Attributes such as a status or a code, for handlers that read them; none if they are too large."""
    found = {name: value for name, value in vars(error).items() if _survives(value)}
    return found if len(msgspec.json.encode(found)) <= _ATTRIBUTES_MAX_BYTES else {}


def _survives(value: object) -> bool:
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except payloads.UNWRITABLE:
        return False


def _loaded(module: str, qualname: str) -> type[Exception] | None:
    """The class of that name, if its module is loaded; nothing is imported."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None

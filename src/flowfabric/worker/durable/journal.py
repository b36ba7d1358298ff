"""What a handler has done already, for one pass through it: the recorded steps of its execution, and its latest wait.

It is read at the first use. A first attempt that was never interrupted has nothing to read; one that goes on was told
of its latest wait when it was claimed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from flowfabric.client.tasks.options import ChangedSteps, changed_steps
from flowfabric.client.tasks.payloads import ENCODING
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import to_json
from flowfabric.core.forms import FORM_STEPS, WaitForm
from flowfabric.core.ids import WaitpointId, WaitpointKey
from flowfabric.core.states import AttemptType
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.worker.attempts.attempt import Attempt, stop_for
from flowfabric.worker.attempts.outcomes import Interrupted
from flowfabric.worker.durable.failed_steps import Failures
from flowfabric.worker.durable.occurrences import Gate, Occurrence, Occurrences
from flowfabric.worker.durable.signals import WaitEnd, Waitpoint

if TYPE_CHECKING:
    from flowfabric.worker.context.services import Services

T = TypeVar("T")

RESERVED: Final = "ff:"  # names of records that are no steps of the user begin with it
CHANGED_STEPS_TAG: Final = "flowfabric.changed_steps"

_PACKED: Final = "msgpack"
_PAGE: Final = limits.SCAN_LIMIT_MAX
# After one of these the store takes nothing more from the attempt.
_LOST: Final = frozenset(
    {"stale_lease", "lease_expired", "lease_revoked", "execution_not_active", "no_active_lease", "execution_not_found"}
)

# Whose step is being run: what a step does is recorded as a whole, so it cannot have records of its own.
_running: Final[ContextVar[Journal | None]] = ContextVar("flowfabric_step", default=None)


def is_in_step(journal: Journal) -> bool:
    return _running.get() is journal


class LatestWait(NamedTuple):
    """The wait that a handler had last, in whichever pass; the store keeps one, so it is recorded before the next."""

    pointer: str
    end: WaitEnd


class Journal:
    """The records of one execution, as one pass of its handler reads and adds to them."""

    def __init__(self, attempt: Attempt, services: Services) -> None:
        self.attempt = attempt
        self.services = services
        self.gate = Gate()
        self.waitpoints: dict[WaitpointKey, Waitpoint] = {}  # that were made, the last one of each key
        self.making: set[str | None] = set()  # the keys of those that are being made
        self.used: set[WaitpointId] = set()  # those that were waited at
        self._latest: LatestWait | None = None
        self._ends: dict[str, WaitEnd] = {}  # of those that were the latest, by pointer
        self._occurrences = Occurrences()
        self._called: set[tuple[str, int]] = set()
        self._records: dict[tuple[str, int], c.StepRecord] = {}
        self._steps: list[tuple[str, int]] = []  # those of the user, in the order of recording
        self._is_loaded = attempt.work.attempt_type is AttemptType.INITIAL
        self._loading = asyncio.Lock()
        self._choice: ChangedSteps | None = None
        self.failures = Failures(self)
        self.keepers: list[Callable[[], Awaitable[None]]] = [self.failures.keep]  # of what else a later pass must find
        if told := attempt.work.resumption:
            self._learn(told.latest, told.latest.signals)
            self._is_loaded = told.step_count == 0

    def check(self, what: str) -> None:
        """Refuse to go on when the attempt is over, and in the middle of a step."""
        self.attempt.check()
        if is_in_step(self):
            raise InvalidInput(what, "inside a step", "must be called by the handler: a step is recorded as a whole")

    @contextmanager
    def running_step(self) -> Iterator[None]:
        before = _running.get()
        _running.set(self)
        try:
            yield
        finally:
            _running.set(before)

    # Which one it is.

    def take(self, name: str, like: object = None, was: str | None = None) -> Occurrence:
        """The next one of this name; `was` is a name that it may have been recorded under."""
        taken = self._occurrences.take(name, like)
        self._called.add((name, taken.number))
        if was is not None:
            self._called.add((was, taken.number))
        return taken

    def give_back(self, occurrence: Occurrence) -> None:
        self._occurrences.give_back(occurrence)

    def find(self, occurrence: Occurrence, was: str | None = None) -> c.StepRecord | None:
        """Its record, if an earlier pass made one; there may be one under an older name."""
        names = (occurrence.name,) if was is None else (occurrence.name, was)
        return next((found for name in names if (found := self._records.get((name, occurrence.number)))), None)

    def left_over(self) -> str | None:
        """The next step that an earlier pass recorded after all those that this one has come to."""
        later = None
        for key in reversed(self._steps):
            if key in self._called:
                break
            later = key[0]
        return later

    @property
    def open_waitpoints(self) -> dict[WaitpointKey, Waitpoint]:
        """Those that can still be waited at, as far as this pass knows."""
        return {key: made for key, made in self.waitpoints.items() if made.id not in self.used}

    # Reading.

    async def loaded(self) -> None:
        if self._is_loaded:
            return
        async with self._loading:
            if not self._is_loaded:
                await self._load()
                self._steps = [key for key in self._records if not key[0].startswith(RESERVED)]
                self.failures.learn(self._records.values())
                self._is_loaded = True

    async def _load(self) -> None:
        if self.attempt.work.resumption is None:
            self._records, _ = await asyncio.gather(self._read_records(), self.read_latest())
        else:
            self._records = await self._read_records()

    async def _read_records(self) -> dict[tuple[str, int], c.StepRecord]:
        found: dict[tuple[str, int], c.StepRecord] = {}
        cursor: int | None = 0
        while cursor is not None:
            args = c.ReadStepsArgs(execution_id=self.attempt.execution_id, cursor=cursor, limit=_PAGE)
            page = await self.ask(self.services.backend.read_steps(args))
            found.update(((each.name, each.occurrence), each) for each in page.steps)
            cursor = page.next_cursor
        return found

    async def read_latest(self) -> None:
        """Learn of the latest wait, if it was a handler's and has ended."""
        signals: list[c.ResumeSignal] = []
        args = c.ListResumeSignalsArgs(execution_id=self.attempt.execution_id, limit=_PAGE)
        while True:
            page = await self.ask(self.services.backend.list_resume_signals(args))
            signals += page.signals
            if page.next_cursor is None:
                break
            args = c.ListResumeSignalsArgs(execution_id=args.execution_id, limit=_PAGE, after=page.next_cursor)
        self._learn(page, signals)

    def _learn(self, page: c.ListResumeSignalsPage, signals: Sequence[c.ResumeSignal]) -> None:
        if page.continuation_metadata_pointer is not None and page.close_reason is not None:
            end = WaitEnd(page.close_reason, tuple(signals))
            self._latest = LatestWait(page.continuation_metadata_pointer, end)
            self._ends[self._latest.pointer] = end

    def end_of(self, wait: Occurrence) -> WaitEnd | None:
        """How a wait of this execution ended, if it has: as it was recorded, or as the store has it of the latest."""
        pointer = str(wait)
        if pieces := self._pieces(pointer):
            return WaitEnd.joined(pieces)
        return self._ends.get(pointer)

    def _pieces(self, pointer: str) -> list[bytes]:
        found: list[bytes] = []
        while record := self._records.get((RESERVED + pointer, len(found))):
            found.append(record.payload)
        return found

    async def changed_steps(self) -> ChangedSteps:
        """What to do about a step that has changed: the execution's own choice, else the task's."""
        if self._choice is None:
            snapshot = await self.ask(self.services.backend.describe_execution(self.attempt.execution_id))
            tag = snapshot.tags.get(CHANGED_STEPS_TAG) if snapshot else None
            self._choice = changed_steps(CHANGED_STEPS_TAG, tag) if tag else self.attempt.handler.changed_steps
        return self._choice

    # Recording.

    async def once(self, what: str, name: str, make: Callable[[Occurrence], Awaitable[bytes]]) -> bytes:
        """What `make` gave to the pass that came here first."""
        self.check(f"ctx.{what}")
        taken = self.take(RESERVED + name)
        try:
            await self.loaded()
            if record := self.find(taken):
                return record.payload
            async with self.gate.beside():
                self.attempt.check()
                return await self.record(taken, await make(taken))
        except BaseException:
            self.give_back(taken)
            raise

    async def record(self, step: Occurrence, payload: bytes, *, digest: str = "", replace: bool = False) -> bytes:
        """Record a result as JSON; answers what counts from now on, which may have been recorded before."""
        return await self._record(step.name, step.number, payload, ENCODING, digest, replace)

    async def keep(self) -> None:
        """Record what the next pass cannot learn otherwise, ahead of a suspension."""
        for keep in (self._keep_latest, *self.keepers):
            await keep()

    async def keep_packed(self, name: str, number: int, payload: bytes) -> None:
        """Record something that is no step, in place of what was recorded before."""
        await self._record(name, number, payload, _PACKED, replace=True)

    async def keep_json(self, name: str, number: int, payload: bytes, digest: str = "") -> None:
        """The same of what is JSON."""
        await self._record(name, number, payload, ENCODING, digest, replace=True)

    async def _keep_latest(self) -> None:
        """How the latest wait ended. The first piece goes last: with it, all are there."""
        latest = self._latest
        if latest is None or self._pieces(latest.pointer):
            return
        for number, piece in reversed(list(enumerate(latest.end.pieces()))):
            await self._record(RESERVED + latest.pointer, number, piece, _PACKED)

    async def keep_form(self, wait: Occurrence, form: WaitForm) -> None:
        """Record what a person is asked, ahead of the wait; the latest pass knows best."""
        await self.keep_json(FORM_STEPS + wait.name, wait.number, to_json(form))

    async def _record(
        self, name: str, number: int, payload: bytes, encoding: str, digest: str = "", replace: bool = False
    ) -> bytes:
        args = c.RecordStepArgs(
            execution_id=self.attempt.execution_id,
            fence=self.attempt.fence,
            step=c.StepKey(name=name, occurrence=number),
            payload=payload,
            encoding=encoding,
            input_digest=digest,
            replace=replace,
        )
        result = await self.ask(self.services.tasks.see_through(lambda: self.services.backend.record_step(args)))
        return result.result.payload if isinstance(result, c.StepAlreadyRecorded) else payload

    async def ask(self, call: Coroutine[Any, Any, T]) -> T:
        """A call of this attempt. A refusal that means that its lease is gone ends the attempt."""
        try:
            return await call
        except FlowFabricError as refusal:
            if refusal.code not in _LOST:
                raise
            self.services.stopper.lose(self.attempt, stop_for(refusal))
            raise Interrupted(f"{self.attempt.execution_id}: {refusal}") from refusal

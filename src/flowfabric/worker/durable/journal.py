"""The journal of an execution for one pass of its handler: its recorded steps, and its latest wait.

It is read at the first use. An initial attempt has nothing to read; a resumed attempt got its latest wait with the
claim.
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
from flowfabric.core.ids import WaitpointId, WaitpointKey
from flowfabric.core.states import AttemptType
from flowfabric.errors import FlowFabricError, InvalidInput
from flowfabric.worker.attempts.attempt import Attempt, stop_for
from flowfabric.worker.attempts.outcomes import Interrupted
from flowfabric.worker.durable.failed_steps import Failures
from flowfabric.worker.durable.occurrences import Gate, Occurrence, Occurrences
from flowfabric.worker.durable.signals import WaitEnd, Waitpoint
from flowfabric.worker.durable.step_output import Outputs, StepRun

if TYPE_CHECKING:
    from flowfabric.worker.context.services import Services

T = TypeVar("T")

RESERVED: Final = "ff:"  # prefix of records that are not steps of the user
CHANGED_STEPS_TAG: Final = "flowfabric.changed_steps"

_PACKED: Final = "msgpack"
_PAGE: Final = limits.SCAN_LIMIT_MAX
_FEW: Final = 4
# After one of these errors the store refuses every call of the attempt.
_LOST: Final = frozenset(
    {"stale_lease", "lease_expired", "lease_revoked", "execution_not_active", "no_active_lease", "execution_not_found"}
)

# The step that is running: a step is recorded as a whole, so it cannot contain other records.
_running: Final[ContextVar[StepRun | None]] = ContextVar("flowfabric_step", default=None)


def running_step(journal: Journal) -> StepRun | None:
    """The step of this journal that the caller is in."""
    run = _running.get()
    return run if run is not None and run.journal is journal else None


def is_in_step(journal: Journal) -> bool:
    return running_step(journal) is not None


class LatestWait(NamedTuple):
    """The latest wait of any pass. The store keeps only one, so it is recorded before the next wait."""

    pointer: str
    end: WaitEnd


class Journal:
    """The records of one execution, read and extended by one pass of its handler."""

    def __init__(self, attempt: Attempt, services: Services) -> None:
        self.attempt = attempt
        self.services = services
        self.gate = Gate()
        self.waitpoints: dict[WaitpointKey, Waitpoint] = {}  # made by this execution, the last one of each key
        self.making: set[str | None] = set()  # keys of waitpoints that are being made
        self.used: set[WaitpointId] = set()  # waitpoints that were waited on
        self._latest: LatestWait | None = None
        self._ends: dict[str, WaitEnd] = {}  # by pointer, of waits that were the latest
        self._occurrences = Occurrences()
        self._called: set[tuple[str, int]] = set()
        self._records: dict[tuple[str, int], c.StepRecord] = {}
        self._steps: list[tuple[str, int]] = []  # steps of the user, in the order of recording
        self.left_wait: str | None = None  # the pointer of the last wait that this pass has left behind
        self.fresh: list[str] = []  # steps of this pass that had no record
        self._is_loaded = attempt.work.attempt_type is AttemptType.INITIAL
        self._loading = asyncio.Lock()
        self._choice: ChangedSteps | None = None
        self.failures = Failures(self)
        self.outputs = Outputs(self)
        self.keepers: list[Callable[[], Awaitable[None]]] = [self.failures.keep]  # record what a later pass must find
        if told := attempt.work.resumption:
            self._learn(told.latest, told.latest.signals)
            self._is_loaded = told.step_count == 0

    def check(self, what: str) -> None:
        """Raise if the attempt is over, or inside a step."""
        self.attempt.check()
        if is_in_step(self):
            raise InvalidInput(what, "inside a step", "must be called by the handler: a step is recorded as a whole")

    @contextmanager
    def running(self, run: StepRun) -> Iterator[None]:
        before = _running.get()
        _running.set(run)
        try:
            yield
        finally:
            run.is_over = True
            _running.set(before)

    # Occurrences.

    def take(self, name: str, like: object = None, was: str | None = None) -> Occurrence:
        """The next occurrence of this name; it may be recorded under the older name `was`."""
        taken = self._occurrences.take(name, like)
        self._called.add((name, taken.number))
        if was is not None:
            self._called.add((was, taken.number))
        return taken

    def give_back(self, occurrence: Occurrence) -> None:
        self._occurrences.give_back(occurrence)

    def find(self, occurrence: Occurrence, was: str | None = None) -> c.StepRecord | None:
        """The record of an earlier pass, under its name or the older name."""
        names = (occurrence.name,) if was is None else (occurrence.name, was)
        return next((found for name in names if (found := self._records.get((name, occurrence.number)))), None)

    def missed(self) -> list[tuple[str, int]]:
        """The recorded steps that this pass has not asked for, in the order of recording."""
        return [key for key in self._steps if key not in self._called]

    def recorded(self, key: tuple[str, int]) -> c.StepRecord:
        return self._records[key]

    def asked_names(self) -> set[str]:
        return {name for name, _ in self._called}

    def left_over(self) -> str | None:
        """The first recorded step after all steps that this pass has reached."""
        later = None
        for key in reversed(self._steps):
            if key in self._called:
                break
            later = key[0]
        return later

    @property
    def open_waitpoints(self) -> dict[WaitpointKey, Waitpoint]:
        """Waitpoints that can still be waited on, as far as this pass knows."""
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
                self.outputs.learn(self._records.values())
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

    async def has_steps(self) -> bool:
        """Whether steps may be recorded, for a handler that has not used the journal: one short read."""
        args = c.ReadStepsArgs(execution_id=self.attempt.execution_id, limit=_FEW)
        page = await self.ask(self.services.backend.read_steps(args))
        return page.next_cursor is not None or any(not each.name.startswith(RESERVED) for each in page.steps)

    async def read_latest(self) -> None:
        """Read the latest wait, if a handler made it and it has ended."""
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
        """How a wait of this execution ended, from its record or, for the latest wait, from the store."""
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
        """How to treat a changed step: the execution's choice, else the task's."""
        if self._choice is None:
            snapshot = await self.ask(self.services.backend.describe_execution(self.attempt.execution_id))
            tag = snapshot.tags.get(CHANGED_STEPS_TAG) if snapshot else None
            self._choice = changed_steps(CHANGED_STEPS_TAG, tag) if tag else self.attempt.handler.changed_steps
        return self._choice

    # Recording.

    async def once(self, what: str, name: str, make: Callable[[Occurrence], Awaitable[bytes]]) -> bytes:
        """The recorded result of `make`, which only the first pass calls."""
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
        """Record a result as JSON. Returns the result that counts, which may be an earlier record."""
        return await self._record(step.name, step.number, payload, ENCODING, digest, replace)

    async def keep(self) -> None:
        """Before a suspension, record what the next pass cannot learn otherwise."""
        await self._keep_latest()
        await self.keep_rest()

    async def keep_rest(self) -> None:
        """The same without the end of the latest wait, which continues."""
        for keep in self.keepers:
            await keep()

    def may_go_on(self, wait: Occurrence) -> bool:
        """Whether a wait that has ended can be continued: it is the latest one, and nothing was recorded after it."""
        latest = self._latest
        return latest is not None and latest.pointer == str(wait) and not self._pieces(latest.pointer)

    def forget_latest(self) -> None:
        """The latest wait continues."""
        if self._latest is not None:
            del self._ends[self._latest.pointer]
            self._latest = None

    async def keep_packed(self, name: str, number: int, payload: bytes) -> None:
        """Record something that is not a step; replaces an earlier record."""
        await self._record(name, number, payload, _PACKED, replace=True)

    async def keep_json(self, name: str, number: int, payload: bytes, digest: str = "") -> None:
        """Like keep_packed, for JSON."""
        await self._record(name, number, payload, ENCODING, digest, replace=True)

    async def _keep_latest(self) -> None:
        """Record how the latest wait ended. The first piece goes last: if it exists, all pieces exist."""
        latest = self._latest
        if latest is None or self._pieces(latest.pointer):
            return
        for number, piece in reversed(list(enumerate(latest.end.pieces()))):
            await self._record(RESERVED + latest.pointer, number, piece, _PACKED)

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
        """Make a call of this attempt. If the store says that the lease is gone, the attempt is over."""
        try:
            return await call
        except FlowFabricError as refusal:
            if refusal.code not in _LOST:
                raise
            self.services.stopper.lose(self.attempt, stop_for(refusal))
            raise Interrupted(f"{self.attempt.execution_id.short}: {refusal}") from refusal

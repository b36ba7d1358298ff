"""What steps emit: frames inside a step belong to it, and stay when a later pass skips the step.

The frames of a step name the run that emitted them. They are in the store before the step is recorded, beside a record
of where they are. A pass that skips the step emits a mark that refers to them, and applies the summary patches of the
step again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr, replace

from flowfabric.client import frame_values
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts.frame_marks import PATCH, STEP, StepOutput
from flowfabric.core.rules import merge_patch
from flowfabric.errors import FlowFabricError
from flowfabric.worker.durable.occurrences import Occurrence
from flowfabric.worker.reporting.outgoing_frames import StepSpan, frames_taken

if TYPE_CHECKING:
    from flowfabric.worker.durable.journal import Journal

OUTPUT_STEPS: Final = "ff:output:"  # followed by the name of the step

_logger: Final = logging.getLogger("flowfabric.worker")
_PATCHES_MAX_BYTES: Final = limits.STEP_RESULT_MAX_BYTES - 4_096

Key: TypeAlias = tuple[str, int]


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a step's output, also inside the record of a failed step."""

    output: StepOutput | None = None
    patches: tuple[msgspec.Raw, ...] = ()  # of the summary


class StepRun:
    """One run of a step, and what it has emitted."""

    __slots__ = ("_attempt", "_patches", "has_output", "is_over", "journal", "label")

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal = journal
        self._attempt = journal.attempt
        self.label = f"{journal.attempt.fence.lease_epoch}.{number}"  # lease epochs of an execution only grow
        self.has_output = False
        self.is_over = False
        self._patches: list[dict[str, Any]] = []

    def emits(self, frame: c.Frame) -> None:
        """Name the run in the frame. A task that outlives its step emits for the handler."""
        if self.is_over:
            return
        self.has_output = True
        if self._attempt.step_spans is None:
            self._attempt.step_spans = {}
        force_setattr(frame, "step_run", self.label)
        if frame.mode is c.StreamMode.SUMMARY:
            self._add_patch(msgspec.json.decode(frame.payload))

    def _add_patch(self, patch: dict[str, Any]) -> None:
        joined = merge_patch.joined(self._patches[-1], patch) if self._patches else None
        if joined is not None and len(msgspec.json.encode(joined)) <= limits.FRAME_PAYLOAD_MAX_BYTES:
            self._patches[-1] = joined
        else:
            self._patches.append(patch)

    def kept(self, *, is_taken: bool) -> Kept:
        """Where its output is. The last frame is known once the store has taken all of them."""
        if not self.has_output:
            return Kept()
        attempt = self._attempt
        span = (attempt.step_spans or {}).get(self.label) or StepSpan(None)
        output = StepOutput(
            execution_id=str.__str__(attempt.execution_id),
            attempt_index=attempt.attempt_index,
            run=self.label,
            first_id=span.first_id,
            last_id=span.last_id if is_taken else None,
            count=span.frames if is_taken else 0,
        )
        return Kept(output=output, patches=self._bounded_patches())

    def _bounded_patches(self) -> tuple[msgspec.Raw, ...]:
        encoded = [msgspec.json.encode(patch) for patch in self._patches]
        if sum(map(len, encoded)) > _PATCHES_MAX_BYTES:
            _logger.warning("%s: the summary patches of a step are too large to keep", self._attempt.execution_id.short)
            return ()
        return tuple(map(msgspec.Raw, encoded))


class Outputs:
    """What the recorded steps of one execution have emitted, for one pass of its handler."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._recorded: dict[Key, Kept] = {}
        self._runs = 0

    def learn(self, records: Iterable[c.StepRecord]) -> None:
        for each in records:
            if each.name.startswith(OUTPUT_STEPS):
                kept = msgspec.json.decode(each.payload, type=Kept)
                self._recorded[each.name.removeprefix(OUTPUT_STEPS), each.occurrence] = kept

    def begin(self) -> StepRun:
        self._runs += 1
        return StepRun(self._journal, self._runs)

    def must_keep(self, step: Occurrence, run: StepRun) -> bool:
        """Whether the run emitted something, or an earlier run did whose output no longer counts."""
        return run.has_output or (step.name, step.number) in self._recorded

    async def keep(self, step: Occurrence, run: StepRun) -> None:
        """Record the output of a run, before its step is recorded. The store has all of its frames then."""
        with suppress(FlowFabricError):  # refused frames fail the attempt at its end
            await frames_taken(self._journal.attempt)
        await self._journal.keep_json(
            OUTPUT_STEPS + step.name, step.number, msgspec.json.encode(run.kept(is_taken=True))
        )

    async def show_recorded(self, record: c.StepRecord) -> None:
        """This pass skips the step: its output belongs here."""
        if kept := self._recorded.get((record.name, record.occurrence)):
            await self.show(kept)

    async def show(self, kept: Kept) -> None:
        if kept.output is None:
            return
        attempt = self._journal.attempt
        is_own = kept.output.execution_id == str.__str__(attempt.execution_id)
        mark = replace(kept.output, execution_id="") if is_own else kept.output
        frames = [c.Frame(frame_type=STEP, payload=b"", metadata_json=msgspec.json.encode(mark).decode())]
        for patch in kept.patches:
            summary = c.Frame(frame_type=PATCH, payload=bytes(patch), encoding=frame_values.JSON, mode=_SUMMARY)
            frames.append(summary)
        for frame in frames:
            await self._journal.services.frames.emit(attempt, frame)


_SUMMARY: Final = c.StreamMode.SUMMARY

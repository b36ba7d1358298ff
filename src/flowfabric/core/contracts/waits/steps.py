"""Durable steps: results recorded once per execution, so that a handler that runs again does not redo them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, Encoding, Outcome, Rule, ScanLimit
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.ids import ExecutionId

StepName: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 1, limits.STEP_NAME_MAX_BYTES))
]
InputDigest: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 0, limits.STEP_INPUT_DIGEST_MAX_BYTES))
]
StepPayload: TypeAlias = Annotated[
    bytes, Rule(lambda field, value: limits.payload(field, value, limits.STEP_RESULT_MAX_BYTES))
]
Occurrence: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_STEPS - 1)]
StepCursor: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_STEPS)]


class StepKey(Checked, frozen=True, kw_only=True):
    """A step of an execution: its name, and how many steps of that name came before it."""

    name: StepName
    occurrence: Occurrence = 0


class RecordStepArgs(Checked, frozen=True, kw_only=True):
    """The owner records the result of a step; the first result stays unless `replace` is set.

    The digest of its inputs is stored beside the result, so that a later run can detect a changed step.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    step: StepKey
    payload: StepPayload
    encoding: Encoding | None = None
    input_digest: InputDigest = ""
    replace: bool = False  # the step was run again on purpose; it keeps its position


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded step with its result."""

    name: str
    occurrence: int
    payload: bytes
    encoding: str | None = None
    input_digest: str = ""

    @property
    def key(self) -> StepKey:
        return StepKey(name=self.name, occurrence=self.occurrence)


class StepRecorded(Outcome, frozen=True, kw_only=True, tag="recorded"):
    """The result was recorded."""


class StepAlreadyRecorded(Outcome, frozen=True, kw_only=True, tag="already_recorded"):
    """The step already has this result; nothing changed."""

    result: StepRecord


RecordStepResult: TypeAlias = StepRecorded | StepAlreadyRecorded


class ReadStepsArgs(Checked, frozen=True, kw_only=True):
    """The recorded steps of an execution, in the order of recording, after the first `cursor` of them."""

    execution_id: ExecutionId
    cursor: StepCursor = 0
    limit: ScanLimit = 100


class ReadStepsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of steps; the cursor is None on the last page.

    A page of large results has fewer steps than requested: it holds about one mebibyte.
    """

    steps: tuple[StepRecord, ...] = ()
    next_cursor: int | None = None

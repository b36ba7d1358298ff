"""Durable steps: results that are recorded once per execution, so that a handler that runs again does not redo them."""

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
    """Which step of an execution: its name, and how many of that name the handler had come to before."""

    name: StepName
    occurrence: Occurrence = 0


class RecordStepArgs(Checked, frozen=True, kw_only=True):
    """The owner records what a step gave; the first record of a step stays, unless it is to be replaced.

    The digest of its inputs is kept beside the result: it tells a later pass whether it is still the same step.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    step: StepKey
    payload: StepPayload
    encoding: Encoding | None = None
    input_digest: InputDigest = ""
    replace: bool = False  # a step that was run again on purpose; it keeps its place in the order


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded step, with its result as it was given."""

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
    """Some steps and where to go on; None when there are no more.

    A page has fewer steps than asked for when their results are large: about a mebibyte is enough for one.
    """

    steps: tuple[StepRecord, ...] = ()
    next_cursor: int | None = None

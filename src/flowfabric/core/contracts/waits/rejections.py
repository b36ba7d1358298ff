"""Rejections: signals that do not fit the type that their wait declares, though they met its condition."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.fields import Checked, Rule
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.contracts.waits.suspension import SuspendExecutionResult
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import ExecutionId, SignalId, SuspensionId
from flowfabric.errors import InvalidInput

Problem: TypeAlias = Annotated[str, Rule(lambda field, value: limits.text(field, value, 1, limits.REJECTION_MAX_BYTES))]


class RejectedSignal(Checked, frozen=True, kw_only=True):
    """A signal of the last wait, and what is wrong with it, for the event log."""

    signal_id: SignalId
    problem: Problem


def _rejected(field: str, value: object) -> tuple[RejectedSignal, ...]:
    if not isinstance(value, tuple | list) or not value or not all(isinstance(each, RejectedSignal) for each in value):
        raise InvalidInput(field, value, "must be a list of at least one RejectedSignal")
    return tuple(value)


Rejected: TypeAlias = Annotated[
    tuple[RejectedSignal, ...], msgspec.Meta(max_length=limits.SCAN_LIMIT_MAX), Rule(_rejected)
]


class RejectSignalsArgs(Checked, frozen=True, kw_only=True):
    """The owner rejects signals that ended its last wait, and waits on: active -> suspended.

    The wait keeps its waitpoints with their tokens, its condition and its timeout; the other signals still count, and
    may meet the condition at once. Repeating the call with its suspension id returns the first answer.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    suspension_id: SuspensionId  # a new one
    rejected: Rejected
    form: WaitForm | None = None  # replaces the form of the wait


RejectSignalsResult: TypeAlias = SuspendExecutionResult

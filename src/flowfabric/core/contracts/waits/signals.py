"""Signals: deliver them to suspended executions, and read the signals that resumed one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.conditions import signal_name
from flowfabric.core.contracts.fields import Checked, DurationMs, Encoding, IdempotencyKey, Outcome, Rule, ScanLimit
from flowfabric.core.ids import (
    AttemptIndex,
    ExecutionId,
    SignalId,
    SuspensionId,
    TimestampMs,
    WaitpointId,
    WaitpointKey,
    WaitpointToken,
)

SignalName: TypeAlias = Annotated[str, Rule(signal_name)]
SignalLabel: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 0, limits.SIGNAL_SOURCE_MAX_BYTES))
]
SignalPayload: TypeAlias = Annotated[
    bytes, Rule(lambda field, value: limits.payload(field, value, limits.SIGNAL_PAYLOAD_MAX_BYTES))
]
SignalCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_POLICY_COUNT)]
SignalStreamLength: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_SIGNAL_STREAM_LENGTH)]


class SignalScope(StrEnum):
    """The intended target of a signal; it is recorded only."""

    WAITPOINT = "waitpoint"
    EXECUTION = "execution"


class SignalEffect(StrEnum):
    """The effect of a delivered signal."""

    NO_OP = "no_op"
    APPENDED = "appended_to_waitpoint"
    APPENDED_DUPLICATE = "appended_to_waitpoint_duplicate"
    BUFFERED = "buffered_for_pending_waitpoint"
    IGNORED_NOT_IN_CONDITION = "signal_ignored_not_in_condition"
    IGNORED_BY_MATCHER = "signal_ignored_matcher_failed"
    RESUMED = "resume_condition_satisfied"


class SignalContent(Checked, frozen=True, kw_only=True):
    """A signal and its source."""

    execution_id: ExecutionId
    signal_id: SignalId
    signal_name: SignalName
    signal_category: SignalLabel = ""
    source_type: SignalLabel = ""
    source_identity: SignalLabel = ""  # with source_type, it identifies the source for a Count of distinct sources
    payload: SignalPayload | None = None
    payload_encoding: Encoding | None = None
    idempotency_key: IdempotencyKey | None = None


class BufferSignalArgs(SignalContent, frozen=True, kw_only=True):
    """A signal for a waitpoint, with the token issued for it.

    The store knows whether the waitpoint is pending or active: it buffers or evaluates in the same step (D2).
    """

    waitpoint_id: WaitpointId
    waitpoint_token: WaitpointToken
    target_scope: SignalScope = SignalScope.WAITPOINT


class DeliverSignalArgs(BufferSignalArgs, frozen=True, kw_only=True):
    """A signal with limits and options for how it is kept and resumes; None uses the store's default."""

    correlation_id: SignalLabel | None = None
    created_at: TimestampMs | None = None  # when the sender created it; None: the store's current time
    dedup_ttl_ms: DurationMs | None = None
    resume_delay_ms: DurationMs | None = None  # None: as the suspension's resume policy defines
    max_signals_per_execution: SignalCount | None = None  # None: as the policy defines; 0: no limit
    signal_maxlen: SignalStreamLength | None = None
    declared_only: bool = False  # refuse a name that the wait does not declare, as links do; otherwise keep the signal


class SignalExecutionArgs(SignalContent, frozen=True, kw_only=True):
    """A signal without a token, from a trusted caller, for the open waitpoint that accepts its name.

    It goes to the waitpoint where the execution waits for that name, else to a pending waitpoint, which keeps
    it; with `waitpoint_key`, to the waitpoint with that key. The idempotency key is unique per execution.
    """

    waitpoint_key: WaitpointKey | None = None
    correlation_id: SignalLabel | None = None


class SignalAccepted(Outcome, frozen=True, kw_only=True, tag="accepted"):
    """It was recorded; it did not resume the execution."""

    signal_id: SignalId
    effect: SignalEffect


class ResumeTriggered(Outcome, frozen=True, kw_only=True, tag="triggered_resume"):
    """It met the condition: suspended -> waiting, or delayed."""

    signal_id: SignalId


class SignalDuplicate(Outcome, frozen=True, kw_only=True, tag="duplicate"):
    """The id or the idempotency key was used before; nothing changed."""

    existing_signal_id: SignalId


SignalOutcome: TypeAlias = SignalAccepted | ResumeTriggered | SignalDuplicate


class ResumeSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that helped to meet the condition, as the resumed worker reads it."""

    signal_id: SignalId
    signal_name: str
    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    accepted_at: TimestampMs
    signal_category: str = ""
    source_type: str = ""
    source_identity: str = ""
    correlation_id: str | None = None
    payload: bytes | None = None
    payload_encoding: str | None = None


class ListResumeSignalsArgs(Checked, frozen=True, kw_only=True):
    """The signals that ended the latest suspension, in order of arrival, after `after`.

    With `attempt_index`, only those of this attempt: none if the latest suspension belongs to another attempt.
    """

    execution_id: ExecutionId
    attempt_index: AttemptIndex | None = None
    after: SignalId | None = None
    limit: ScanLimit = 100


class ListResumeSignalsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of signals; empty if an operator or a plain timeout ended the suspension.

    It also identifies the suspension; None if there was none since the execution was created or replayed.
    close_reason: `resumed` by signals, early ones included; `resumed_by_operator`; `timed_out_auto_resume`; or
    the reason that ended the execution; None while the suspension is open.
    """

    signals: tuple[ResumeSignal, ...] = ()
    next_cursor: SignalId | None = None
    suspension_id: SuspensionId | None = None
    close_reason: str | None = None
    continuation_metadata_pointer: str | None = None  # as the worker gave it

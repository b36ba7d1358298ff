"""Suspensions: suspend, resume and list executions that wait for signals."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from flowfabric.core import codec, limits
from flowfabric.core.condition_json import condition_to_json, short_condition_json
from flowfabric.core.conditions import (
    CONDITIONS,
    AllOf,
    Count,
    ResumeCondition,
    Single,
    TimeoutOnly,
    referenced_waitpoint_keys,
    walk,
)
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Checked, DurationMs, IdempotencyKey, Outcome, Rule, ScanLimit
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.contracts.waits.waitpoints import (
    ExpiresInMs,
    FreshWaitpoint,
    IssuedWaitpoint,
    PendingWaitpoint,
    WaitpointBinding,
)
from flowfabric.core.forms import WaitForm
from flowfabric.core.ids import (
    AttemptIndex,
    ExecutionId,
    LaneId,
    SuspensionId,
    TimestampMs,
    WaitpointId,
    WaitpointKey,
    WaitpointToken,
)
from flowfabric.core.lease_handle import Handle
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput


class SuspensionReasonCode(StrEnum):
    """The reason of the wait; it decides the visible blocking reason."""

    WAITING_FOR_SIGNAL = "waiting_for_signal"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_CALLBACK = "waiting_for_callback"
    WAITING_FOR_TOOL_RESULT = "waiting_for_tool_result"
    WAITING_FOR_OPERATOR_REVIEW = "waiting_for_operator_review"
    PAUSED_BY_POLICY = "paused_by_policy"
    PAUSED_BY_BUDGET = "paused_by_budget"
    STEP_BOUNDARY = "step_boundary"
    MANUAL_PAUSE = "manual_pause"


class SuspensionRequester(StrEnum):
    WORKER = "worker"
    OPERATOR = "operator"
    POLICY = "policy"
    SYSTEM_TIMEOUT_POLICY = "system_timeout_policy"


class ResumeTarget(StrEnum):
    RUNNABLE = "runnable"


class ResumeTrigger(StrEnum):
    """How a resume is recorded."""

    SIGNAL = "signal"
    OPERATOR = "operator"
    AUTO_RESUME = "auto_resume"


class ResumePolicy(Checked, frozen=True, kw_only=True):
    """What happens when the condition is met: runnable again, after `resume_delay_ms` if there is one.

    The two flags about signals are only recorded; signals are deleted with their execution.
    """

    resume_target: ResumeTarget = ResumeTarget.RUNNABLE
    consume_matched_signals: bool = True
    retain_signal_buffer_until_closed: bool = False
    close_waitpoint_on_resume: bool = True
    resume_delay_ms: DurationMs | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.close_waitpoint_on_resume:
            raise InvalidInput("close_waitpoint_on_resume", False, "must be true: a resume closes all waitpoints (D1)")

    def to_json(self) -> str:
        """The stored form."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        if self.resume_delay_ms is None:
            del members["resume_delay_ms"]
        return codec.to_json(members).decode()


def _condition(field: str, value: Any) -> ResumeCondition:
    if not isinstance(value, CONDITIONS):
        raise InvalidInput(field, value, f"must be one of {', '.join(kind.__name__ for kind in CONDITIONS)}")
    return value


def _bindings(field: str, value: Any) -> tuple[WaitpointBinding, ...]:
    """Each waitpoint once, with its own key; the first one is shown as the execution's current waitpoint."""
    if not isinstance(value, tuple | list) or not value:
        raise InvalidInput(field, value, "must be a list of at least one FreshWaitpoint or PendingWaitpoint")
    if len(value) > limits.MAX_SUSPENSION_WAITPOINTS:
        raise InvalidInput(field, len(value), f"must hold at most {limits.MAX_SUSPENSION_WAITPOINTS} waitpoints")
    for index, binding in enumerate(value):
        if not isinstance(binding, FreshWaitpoint | PendingWaitpoint):
            raise InvalidInput(f"{field}[{index}]", binding, "must be FreshWaitpoint or PendingWaitpoint")
    if len(value) == 1:
        return tuple(value)
    ids = [binding.waitpoint_id for binding in value]
    keys = [binding.waitpoint_key for binding in value if binding.waitpoint_key is not None]
    if len(set(ids)) < len(ids) or len(set(keys)) < len(keys):
        raise InvalidInput(field, keys, "must not repeat a waitpoint's id or key")
    return tuple(value)


def _has_timeout_only(condition: ResumeCondition) -> bool:
    if type(condition) is Single:
        return False
    return any(isinstance(node, TimeoutOnly) for _, _, node in walk(condition))


Condition: TypeAlias = Annotated[ResumeCondition, Rule(_condition)]
Bindings: TypeAlias = Annotated[
    tuple[WaitpointBinding, ...], msgspec.Meta(max_length=limits.MAX_SUSPENSION_WAITPOINTS), Rule(_bindings)
]
ContinuationPointer: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 1, limits.CONTINUATION_POINTER_MAX_BYTES))
]


class SuspendExecutionArgs(Checked, frozen=True, kw_only=True):
    """The owner returns its lease and waits: active -> suspended. Buffered signals may meet the condition at once.

    The waitpoints are those the condition names. A condition that names none has one waitpoint. Repeating the
    call with the same idempotency key returns the first answer.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    attempt_index: AttemptIndex
    handle: Handle | None = None  # the owner's; the answer has the handle of the suspended attempt
    suspension_id: SuspensionId
    waitpoints: Bindings
    resume_condition: Condition
    resume_policy: ResumePolicy = ResumePolicy()
    reason_code: SuspensionReasonCode = SuspensionReasonCode.WAITING_FOR_SIGNAL
    requested_by: SuspensionRequester = SuspensionRequester.WORKER
    timeout_at: TimestampMs | None = None
    timeout_ms: ExpiresInMs | None = None  # from the store's current time; instead of timeout_at
    timeout_behavior: TimeoutBehavior = TimeoutBehavior.FAIL
    continuation_metadata_pointer: ContinuationPointer | None = None
    idempotency_key: IdempotencyKey | None = None
    dedup_ttl_ms: DurationMs | None = None  # None: a minute longer than timeout_ms, and a week at most
    form: WaitForm | None = None  # the question and the type of the answer, for everyone who answers
    issue_tokens: bool = True  # False: new waitpoints get tokens from read_waitpoint_token only; the answer's are empty

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timeout_at is not None and self.timeout_ms is not None:
            raise InvalidInput("timeout_ms", self.timeout_ms, "cannot be given together with timeout_at")
        if not self.has_timeout and _has_timeout_only(self.resume_condition):
            raise InvalidInput("timeout_ms", None, "must be given with the condition TimeoutOnly: nothing else ends it")
        self._check_waitpoints()

    def _check_waitpoints(self) -> None:
        wanted = set(referenced_waitpoint_keys(self.resume_condition))
        if isinstance(self.resume_condition, AllOf | Count):
            condition_to_json(self.resume_condition)  # refuses a condition that is too large
        elif len(self.waitpoints) > 1:
            problem = f"must be one waitpoint with the condition {type(self.resume_condition).__name__}"
            raise InvalidInput("waitpoints", len(self.waitpoints), problem)
        bound: set[WaitpointKey | None] = {binding.waitpoint_key for binding in self.waitpoints}
        if not wanted or None in bound:
            return  # the store knows the keys of pending waitpoints
        if bound != wanted:
            problem = f"must have the keys that the condition names: {', '.join(sorted(wanted))}"
            raise InvalidInput("waitpoints", sorted(str(key) for key in bound), problem)

    @property
    def primary(self) -> WaitpointBinding:
        return self.waitpoints[0]

    @property
    def has_timeout(self) -> bool:
        return self.timeout_at is not None or self.timeout_ms is not None

    @property
    def resume_condition_json(self) -> str:
        """The condition as sent to the store."""
        return short_condition_json(self.resume_condition, self.timeout_behavior)


class SuspendOutcomeDetails(Outcome, frozen=True, kw_only=True):
    """The waitpoints of a suspension and their tokens: the first one, and the others."""

    suspension_id: SuspensionId
    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    waitpoint_token: WaitpointToken
    additional_waitpoints: tuple[IssuedWaitpoint, ...] = ()

    @property
    def waitpoints(self) -> tuple[IssuedWaitpoint, ...]:
        """All waitpoints, in the order of the call."""
        first = IssuedWaitpoint(
            waitpoint_id=self.waitpoint_id, waitpoint_key=self.waitpoint_key, waitpoint_token=self.waitpoint_token
        )
        return (first, *self.additional_waitpoints)


class ExecutionSuspended(SuspendOutcomeDetails, frozen=True, kw_only=True, tag="suspended"):
    """It is suspended. The lease has ended; the returned handle replaces the owner's."""

    handle: Handle | None = None  # None: the call had none


class SuspensionAlreadySatisfied(SuspendOutcomeDetails, frozen=True, kw_only=True, tag="already_satisfied"):
    """Buffered signals met the condition: the execution stays active, and the lease and handle stay valid."""


SuspendExecutionResult: TypeAlias = ExecutionSuspended | SuspensionAlreadySatisfied


class ResumeExecutionArgs(Checked, frozen=True, kw_only=True):
    """End a suspension regardless of its condition: suspended -> waiting, or delayed.

    With `suspension_id`, only that suspension: a later one is left open.
    """

    execution_id: ExecutionId
    trigger_type: ResumeTrigger = ResumeTrigger.OPERATOR
    resume_delay_ms: DurationMs = 0
    suspension_id: SuspensionId | None = None


class ExecutionResumed(Outcome, frozen=True, kw_only=True, tag="resumed"):
    public_state: PublicState


ResumeExecutionResult: TypeAlias = ExecutionResumed


class ExpireSuspensionArgs(Checked, frozen=True, kw_only=True):
    """Apply the timeout of a suspension that is due."""

    execution_id: ExecutionId


class SuspensionExpired(Outcome, frozen=True, kw_only=True, tag="expired"):
    behavior_applied: TimeoutBehavior
    public_state: PublicState


class SuspensionNotExpired(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    """Nothing to do: not due, not suspended, or deleted; see `reason`."""

    reason: str


ExpireSuspensionResult: TypeAlias = SuspensionExpired | SuspensionNotExpired


class ListSuspendedArgs(Checked, frozen=True, kw_only=True):
    """Suspended executions of all partitions, the earliest timeout first, those without a timeout last."""

    lane_id: LaneId | None = None
    reason_code: SuspensionReasonCode | None = None
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class SuspendedExecutionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One suspended execution, as listed."""

    execution_id: ExecutionId
    lane_id: LaneId
    suspension_id: SuspensionId
    reason: str  # a SuspensionReasonCode; text, because direct callers may write their own
    suspended_at: TimestampMs
    timeout_at: TimestampMs | None = None  # None: never
    timeout_behavior: TimeoutBehavior | None = None


class ListSuspendedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of executions; next_cursor is None on the last page. A short page may have a cursor, too."""

    entries: tuple[SuspendedExecutionEntry, ...] = ()
    next_cursor: str | None = None

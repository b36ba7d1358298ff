"""Executions: create, end, delay and change them."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core.contracts.failures import BoundedFailureDetail
from flowfabric.core.contracts.fields import (
    AttemptPolicyJson,
    Checked,
    ConcurrencyKey,
    CreatorIdentity,
    DurationMs,
    Encoding,
    ExecutionKind,
    FailureCategory,
    IdempotencyKey,
    Outcome,
    Payload,
    Priority,
    ProgressMessage,
    ProgressPct,
    Reason,
    Tags,
)
from flowfabric.core.contracts.lease import LeaseFence
from flowfabric.core.ids import AttemptIndex, ExecutionId, LaneId, Namespace, TimestampMs
from flowfabric.core.policy import ExecutionPolicy, retry_policy_from_json, retry_policy_to_json
from flowfabric.core.states import PublicState
from flowfabric.errors import InvalidInput


class CancelSource(StrEnum):
    """The source of a call; without a fence only an operator or the engine may act."""

    LEASE_HOLDER = "lease_holder"
    OPERATOR_OVERRIDE = "operator_override"
    FLOW_CASCADE = "flow_cascade"
    SYSTEM_TIMEOUT = "system_timeout"


class ExpireReason(StrEnum):
    ATTEMPT_TIMEOUT = "attempt_timeout"
    EXECUTION_DEADLINE = "execution_deadline"


class DuplicateMode(StrEnum):
    """What a submit does with an existing execution that has the same idempotency key.

    Only an execution that has not started is replaced; a started one is returned unchanged. The same id is
    always answered as a duplicate, because a retried call looks like that.
    """

    RETURN_EXISTING = "return_existing"
    REJECT = "reject"
    REPLACE_WHILE_WAITING = "replace_while_waiting"  # gets the new content and the new delay
    DEBOUNCE = "debounce"  # the same, and the delay restarts: a burst runs once, after it ends
    UNTIL_SUCCESS = "until_success"  # one that failed, expired or was cancelled loses the key to a new execution


_KEYED = (DuplicateMode.REPLACE_WHILE_WAITING, DuplicateMode.DEBOUNCE, DuplicateMode.UNTIL_SUCCESS)


class CreateExecutionArgs(Checked, frozen=True, kw_only=True):
    """absent -> runnable: eligible now, or delayed if `delay_until` is in the future or `delay_ms` is set.

    Executions of one `concurrency_key`, in one lane and namespace, run at most `key_concurrency` at once (the lane's
    setting; 1 by default). Create their ids with the key, so that they share a partition.
    """

    execution_id: ExecutionId
    namespace: Namespace
    lane_id: LaneId
    execution_kind: ExecutionKind
    input_payload: Payload = b""
    payload_encoding: Encoding | None = None
    priority: Priority = 0
    creator_identity: CreatorIdentity = ""
    idempotency_key: IdempotencyKey | None = None
    tags: Tags = msgspec.field(default_factory=dict)
    policy: ExecutionPolicy | None = None
    delay_until: TimestampMs | None = None
    execution_deadline_at: TimestampMs | None = None
    on_duplicate: DuplicateMode = DuplicateMode.RETURN_EXISTING
    concurrency_key: ConcurrencyKey | None = None
    delay_ms: DurationMs | None = None  # from the store's current time; instead of delay_until

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.policy is not None:
            _agree("priority", self.priority, self.policy.priority)
            if self.delay_until is not None:
                _agree("delay_until", self.delay_until, self.policy.delay_until)
        if self.delay_ms is not None and self.effective_delay_until is not None:
            raise InvalidInput("delay_ms", self.delay_ms, "cannot be given together with delay_until")
        if self.on_duplicate in _KEYED and self.idempotency_key is None:
            raise InvalidInput("idempotency_key", None, f"must be set with on_duplicate {self.on_duplicate}")
        if self.on_duplicate is DuplicateMode.DEBOUNCE and not self.delay_ms and self.effective_delay_until is None:
            raise InvalidInput("delay_ms", self.delay_ms, "must be set with on_duplicate debounce")

    @property
    def effective_delay_until(self) -> TimestampMs | None:
        """The argument, or the policy's value where only the policy has one."""
        if self.delay_until is None and self.policy is not None:
            return self.policy.delay_until
        return self.delay_until


def _agree(field: str, given: int, in_policy: int | None) -> None:
    if in_policy is not None and in_policy != given:
        raise InvalidInput(field, given, f"contradicts policy.{field}, which is {in_policy}")


class ExecutionCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    execution_id: ExecutionId
    public_state: PublicState


class ExecutionDuplicate(Outcome, frozen=True, kw_only=True, tag="duplicate"):
    """The idempotency key or the id was used before, by this execution."""

    execution_id: ExecutionId


class ExecutionReplaced(Outcome, frozen=True, kw_only=True, tag="replaced"):
    """The idempotency key belongs to this execution, which had not started; it has the new content now."""

    execution_id: ExecutionId
    public_state: PublicState


CreateExecutionResult: TypeAlias = ExecutionCreated | ExecutionDuplicate | ExecutionReplaced


class CompleteExecutionArgs(Checked, frozen=True, kw_only=True):
    """The owner's active execution ends in success."""

    execution_id: ExecutionId
    fence: LeaseFence | None = None
    attempt_index: AttemptIndex | None = None
    result_payload: Payload | None = None
    result_encoding: Encoding | None = None
    source: CancelSource = CancelSource.LEASE_HOLDER


class ExecutionCompleted(Outcome, frozen=True, kw_only=True, tag="completed"):
    execution_id: ExecutionId
    public_state: PublicState


CompleteExecutionResult: TypeAlias = ExecutionCompleted


class FailExecutionArgs(Checked, frozen=True, kw_only=True):
    """The owner's attempt has failed: a retry is scheduled, or the execution ends as failed.

    retry_policy_json: None uses the stored policy, "" allows no retry, text replaces the policy for this
    failure. It is sent in full, because server functions read absent members differently.
    """

    execution_id: ExecutionId
    failure_reason: Reason
    failure_category: FailureCategory
    fence: LeaseFence | None = None
    attempt_index: AttemptIndex | None = None
    retry_policy_json: str | None = None
    retry_delay_ms: DurationMs | None = None  # as the failing service requested; overrides the policy
    next_attempt_policy_json: AttemptPolicyJson = ""
    source: CancelSource = CancelSource.LEASE_HOLDER
    failure_detail: BoundedFailureDetail | None = None  # kept with the attempt

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retry_policy_json:
            policy = retry_policy_from_json(self.retry_policy_json)
            force_setattr(self, "retry_policy_json", retry_policy_to_json(policy))


class RetryScheduled(Outcome, frozen=True, kw_only=True, tag="retry_scheduled"):
    """Runnable again, delayed until the backoff is over."""

    delay_until: TimestampMs
    next_attempt_index: AttemptIndex | None = None  # None: known at the next claim


class TerminalFailed(Outcome, frozen=True, kw_only=True, tag="terminal_failed"):
    """No retry was left."""


FailExecutionResult: TypeAlias = RetryScheduled | TerminalFailed


class CancelExecutionArgs(Checked, frozen=True, kw_only=True):
    """Any execution that has not ended ends as cancelled."""

    execution_id: ExecutionId
    reason: Reason
    fence: LeaseFence | None = None
    source: CancelSource = CancelSource.LEASE_HOLDER


class ExecutionCancelled(Outcome, frozen=True, kw_only=True, tag="cancelled"):
    execution_id: ExecutionId
    public_state: PublicState


CancelExecutionResult: TypeAlias = ExecutionCancelled


class DelayExecutionArgs(Checked, frozen=True, kw_only=True):
    """The owner releases its attempt until `delay_until`; the same attempt continues later."""

    execution_id: ExecutionId
    delay_until: TimestampMs
    fence: LeaseFence | None = None
    attempt_index: AttemptIndex | None = None
    source: CancelSource = CancelSource.LEASE_HOLDER


class ExecutionDelayed(Outcome, frozen=True, kw_only=True, tag="delayed"):
    execution_id: ExecutionId
    public_state: PublicState


DelayExecutionResult: TypeAlias = ExecutionDelayed


class MoveToWaitingChildrenArgs(Checked, frozen=True, kw_only=True):
    """The owner releases its attempt until its dependencies are resolved."""

    execution_id: ExecutionId
    fence: LeaseFence | None = None
    attempt_index: AttemptIndex | None = None
    source: CancelSource = CancelSource.LEASE_HOLDER


class MovedToWaitingChildren(Outcome, frozen=True, kw_only=True, tag="moved"):
    execution_id: ExecutionId
    public_state: PublicState


MoveToWaitingChildrenResult: TypeAlias = MovedToWaitingChildren


class ExpireExecutionArgs(Checked, frozen=True, kw_only=True):
    """A timeout may be due: a deadline expires the execution, an attempt's timeout fails the attempt."""

    execution_id: ExecutionId
    expire_reason: ExpireReason = ExpireReason.ATTEMPT_TIMEOUT


class ExecutionExpired(Outcome, frozen=True, kw_only=True, tag="expired"):
    execution_id: ExecutionId


class AlreadyTerminal(Outcome, frozen=True, kw_only=True, tag="already_terminal"):
    """It had already ended; nothing changed."""


class NotDue(Outcome, frozen=True, kw_only=True, tag="not_due"):
    """The timeout was moved or never set; nothing changed."""


ExpireExecutionResult: TypeAlias = ExecutionExpired | AlreadyTerminal | NotDue | RetryScheduled


class ReplayExecutionArgs(Checked, frozen=True, kw_only=True):
    """An ended execution becomes runnable again, with a new attempt."""

    execution_id: ExecutionId


class ExecutionReplayed(Outcome, frozen=True, kw_only=True, tag="replayed"):
    public_state: PublicState


ReplayExecutionResult: TypeAlias = ExecutionReplayed


class RetryExecutionArgs(Checked, frozen=True, kw_only=True):
    """A failed, expired or cancelled execution becomes runnable again, with a new attempt and its recorded steps."""

    execution_id: ExecutionId


class ExecutionRetried(Outcome, frozen=True, kw_only=True, tag="retried"):
    public_state: PublicState


RetryExecutionResult: TypeAlias = ExecutionRetried


class ChangePriorityArgs(Checked, frozen=True, kw_only=True):
    """Move an eligible execution within its lane's queue."""

    execution_id: ExecutionId
    new_priority: Priority


class PriorityChanged(Outcome, frozen=True, kw_only=True, tag="changed"):
    execution_id: ExecutionId
    old_priority: int
    new_priority: int


ChangePriorityResult: TypeAlias = PriorityChanged


class UpdateProgressArgs(Checked, frozen=True, kw_only=True):
    """Record the owner's progress; None keeps the stored value."""

    execution_id: ExecutionId
    fence: LeaseFence
    progress_pct: ProgressPct | None = None
    progress_message: ProgressMessage | None = None


class ProgressUpdated(Outcome, frozen=True, kw_only=True, tag="updated"):
    pass


UpdateProgressResult: TypeAlias = ProgressUpdated


class SetExecutionTagsArgs(Checked, frozen=True, kw_only=True):
    """Add tags or overwrite their values; other tags are kept."""

    execution_id: ExecutionId
    tags: Tags

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tags:
            raise InvalidInput("tags", self.tags, "must hold at least one tag")


class TagsSet(Outcome, frozen=True, kw_only=True, tag="ok"):
    count: int


SetExecutionTagsResult: TypeAlias = TagsSet

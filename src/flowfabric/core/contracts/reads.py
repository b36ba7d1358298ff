"""Reads: snapshots of executions, their state, attempts and results."""

from __future__ import annotations

import msgspec

from flowfabric.core.contracts.failures import FailureDetail
from flowfabric.core.contracts.limits.budgets import BudgetStatus
from flowfabric.core.contracts.limits.quotas import QuotaStatus
from flowfabric.core.ids import (
    AttemptId,
    AttemptIndex,
    BudgetId,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseEpoch,
    LeaseId,
    Namespace,
    QuotaPolicyId,
    TimestampMs,
    WaitpointId,
    WorkerInstanceId,
)
from flowfabric.core.states import (
    AttemptRecordState,
    AttemptType,
    BlockingReason,
    LaneState,
    PublicState,
    StateVector,
)


class AttemptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The running attempt, or the last one."""

    attempt_id: AttemptId
    attempt_index: AttemptIndex


class LeaseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The current lease."""

    lease_id: LeaseId
    lease_epoch: LeaseEpoch
    attempt_index: AttemptIndex
    worker_instance_id: WorkerInstanceId
    expires_at: TimestampMs
    last_heartbeat_at: TimestampMs | None = None  # None: not renewed yet


class ExecutionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The public view of an execution, without the store's internal fields."""

    execution_id: ExecutionId
    lane_id: LaneId
    namespace: Namespace
    public_state: PublicState
    created_at: TimestampMs
    last_mutation_at: TimestampMs
    total_attempt_count: int
    flow_id: FlowId | None = None
    blocking_reason: BlockingReason | None = None
    blocking_detail: str | None = None
    current_attempt: AttemptSummary | None = None
    current_lease: LeaseSummary | None = None
    current_waitpoint: WaitpointId | None = None
    delay_until: TimestampMs | None = None
    progress_pct: int | None = None
    progress_message: str | None = None
    failure_reason: str | None = None  # of the current or last attempt
    failure_category: str | None = None
    concurrency_key: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class ExecutionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One execution with its whole state vector, for operators."""

    execution_id: ExecutionId
    namespace: Namespace
    lane_id: LaneId
    priority: int
    execution_kind: str
    state_vector: StateVector
    public_state: PublicState
    created_at: TimestampMs
    started_at: TimestampMs | None = None  # the first claim
    completed_at: TimestampMs | None = None
    current_attempt_index: AttemptIndex | None = None  # None: never claimed
    flow_id: FlowId | None = None
    blocking_detail: str = ""
    concurrency_key: str | None = None


class StateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Only the state: the cheapest read."""

    state_vector: StateVector
    current_attempt_index: AttemptIndex | None = None


class ExecutionContext(msgspec.Struct, frozen=True, kw_only=True):
    """The data a worker needs to start a handler; it belongs to the execution, not to an attempt."""

    input_payload: bytes
    execution_kind: str
    payload_encoding: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a completed execution."""

    payload: bytes
    encoding: str | None = None


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, running or ended."""

    attempt_index: AttemptIndex
    attempt_id: AttemptId
    attempt_type: AttemptType
    state: AttemptRecordState
    started_at: TimestampMs | None = None
    ended_at: TimestampMs | None = None
    failure_reason: str | None = None
    failure_category: str | None = None
    worker_instance_id: WorkerInstanceId | None = None
    lease_epoch: LeaseEpoch | None = None
    failure_detail: FailureDetail | None = None  # of the latest attempts that failed with an exception


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """All facts about why an execution does or does not run, read at one moment.

    `flowfabric.core.explain` turns them into a sentence.
    """

    execution_id: ExecutionId
    lane_id: LaneId
    state_vector: StateVector
    public_state: PublicState
    now_ms: TimestampMs
    created_at: TimestampMs
    namespace: Namespace | None = None
    blocking_detail: str | None = None
    required_capabilities: tuple[str, ...] = ()
    delay_until: TimestampMs | None = None
    failure_reason: str | None = None  # of the current or last attempt
    open_dependencies: int = 0
    flow_is_cancelled: bool = False
    # ownership
    worker_instance_id: WorkerInstanceId | None = None  # of the current or the lost lease
    lease_expires_at: TimestampMs | None = None
    granted_to: WorkerInstanceId | None = None  # the worker with an open grant
    grant_expires_at: TimestampMs | None = None
    # its lane, in the execution's partition
    lane_state: LaneState = LaneState.ACTIVE
    lane_running: int = 0
    lane_limit: int | None = None  # the limit in this partition: a shard's part of max_concurrency
    lane_max_concurrency: int | None = None
    # its concurrency key
    concurrency_key: str | None = None
    key_limit: int | None = None
    key_running: int = 0
    key_ahead: int | None = None  # how many executions of its key are before it; None: it does not wait for its key
    # its queue
    ahead: int | None = None  # how many are before it; None: it is in no queue
    first_in_queue: ExecutionId | None = None
    # its limits
    budget_ids: tuple[BudgetId, ...] = ()  # its own, and those of its lane, namespace and flow
    quota_policy_ids: tuple[QuotaPolicyId, ...] = ()
    budget: BudgetStatus | None = None  # the one it waits for
    quota: QuotaStatus | None = None  # the one it waits for, with the counts of its key
    limit_ahead: int | None = None  # how many wait for the same limit before it, in its partition
    limit_look_at: TimestampMs | None = None  # the latest time of the next check of the limit
    offered_to: WorkerInstanceId | None = None  # the worker whose claim is checking its limits
    offer_until: TimestampMs | None = None
    execution_kind: str = ""  # its task

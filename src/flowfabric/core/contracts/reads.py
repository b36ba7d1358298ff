"""What reading an execution gives: whole, in short, and attempt by attempt."""

from __future__ import annotations

import msgspec

from flowfabric.core.ids import (
    AttemptId,
    AttemptIndex,
    ExecutionId,
    FlowId,
    LaneId,
    LeaseEpoch,
    LeaseId,
    Namespace,
    TimestampMs,
    WaitpointId,
    WorkerInstanceId,
)
from flowfabric.core.states import AttemptRecordState, AttemptType, BlockingReason, PublicState, StateVector


class AttemptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that runs, or ran last."""

    attempt_id: AttemptId
    attempt_index: AttemptIndex


class LeaseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The lease that is held now."""

    lease_id: LeaseId
    lease_epoch: LeaseEpoch
    attempt_index: AttemptIndex
    worker_instance_id: WorkerInstanceId
    expires_at: TimestampMs
    last_heartbeat_at: TimestampMs | None = None  # None: not renewed yet


class ExecutionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One execution as the public may see it, without the store's own fields."""

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


class StateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The state alone, the cheapest answer to "how does it stand?"."""

    state_vector: StateVector
    current_attempt_index: AttemptIndex | None = None


class ExecutionContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker needs to start a handler; it belongs to the execution, not to an attempt."""

    input_payload: bytes
    execution_kind: str
    payload_encoding: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a completed execution left behind."""

    payload: bytes
    encoding: str | None = None


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, running or over."""

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

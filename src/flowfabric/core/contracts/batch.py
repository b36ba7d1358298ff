"""Batched calls of our own client and worker. Each item has its own outcome.

They stay inside the process, unlike the contracts they contain: an outcome may be an error object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core import limits
from flowfabric.core.contracts.execution import (
    CompleteExecutionArgs,
    CompleteExecutionResult,
    CreateExecutionResult,
    FailExecutionArgs,
    FailExecutionResult,
)
from flowfabric.core.contracts.fields import BatchCount, Capabilities, Checked, DurationMs, LeaseTtlMs, Rule
from flowfabric.core.contracts.flows.graphs import ExecutionInput
from flowfabric.core.contracts.lease import (
    ClaimedExecution,
    ClaimedResumedExecution,
    LeaseFence,
    RenewLeaseArgs,
    RenewLeaseResult,
)
from flowfabric.core.contracts.streams import AppendFramesResult
from flowfabric.core.contracts.waits.signals import ListResumeSignalsPage
from flowfabric.core.contracts.workers import TaskNames
from flowfabric.core.ids import ExecutionId, LaneId, WorkerId, WorkerInstanceId
from flowfabric.core.lease_handle import HandleKind, HandleWriter
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.core.states import AttemptType
from flowfabric.errors import FlowFabricError, InvalidInput

ExecutionIds: TypeAlias = Annotated[
    tuple[ExecutionId, ...],
    msgspec.Meta(max_length=limits.REQUEST_MAX_ITEMS),
    Rule(lambda _, given: tuple(ExecutionId(each) for each in given)),
]
SubmitOutcome: TypeAlias = CreateExecutionResult | FlowFabricError
FinishArgs: TypeAlias = CompleteExecutionArgs | FailExecutionArgs
FinishOutcome: TypeAlias = CompleteExecutionResult | FailExecutionResult | FlowFabricError
RenewOutcome: TypeAlias = RenewLeaseResult | FlowFabricError
AppendFramesOutcome: TypeAlias = AppendFramesResult | FlowFabricError


class ClaimExecutionsArgs(Checked, frozen=True, kw_only=True):
    """Claim up to `count` executions of a lane, or exactly the named ones, which share a partition.

    Without a partition the shards of the lane are tried in turn until there are enough executions, and each
    call starts with another shard. Queue order holds within a shard, so with several shards priority is
    approximate: a call may leave better work in a shard that it did not reach. Members of flows are claimed in
    the flow's partition.
    """

    partition: Partition | None = None  # None: that of the named ones, or all shards of the lane
    lane_id: LaneId
    worker_id: WorkerId
    worker_instance_id: WorkerInstanceId
    lease_ttl_ms: LeaseTtlMs
    count: BatchCount = 1
    worker_capabilities: Capabilities = ()
    attempt_timeout_ms: DurationMs | None = None  # None or 0: the policy's value
    execution_ids: ExecutionIds = ()  # when given, these and no others
    park: BatchCount | None = None  # without work, wait for this many: see ParkedClaim
    kinds: TaskNames = ()  # the tasks of the worker, which gets no others; empty: any

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.execution_ids:
            return
        partition = self.partition or Partition(PartitionFamily.FLOW, self.execution_ids[0].partition_index)
        for execution_id in self.execution_ids:
            if execution_id.tag != partition.tag:
                raise InvalidInput("execution_ids", execution_id, f"must all be of partition {partition.tag}")
        force_setattr(self, "partition", partition)


class Resumption(msgspec.Struct, frozen=True):
    """The number of recorded steps and the end of the latest wait, for a resumed handler."""

    step_count: int
    latest: ListResumeSignalsPage


class ClaimedWork(msgspec.Struct, frozen=True, kw_only=True):
    """A lease and everything needed to run its attempt, without another round trip.

    `claim` is the result of the single-call API, built on demand.
    """

    execution_id: ExecutionId
    fence: LeaseFence
    attempt_index: int
    attempt_type: AttemptType | None  # None: an interrupted attempt continues
    lease_expires_at: int
    handles: HandleWriter
    execution_kind: str
    input_payload: bytes
    payload_encoding: str | None = None
    resumption: Resumption | None = None  # of a continued attempt, unless it is too large for a claim
    inputs: Sequence[ExecutionInput] = ()  # the upstream results of a flow member

    @property
    def claim(self) -> ClaimedExecution | ClaimedResumedExecution:
        fence = self.fence
        handle = self.handles.write(
            HandleKind.RESUMED if self.attempt_type is None else HandleKind.FRESH,
            execution_id=self.execution_id.encode(),
            attempt=(self.attempt_index, fence.attempt_id.encode()),
            lease=(fence.lease_epoch, fence.lease_id.encode()),
        )
        owned: dict[str, Any] = {
            "execution_id": self.execution_id,
            "lease_id": fence.lease_id,
            "lease_epoch": fence.lease_epoch,
            "attempt_index": self.attempt_index,
            "attempt_id": fence.attempt_id,
            "lease_expires_at": self.lease_expires_at,
            "handle": handle,
        }
        if self.attempt_type is None:
            return ClaimedResumedExecution(**owned)
        return ClaimedExecution(attempt_type=self.attempt_type, **owned)


ClaimOutcome: TypeAlias = ClaimedWork | FlowFabricError


class ParkedClaim(Protocol):
    """A claim that found no work and waits. The call that adds work completes it; the listener gets the result."""

    @property
    def key(self) -> str:
        """The id of this claim for listeners."""
        ...

    def read(self, message: bytes) -> list[ClaimedWork]:
        """The claimed work; the claim is done."""
        ...

    async def recall(self) -> list[ClaimedWork]:
        """Stop waiting and return what was claimed, even if the result was not received yet."""
        ...


class FinishExecutionsArgs(msgspec.Struct, frozen=True, kw_only=True):
    """End some attempts, renew other leases and claim the next work, in one step of one partition.

    The claim names this partition or none, and no executions.
    """

    partition: Partition
    finish: tuple[FinishArgs, ...] = ()
    renew: tuple[RenewLeaseArgs, ...] = ()
    claim: ClaimExecutionsArgs | None = None

    def __post_init__(self) -> None:
        if self.claim is not None and self.claim.execution_ids:
            problem = "must be empty: this call claims the next work; use claim_executions for named executions"
            raise InvalidInput("claim.execution_ids", len(self.claim.execution_ids), problem)


class FinishExecutionsResult(msgspec.Struct, kw_only=True):
    """One outcome for each ending and each renewal, in order, and the claimed work."""

    finished: list[FinishOutcome]
    renewed: list[RenewOutcome]
    claimed: list[ClaimedWork]
    parked: ParkedClaim | None = None  # the claim waits
    limited: bool = False  # limits are in use: endings here free slots that other executions wait for


class RunDueWorkArgs(Checked, frozen=True, kw_only=True):
    """Run the due work of one partition, up to `limit` items of each kind."""

    partition: Partition
    limit: BatchCount = 100


class DueWork(msgspec.Struct, frozen=True, kw_only=True):
    """What was done; `more`: there may be more due work."""

    requeued: int
    promoted: int
    timed_out: int
    expired: int
    failed: int
    more: bool
    woken: int = 0  # resumed by the timeout of their suspension
    escalated: int = 0
    suspensions_ended: int = 0  # with their execution: failed, cancelled or expired
    waitpoints_closed: int = 0  # expired pending waitpoints
    flow_work: int = 0  # deferred tasks of flows

    @property
    def items(self) -> int:
        """The total number of items."""
        return (
            self.requeued
            + self.promoted
            + self.timed_out
            + self.expired
            + self.failed
            + self.woken
            + self.escalated
            + self.suspensions_ended
            + self.waitpoints_closed
            + self.flow_work
        )

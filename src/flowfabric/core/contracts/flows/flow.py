"""Flows: create, cancel and read them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor, EventKind
from flowfabric.core.contracts.execution import TagsSet
from flowfabric.core.contracts.fields import Checked, Outcome, Reason, Rule, ScanLimit, Tags
from flowfabric.core.contracts.flows.edges import EdgeGroupSnapshot
from flowfabric.core.ids import ExecutionId, FlowId, LaneId, Namespace, TimestampMs
from flowfabric.core.states import PublicState, TerminalOutcome
from flowfabric.errors import InvalidInput

FlowKind: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 1, limits.EXECUTION_KIND_MAX_BYTES))
]


class FlowState(StrEnum):
    """The state of a flow; it changes in the same step as its members."""

    OPEN = "open"  # nothing has started
    RUNNING = "running"  # a member runs, or may start
    BLOCKED = "blocked"  # no member may start, and some have not ended
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        return self in (FlowState.COMPLETED, FlowState.FAILED, FlowState.CANCELLED)


# The events that end a flow, and its state afterwards.
FLOW_ENDINGS = {
    EventKind.FLOW_COMPLETED: FlowState.COMPLETED,
    EventKind.FLOW_FAILED: FlowState.FAILED,
    EventKind.FLOW_CANCELLED: FlowState.CANCELLED,
}


class FailurePolicy(StrEnum):
    """What an unhandled failure does: independent members continue, or the whole flow fails at once."""

    CONTINUE = "continue"
    FAIL_FAST = "fail_fast"


class CancellationPolicy(StrEnum):
    """What happens to the members of a cancelled flow. With every policy no member can be claimed any more."""

    CANCEL_ALL = "cancel_all"
    CANCEL_PENDING = "cancel_pending"  # running members may finish
    FLOW_ONLY = "flow_only"  # no member is ended; members that could start wait for an operator


class CreateFlowArgs(Checked, frozen=True, kw_only=True):
    """Create a flow without members and add them one by one; `submit_flow` submits a whole graph."""

    flow_id: FlowId
    flow_kind: FlowKind
    namespace: Namespace
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE


class FlowCreated(Outcome, frozen=True, kw_only=True, tag="created"):
    flow_id: FlowId


class FlowAlreadyCreated(Outcome, frozen=True, kw_only=True, tag="already_satisfied"):
    flow_id: FlowId


CreateFlowResult: TypeAlias = FlowCreated | FlowAlreadyCreated


class AddExecutionToFlowArgs(Checked, frozen=True, kw_only=True):
    """Make an execution of the flow's partition a member of it."""

    flow_id: FlowId
    execution_id: ExecutionId


class ExecutionAddedToFlow(Outcome, frozen=True, kw_only=True, tag="added"):
    execution_id: ExecutionId
    new_node_count: int


class ExecutionAlreadyMember(Outcome, frozen=True, kw_only=True, tag="already_member"):
    execution_id: ExecutionId
    node_count: int


AddExecutionToFlowResult: TypeAlias = ExecutionAddedToFlow | ExecutionAlreadyMember


class CancelFlowArgs(Checked, frozen=True, kw_only=True):
    """Close a flow: any live state -> cancelled. With `wait` the call returns when all members were reached."""

    flow_id: FlowId
    reason: Reason = ""
    cancellation_policy: CancellationPolicy = CancellationPolicy.CANCEL_ALL
    wait: bool = False


class FlowCancelled(Outcome, frozen=True, kw_only=True, tag="cancelled"):
    """All members were reached. A repeated call returns the first call's policy, and at most 1,000 members."""

    cancellation_policy: CancellationPolicy
    member_execution_ids: tuple[ExecutionId, ...] = ()


class FlowCancellationScheduled(Outcome, frozen=True, kw_only=True, tag="cancellation_scheduled"):
    """No member can be claimed any more; the engine ends the members that were not reached yet."""

    cancellation_policy: CancellationPolicy
    member_count: int
    member_execution_ids: tuple[ExecutionId, ...] = ()


class FlowPartiallyCancelled(Outcome, frozen=True, kw_only=True, tag="partially_cancelled"):
    """Some members could not be ended because their records are unreadable."""

    cancellation_policy: CancellationPolicy
    member_execution_ids: tuple[ExecutionId, ...] = ()
    failed_member_execution_ids: tuple[ExecutionId, ...] = ()


CancelFlowResult: TypeAlias = FlowCancelled | FlowCancellationScheduled | FlowPartiallyCancelled


class FlowAlreadyTerminal(Outcome, frozen=True, kw_only=True, tag="already_terminal"):
    """The flow had already ended; with the policy and reason of the first cancel, if any."""

    public_flow_state: FlowState
    stored_cancellation_policy: CancellationPolicy | None = None
    stored_cancel_reason: str | None = None


CancelFlowHeader: TypeAlias = FlowCancellationScheduled | FlowAlreadyTerminal


class SetFlowTagsArgs(Checked, frozen=True, kw_only=True):
    """Add tags or overwrite their values; other tags are kept."""

    flow_id: FlowId
    tags: Tags

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tags:
            raise InvalidInput("tags", self.tags, "must hold at least one tag")


SetFlowTagsResult: TypeAlias = TagsSet


class FlowSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a flow, with the joins of its members."""

    flow_id: FlowId
    flow_kind: str
    namespace: Namespace
    public_flow_state: FlowState
    graph_revision: int
    node_count: int
    edge_count: int
    created_at: TimestampMs
    last_mutation_at: TimestampMs
    cancelled_at: TimestampMs | None = None
    cancel_reason: str | None = None
    cancellation_policy: CancellationPolicy | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    edge_groups: tuple[EdgeGroupSnapshot, ...] = ()
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    ended_at: TimestampMs | None = None
    ended_counts: dict[TerminalOutcome, int] = msgspec.field(default_factory=dict)  # ended members by outcome
    failed_execution_id: ExecutionId | None = None  # the execution of an unhandled failure
    parent_execution_id: ExecutionId | None = None  # the member that stands for this flow in another one
    is_committed: bool = True  # False: more parts of the graph are expected, and no member runs yet

    @property
    def left_count(self) -> int:
        """How many members have not ended."""
        return self.node_count - sum(self.ended_counts.values())


class FlowMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a flow, as listed."""

    execution_id: ExecutionId
    number: int  # in the order of creation
    public_state: PublicState
    execution_kind: str
    lane_id: LaneId
    created_at: TimestampMs
    started_at: TimestampMs | None = None
    completed_at: TimestampMs | None = None
    child_flow_id: FlowId | None = None  # the child flow that this member stands for
    failure_reason: str | None = None
    edge_group: EdgeGroupSnapshot | None = None  # None: no incoming edges


class ListFlowMembersArgs(Checked, frozen=True, kw_only=True):
    flow_id: FlowId
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class ListFlowMembersPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of members; next_cursor is None on the last page."""

    members: tuple[FlowMember, ...] = ()
    next_cursor: str | None = None


class FlowStatus(StrEnum):
    """The state of a flow, as listed."""

    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @classmethod
    def from_public_flow_state(cls, text: str) -> FlowStatus:
        if text in (FlowState.OPEN, FlowState.RUNNING, FlowState.BLOCKED):
            return cls.ACTIVE
        return cls(text) if text in (cls.COMPLETED, cls.FAILED, cls.CANCELLED) else cls.UNKNOWN


class FlowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One flow, as listed."""

    flow_id: FlowId
    created_at: TimestampMs
    status: FlowStatus
    public_flow_state: str
    flow_kind: str
    namespace: Namespace
    node_count: int
    ended_at: TimestampMs | None = None


class ListFlowsArgs(Checked, frozen=True, kw_only=True):
    """Flows that match all given filters, newest first. Keep the filters while following a cursor."""

    namespace: Namespace | None = None
    flow_kind: FlowKind | None = None
    status: FlowStatus | None = None
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class ListFlowsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of flows; next_cursor is None on the last page. A short page may have a cursor, too."""

    flows: tuple[FlowSummary, ...] = ()
    next_cursor: str | None = None

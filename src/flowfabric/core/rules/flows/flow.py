"""The state of a flow, derived by one rule from the counts of its members (D24).

`lib/flow/flow_state.lua` and `lib/flow/member.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flowfabric.core import limits
from flowfabric.core.contracts.flows.flow import CancellationPolicy, FailurePolicy, FlowState
from flowfabric.core.rules.flows.graph import EdgeGroupState
from flowfabric.core.rules.flows.joins import CASCADE, Join
from flowfabric.core.rules.outcome import Changes, Refusal
from flowfabric.core.states import BlockingReason, EligibilityState, LifecyclePhase, TerminalOutcome

BUILDING, HELD = "building", "held"  # an uncommitted graph; a child flow whose stand-in may not start
FLOW_FAILED = "flow_failed"  # why fail_fast cancelled a member
ENDED = frozenset({FlowState.COMPLETED, FlowState.FAILED, FlowState.CANCELLED})
_MOVING = frozenset({
    EligibilityState.ELIGIBLE_NOW, EligibilityState.NOT_ELIGIBLE_UNTIL_TIME, EligibilityState.BLOCKED_BY_QUOTA,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flow:
    """The row of a flow."""

    state: FlowState = FlowState.OPEN
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    member_count: int = 0
    moving_count: int = 0
    ended: Mapping[TerminalOutcome, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)  # unhandled failures: where, and of which member
    work_count: int = 0  # tasks on the work list that must be done before the flow can end
    staged: str | None = None  # BUILDING or HELD
    is_sealed: bool = False
    cancellation_policy: CancellationPolicy | None = None
    cancel_reason: str | None = None
    cancelled_at: int | None = None
    ended_at: int | None = None
    parent: str | None = None  # the member that stands for this flow in another one

    @property
    def left(self) -> int:
        """How many members have not ended."""
        return self.member_count - sum(self.ended.values())

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_closed(self) -> bool:
        """Whether it ended before its members: their ends have no further effect."""
        failed_fast = self.state is FlowState.FAILED and self.failure_policy is FailurePolicy.FAIL_FAST
        return self.state is FlowState.CANCELLED or failed_fast


@dataclass(frozen=True, slots=True)
class Member:
    """An execution as its flow sees it."""

    flow_id: str
    phase: LifecyclePhase = LifecyclePhase.RUNNABLE
    eligibility: EligibilityState = EligibilityState.BLOCKED_BY_DEPENDENCIES
    reason: BlockingReason = BlockingReason.WAITING_FOR_CHILDREN
    outcome: TerminalOutcome = TerminalOutcome.NONE
    has_attempted: bool = False
    delay_until: int = 0
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    child_flow_id: str | None = None  # the child flow that this member stands for
    is_released: bool = False  # the child flow may start

    @property
    def has_ended(self) -> bool:
        return self.phase is LifecyclePhase.TERMINAL

    @property
    def has_run(self) -> bool:
        """Whether it has started. A stand-in has when it was released or has ended: its flow is not restored."""
        return self.is_released or self.has_ended if self.child_flow_id else self.has_attempted

    @property
    def fell_with_flow(self) -> bool:
        """Whether its flow failed fast and ended it with all others."""
        is_cancelled = self.outcome is TerminalOutcome.CANCELLED and self.cancelled_by == CASCADE
        return is_cancelled and self.cancel_reason == FLOW_FAILED


def is_moving(member: Member) -> bool:
    """Whether it runs or will run without a caller: its flow is not blocked."""
    if member.phase is LifecyclePhase.RUNNABLE:
        return member.eligibility in _MOVING or member.is_released
    return member.phase is LifecyclePhase.ACTIVE


def flow_state(flow: Flow, *, is_started: bool) -> FlowState:
    """open: nothing has started. running: something runs or may start. blocked: nothing may start, some are left."""
    if flow.has_ended:
        return flow.state
    if flow.left == 0 and flow.member_count > 0 and flow.work_count == 0 and flow.staged is None:
        return FlowState.FAILED if flow.failures else FlowState.COMPLETED
    if flow.state is FlowState.OPEN and not is_started:
        return FlowState.OPEN
    return FlowState.RUNNING if flow.moving_count > 0 else FlowState.BLOCKED


def note_failure(flow: Flow, where: str, execution_id: str) -> Changes:
    """Record an unhandled failure by its place: a member, or a join that became impossible."""
    return Changes({"failures": {**flow.failures, where: execution_id}})


def forget_failure(flow: Flow, where: str) -> Changes:
    return Changes({"failures": {each: who for each, who in flow.failures.items() if each != where}})


def check_growth(flow: Flow) -> Refusal | None:
    """An ended flow takes no more members and edges; one that was built piece by piece continues with new ones."""
    if flow.has_ended and (flow.is_sealed or flow.is_closed):
        return Refusal("flow_already_terminal", {"state": flow.state})
    return None


def check_size(flow: Flow, edge_count: int, members: int, edges: int) -> Refusal | None:
    if flow.member_count + members > limits.MAX_FLOW_MEMBERS:
        return Refusal("flow_too_large", {"of": "members", "most": limits.MAX_FLOW_MEMBERS})
    if edge_count + edges > limits.MAX_FLOW_EDGES:
        return Refusal("flow_too_large", {"of": "edges", "most": limits.MAX_FLOW_EDGES})
    return None


def check_downstream(member: Member, join: Join) -> Refusal | None:
    """A decided join takes no more edges, except that a running member with an all-of join may wait for more (D26)."""
    if member.has_ended:
        return Refusal("execution_not_active", {"outcome": member.outcome})
    if join.state is EdgeGroupState.PENDING:
        return None
    is_satisfied_all = join.state is EdgeGroupState.SATISFIED and join.policy.needed is None
    if is_satisfied_all and member.phase is LifecyclePhase.ACTIVE:
        return None
    return Refusal("edge_group_decided", {"state": join.state})


def check_replay(member: Member, flow: Flow | None) -> Refusal | None:
    """A cancelled flow stays cancelled, and a flow whose stand-in has ended does not run again."""
    if member.child_flow_id:
        return Refusal("replay_not_allowed", {"why": "child_flow"})
    if flow is not None and flow.state is FlowState.CANCELLED:
        return Refusal("replay_not_allowed", {"why": "flow_cancelled"})
    if flow is not None and flow.parent and flow.has_ended:
        return Refusal("replay_not_allowed", {"why": "child_flow"})
    return None

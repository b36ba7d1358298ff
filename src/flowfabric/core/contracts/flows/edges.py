"""Edges: dependencies between members of a flow, and the joins of their downstreams."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.events import Cursor
from flowfabric.core.contracts.fields import Checked, Outcome, Rule, ScanLimit
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, TimestampMs
from flowfabric.core.rules.flows.graph import DependencyKind, EdgeGroupState, EdgeState
from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import InvalidInput

DataPassingRef: TypeAlias = Annotated[
    str, Rule(lambda field, value: limits.label(field, value, 1, limits.DATA_PASSING_REF_MAX_BYTES))
]
GraphRevision: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=limits.MAX_SAFE_INTEGER)]
QuorumSize: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=limits.MAX_QUORUM)]


class OnSatisfied(StrEnum):
    """What happens to upstreams that a decided join no longer needs."""

    CANCEL_REMAINING = "cancel_remaining"  # unless another undecided join needs them
    LET_RUN = "let_run"


class AllOfEdges(Checked, frozen=True, kw_only=True, tag_field="kind", tag="all_of"):
    """Every edge must be satisfied; the first impossible one makes the join impossible."""

    needed: ClassVar[int | None] = None
    on_satisfied: ClassVar[OnSatisfied] = OnSatisfied.LET_RUN


class AnyOfEdges(Checked, frozen=True, kw_only=True, tag_field="kind", tag="any_of"):
    """One edge must be satisfied."""

    needed: ClassVar[int | None] = 1
    on_satisfied: OnSatisfied = OnSatisfied.CANCEL_REMAINING


class QuorumOfEdges(Checked, frozen=True, kw_only=True, tag_field="kind", tag="quorum"):
    """`k` edges must be satisfied."""

    k: QuorumSize
    on_satisfied: OnSatisfied = OnSatisfied.CANCEL_REMAINING

    @property
    def needed(self) -> int | None:
        return self.k


EdgeDependencyPolicy: TypeAlias = AllOfEdges | AnyOfEdges | QuorumOfEdges
POLICIES = (AllOfEdges, AnyOfEdges, QuorumOfEdges)


def _policy(field: str, value: Any) -> EdgeDependencyPolicy:
    if not isinstance(value, POLICIES):
        raise InvalidInput(field, value, f"must be one of {', '.join(kind.__name__ for kind in POLICIES)}")
    return value


JoinPolicy: TypeAlias = Annotated[EdgeDependencyPolicy, Rule(_policy)]


def policy_fields(policy: EdgeDependencyPolicy) -> tuple[str, str, int]:
    """The policy as stored: variant, on_satisfied and k."""
    variant = str(policy.__struct_config__.tag)
    return variant, "" if variant == "all_of" else str(policy.on_satisfied), getattr(policy, "k", 0)


def policy_from(variant: str, on_satisfied: str, k: int) -> EdgeDependencyPolicy:
    if variant == "any_of":
        return AnyOfEdges(on_satisfied=OnSatisfied(on_satisfied))
    return QuorumOfEdges(k=k, on_satisfied=OnSatisfied(on_satisfied)) if variant == "quorum" else AllOfEdges()


class StageDependencyEdgeArgs(Checked, frozen=True, kw_only=True):
    """Add an edge if the graph still has the revision that the caller knows."""

    flow_id: FlowId
    edge_id: EdgeId
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: DependencyKind = DependencyKind.SUCCESS_ONLY
    data_passing_ref: DataPassingRef | None = None  # the name of the result in the downstream's inputs
    expected_graph_revision: GraphRevision


class DependencyEdgeStaged(Outcome, frozen=True, kw_only=True, tag="staged"):
    edge_id: EdgeId
    new_graph_revision: int


StageDependencyEdgeResult: TypeAlias = DependencyEdgeStaged


class ApplyDependencyToChildArgs(Checked, frozen=True, kw_only=True):
    """Block the downstream of a staged edge. If the upstream has ended, the edge is resolved at once."""

    flow_id: FlowId
    edge_id: EdgeId
    downstream_execution_id: ExecutionId
    upstream_execution_id: ExecutionId
    graph_revision: GraphRevision = 0


class DependencyApplied(Outcome, frozen=True, kw_only=True, tag="applied"):
    unsatisfied_count: int


class DependencyAlreadyApplied(Outcome, frozen=True, kw_only=True, tag="already_applied"):
    pass


ApplyDependencyToChildResult: TypeAlias = DependencyApplied | DependencyAlreadyApplied


class ResolveDependencyArgs(Checked, frozen=True, kw_only=True):
    """Resolve one edge by hand; normally the end of its upstream does that."""

    edge_id: EdgeId
    downstream_execution_id: ExecutionId
    upstream_outcome: TerminalOutcome

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upstream_outcome is TerminalOutcome.NONE:
            problem = "must be an outcome: success, failed, cancelled, expired or skipped"
            raise InvalidInput("upstream_outcome", self.upstream_outcome, problem)


class DependencySatisfied(Outcome, frozen=True, kw_only=True, tag="satisfied"):
    """The join of the downstream is satisfied."""


class DependencyImpossible(Outcome, frozen=True, kw_only=True, tag="impossible"):
    """The join of the downstream is impossible; the downstream is skipped."""


class DependencyPending(Outcome, frozen=True, kw_only=True, tag="pending"):
    """The edge is resolved; its join is still pending, or was decided before."""


class DependencyAlreadyResolved(Outcome, frozen=True, kw_only=True, tag="already_resolved"):
    pass


ResolveDependencyResult: TypeAlias = (
    DependencySatisfied | DependencyImpossible | DependencyPending | DependencyAlreadyResolved
)


class PromoteBlockedToEligibleArgs(Checked, frozen=True, kw_only=True):
    """Unblock an execution that has no open dependencies."""

    execution_id: ExecutionId


class BlockedPromoted(Outcome, frozen=True, kw_only=True, tag="promoted"):
    pass


PromoteBlockedToEligibleResult: TypeAlias = BlockedPromoted


class EvaluateFlowEligibilityArgs(Checked, frozen=True, kw_only=True):
    execution_id: ExecutionId


class FlowEligibility(Outcome, frozen=True, kw_only=True, tag="status"):
    """eligible, blocked_by_dependencies, impossible, owned, not_runnable or not_found."""

    status: str


EvaluateFlowEligibilityResult: TypeAlias = FlowEligibility


class SetEdgeGroupPolicyArgs(Checked, frozen=True, kw_only=True):
    """Set the join policy of a member, before its first edge is added."""

    flow_id: FlowId
    downstream_execution_id: ExecutionId
    policy: JoinPolicy


class EdgeGroupPolicySet(Outcome, frozen=True, kw_only=True, tag="set"):
    pass


class EdgeGroupPolicyAlreadySet(Outcome, frozen=True, kw_only=True, tag="already_set"):
    pass


SetEdgeGroupPolicyResult: TypeAlias = EdgeGroupPolicySet | EdgeGroupPolicyAlreadySet


class EdgeGroupSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The join of one downstream."""

    downstream_execution_id: ExecutionId
    policy: EdgeDependencyPolicy
    total_deps: int
    satisfied_count: int
    failed_count: int
    skipped_count: int
    running_count: int  # unresolved edges
    group_state: EdgeGroupState


class EdgeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of one edge."""

    edge_id: EdgeId
    flow_id: FlowId
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: DependencyKind
    edge_state: EdgeState
    created_at: TimestampMs
    satisfaction_condition: str = "all_required"
    data_passing_ref: str | None = None
    created_by: str = "engine"


class OutgoingEdges(Checked, frozen=True, kw_only=True, tag_field="direction", tag="outgoing"):
    from_node: ExecutionId

    @property
    def subject(self) -> ExecutionId:
        return self.from_node


class IncomingEdges(Checked, frozen=True, kw_only=True, tag_field="direction", tag="incoming"):
    to_node: ExecutionId

    @property
    def subject(self) -> ExecutionId:
        return self.to_node


EdgeDirection: TypeAlias = OutgoingEdges | IncomingEdges


def _direction(field: str, value: Any) -> EdgeDirection | None:
    if value is not None and not isinstance(value, OutgoingEdges | IncomingEdges):
        raise InvalidInput(field, value, "must be OutgoingEdges, IncomingEdges or None")
    return value


class ListEdgesArgs(Checked, frozen=True, kw_only=True):
    """Edges of one member, or all edges of a flow ordered by downstream."""

    flow_id: FlowId
    direction: Annotated[EdgeDirection | None, Rule(_direction)] = None
    cursor: Cursor | None = None
    limit: ScanLimit = 100


class ListEdgesPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of edges; next_cursor is None on the last page. A short page may have a cursor, too."""

    edges: tuple[EdgeSnapshot, ...] = ()
    next_cursor: str | None = None

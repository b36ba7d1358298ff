"""Graphs: members, edges and joins that are submitted together, and the inputs of members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from flowfabric.core import limits
from flowfabric.core.contracts.execution import CreateExecutionArgs
from flowfabric.core.contracts.fields import Checked, Outcome, Rule
from flowfabric.core.contracts.flows.edges import DataPassingRef, GraphRevision, JoinPolicy
from flowfabric.core.contracts.flows.flow import FailurePolicy, FlowKind, FlowState
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, Namespace
from flowfabric.core.rules.flows.graph import DependencyKind, topological_order
from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import InvalidInput

T = TypeVar("T")


class FlowEdge(Checked, frozen=True, kw_only=True):
    """One dependency of a graph."""

    edge_id: EdgeId
    upstream_execution_id: ExecutionId
    downstream_execution_id: ExecutionId
    dependency_kind: DependencyKind = DependencyKind.SUCCESS_ONLY
    data_passing_ref: DataPassingRef | None = None


class FlowJoin(Checked, frozen=True, kw_only=True):
    """The join policy of one member; the default needs all edges."""

    downstream_execution_id: ExecutionId
    policy: JoinPolicy


def _each(kind: type[T], most: int) -> Rule:
    def check(field: str, value: Any) -> tuple[T, ...]:
        if not isinstance(value, tuple | list) or not all(isinstance(each, kind) for each in value):
            raise InvalidInput(field, value, f"must be a list of {kind.__name__}")
        _at_most(field, len(value), most)
        return tuple(value)

    return Rule(check)


def check_size(members: int, edges: int) -> None:
    """Refuse a graph that exceeds the limits of a flow."""
    _at_most("members", members, limits.MAX_FLOW_MEMBERS)
    _at_most("edges", edges, limits.MAX_FLOW_EDGES)


def _at_most(field: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidInput(field, count, f"must hold at most {most}", code="flow_too_large")


def _child_flows(field: str, value: Any) -> dict[ExecutionId, FlowId]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "must map member ids to flow ids")
    return {ExecutionId(member): FlowId(flow) for member, flow in value.items()}


_MEMBERS: Final = msgspec.Meta(max_length=limits.MAX_FLOW_MEMBERS)
Members: TypeAlias = Annotated[
    tuple[CreateExecutionArgs, ...], _MEMBERS, _each(CreateExecutionArgs, limits.MAX_FLOW_MEMBERS)
]
Edges: TypeAlias = Annotated[
    tuple[FlowEdge, ...], msgspec.Meta(max_length=limits.MAX_FLOW_EDGES), _each(FlowEdge, limits.MAX_FLOW_EDGES)
]
Joins: TypeAlias = Annotated[tuple[FlowJoin, ...], _MEMBERS, _each(FlowJoin, limits.MAX_FLOW_MEMBERS)]
ChildFlows: TypeAlias = Annotated[dict[ExecutionId, FlowId], _MEMBERS, Rule(_child_flows)]


class FlowGraph(Checked, frozen=True, kw_only=True):
    """Members with their edges and joins. Ids are unique; self-edges and cycles among new members are refused.

    A member of `child_flows` stands for a child flow. It never runs itself: the child flow starts in its place, and the
    member ends with the child flow's outcome. Create the child flow's id in this flow's partition.
    """

    members: Members = ()
    edges: Edges = ()
    joins: Joins = ()
    child_flows: ChildFlows = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        ids = [member.execution_id for member in self.members]
        _once("members", ids)
        _once("edges", [edge.edge_id for edge in self.edges])
        _once("joins", [join.downstream_execution_id for join in self.joins])
        for member in self.members:
            if member.idempotency_key is not None:
                problem = "must not be set on a member: repeating a submit is safe because of the flow's own id"
                raise InvalidInput("idempotency_key", member.idempotency_key, problem)
        if strangers := self.child_flows.keys() - set(ids):
            raise InvalidInput("child_flows", sorted(strangers), "must name members of the graph")
        self.ordered_members()

    def named_executions(self) -> set[ExecutionId]:
        """Members, both ends of edges, and downstreams of joins."""
        ends = (end for edge in self.edges for end in (edge.upstream_execution_id, edge.downstream_execution_id))
        joined = (join.downstream_execution_id for join in self.joins)
        return {*(member.execution_id for member in self.members), *ends, *joined}

    def ordered_members(self) -> list[CreateExecutionArgs]:
        """The members in topological order."""
        known = {member.execution_id: member for member in self.members}
        pairs = [(edge.upstream_execution_id, edge.downstream_execution_id) for edge in self.edges]
        for upstream, downstream in pairs:
            if upstream == downstream:
                problem = "must connect two different executions"
                raise InvalidInput("edges", upstream, problem, code="self_referencing_edge")
        inner = [pair for pair in pairs if pair[0] in known and pair[1] in known]
        return [known[execution_id] for execution_id in topological_order(known, inner)]


def _once(field: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for each in ids:
        if each in seen:
            raise InvalidInput(field, each, "must not repeat an id")
        seen.add(each)


class SubmitFlowArgs(FlowGraph, frozen=True, kw_only=True):
    """A whole flow, accepted in one step or not at all. A large flow is sent in parts and starts when it is complete.

    Submitting the same flow id again has no effect. The flow ends when all its members have ended, and takes no more
    members then. A flow without `commit` starts when `grow_flow` commits it; after an hour without one it is cancelled.
    """

    flow_id: FlowId
    flow_kind: FlowKind = "flow"
    namespace: Namespace
    failure_policy: FailurePolicy = FailurePolicy.CONTINUE
    parent_execution_id: ExecutionId | None = None  # the member of another flow that stands for this one
    commit: bool = True  # False: more parts follow before it starts, such as child flows

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.members:
            raise InvalidInput("members", self.members, "must hold at least one member")
        known = {member.execution_id for member in self.members}
        incoming = dict.fromkeys(known, 0)
        for edge in self.edges:
            for end in (edge.upstream_execution_id, edge.downstream_execution_id):
                if end not in known:
                    problem = "must connect members of this graph"
                    raise InvalidInput("edges", end, problem, code="execution_not_in_flow")
            incoming[edge.downstream_execution_id] += 1
        for join in self.joins:
            _check_join(join, incoming)


def _check_join(join: FlowJoin, incoming: dict[ExecutionId, int]) -> None:
    count = incoming.get(join.downstream_execution_id)
    if count is None:
        problem = "must name members of the graph"
        raise InvalidInput("joins", join.downstream_execution_id, problem, code="execution_not_in_flow")
    if join.policy.needed is not None and join.policy.needed > count:
        raise InvalidInput("joins", join.policy.needed, f"must be at most {count}, the number of edges into the member")


class GrowFlowArgs(FlowGraph, frozen=True, kw_only=True):
    """Add members, edges and joins to a flow that has not ended, in one step; edges may connect existing members.

    With a revision, the call is refused if the graph has changed. A commit is sent alone: it starts a flow that was
    submitted without one, and has no effect on a committed flow.
    """

    flow_id: FlowId
    expected_graph_revision: GraphRevision | None = None
    commit: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.commit and (self.members or self.edges or self.joins):
            raise InvalidInput("commit", self.commit, "must be sent alone, after all members, edges and joins")
        if not self.members and not self.edges and not self.commit:
            raise InvalidInput("members", self.members, "must hold at least one member if there are no edges")
        if len(self.members) > limits.BATCH_MAX_ITEMS:
            raise InvalidInput("members", len(self.members), f"must hold at most {limits.BATCH_MAX_ITEMS}")
        if len(self.edges) > limits.GRAPH_PART_MAX_EDGES:
            raise InvalidInput("edges", len(self.edges), f"must hold at most {limits.GRAPH_PART_MAX_EDGES}")


class FlowSubmitted(Outcome, frozen=True, kw_only=True, tag="submitted"):
    """The flow after this call."""

    flow_id: FlowId
    graph_revision: int
    node_count: int
    edge_count: int
    public_flow_state: FlowState


class FlowAlreadySubmitted(FlowSubmitted, frozen=True, kw_only=True, tag="already_satisfied"):
    """The flow or part already existed."""


SubmitFlowResult: TypeAlias = FlowSubmitted | FlowAlreadySubmitted
GrowFlowResult: TypeAlias = FlowSubmitted | FlowAlreadySubmitted


class ExecutionInput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one upstream, under the name of its edge."""

    data_passing_ref: str
    upstream_execution_id: ExecutionId
    outcome: TerminalOutcome
    payload: bytes | None = None  # None: the upstream has no result
    encoding: str | None = None

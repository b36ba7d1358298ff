"""Flows: graphs of executions with edges and joins.

A flow advances by itself. The step that ends a member also resolves its edges, promotes, skips or cancels
other members, and sets the state of the flow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId


class FlowPort(Protocol):
    """The lifecycle of a flow."""

    async def submit_flow(self, args: c.SubmitFlowArgs) -> c.SubmitFlowResult:
        """Accept a whole graph: absent -> open. No member runs before the flow is complete and committed."""
        ...

    async def grow_flow(self, args: c.GrowFlowArgs) -> c.GrowFlowResult:
        """Add members, edges and joins to a live flow in one step, or commit an uncommitted flow."""
        ...

    async def create_flow(self, args: c.CreateFlowArgs) -> c.CreateFlowResult:
        """Create a flow without members: absent -> open."""
        ...

    async def add_execution_to_flow(self, args: c.AddExecutionToFlowArgs) -> c.AddExecutionToFlowResult:
        """Make an execution of the flow's partition a member of the flow. The execution's state does not change."""
        ...

    async def cancel_flow(self, args: c.CancelFlowArgs) -> c.CancelFlowResult:
        """Cancel a flow: any live state -> cancelled. No member can be claimed afterwards (G9)."""
        ...

    async def continue_flow(self, flow_id: FlowId) -> bool:
        """Do a bounded part of the flow's remaining work, as the engine does. Returns whether more is left."""
        ...

    async def set_flow_tags(self, args: c.SetFlowTagsArgs) -> c.SetFlowTagsResult:
        """Set tags of a flow."""
        ...


class EdgePort(Protocol):
    """Single edges and joins, for callers that build graphs piece by piece."""

    async def stage_dependency_edge(self, args: c.StageDependencyEdgeArgs) -> c.StageDependencyEdgeResult:
        """Add an edge between two members. It counts towards the join of its downstream."""
        ...

    async def apply_dependency_to_child(self, args: c.ApplyDependencyToChildArgs) -> c.ApplyDependencyToChildResult:
        """Make the downstream wait for a staged edge: waiting or delayed -> waiting_children."""
        ...

    async def resolve_dependency(self, args: c.ResolveDependencyArgs) -> c.ResolveDependencyResult:
        """Resolve one edge by hand, which may promote or skip the downstream."""
        ...

    async def set_edge_group_policy(self, args: c.SetEdgeGroupPolicyArgs) -> c.SetEdgeGroupPolicyResult:
        """Set how the edges into a member are joined, before its first edge."""
        ...

    async def evaluate_flow_eligibility(self, args: c.EvaluateFlowEligibilityArgs) -> c.EvaluateFlowEligibilityResult:
        """Report whether the dependencies of an execution let it run."""
        ...

    async def promote_blocked_to_eligible(
        self, args: c.PromoteBlockedToEligibleArgs
    ) -> c.PromoteBlockedToEligibleResult:
        """Release an execution without open dependencies: waiting_children -> waiting, or delayed."""
        ...


class FlowReadPort(Protocol):
    """Read flows, members and edges."""

    async def describe_flow(self, flow_id: FlowId) -> c.FlowSnapshot | None:
        """One flow with its joins; None when it does not exist."""
        ...

    async def list_flows(self, args: c.ListFlowsArgs) -> c.ListFlowsPage:
        """List flows of all partitions, newest first."""
        ...

    async def list_flow_members(self, args: c.ListFlowMembersArgs) -> c.ListFlowMembersPage:
        """List the members of a flow in the order they were added."""
        ...

    async def list_edges(self, args: c.ListEdgesArgs) -> c.ListEdgesPage:
        """List the edges of one member, or all edges of a flow."""
        ...

    async def describe_edge(self, flow_id: FlowId, edge_id: EdgeId) -> c.EdgeSnapshot | None:
        """One edge; None when it does not exist."""
        ...

    async def read_execution_inputs(self, execution_id: ExecutionId) -> list[c.ExecutionInput]:
        """The results a member receives from its upstreams, in the order of its edges."""
        ...


class FlowEventPort(Protocol):
    """Wait for flows and follow their events."""

    async def wait_for_flow(self, flow_id: FlowId, *, timeout_ms: int) -> c.FlowState | None:
        """Wait until the flow ends and return its final state; None after `timeout_ms`."""
        ...

    def tail_flow_events(self, flow_id: FlowId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """Yield the events of a flow and its members until it ends. `cursor`: that of the last event seen."""
        ...

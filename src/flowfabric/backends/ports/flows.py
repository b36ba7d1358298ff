"""The ports of flows: graphs of executions, their edges and joins, and reading them.

They are part of EngineBackend (backends/ports.py), and what is said there holds here. Members move their flow on by
themselves: whatever ends one of them resolves edges, promotes, skips or cancels others and sets the flow's state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId


class FlowPort(Protocol):
    """The life of a flow."""

    async def submit_flow(self, args: c.SubmitFlowArgs) -> c.SubmitFlowResult:
        """Accept a whole graph: absent -> open. None of its members runs before it is complete, and committed."""
        ...

    async def grow_flow(self, args: c.GrowFlowArgs) -> c.GrowFlowResult:
        """Add members, edges and joins to a flow that has not ended, in one step; or commit one that was not yet."""
        ...

    async def create_flow(self, args: c.CreateFlowArgs) -> c.CreateFlowResult:
        """Make a flow without members: absent -> open."""
        ...

    async def add_execution_to_flow(self, args: c.AddExecutionToFlowArgs) -> c.AddExecutionToFlowResult:
        """Make an execution of the flow's partition a member; its state does not change."""
        ...

    async def cancel_flow(self, args: c.CancelFlowArgs) -> c.CancelFlowResult:
        """Close a flow: any live state -> cancelled. From then on none of its members can be claimed (G9)."""
        ...

    async def continue_flow(self, flow_id: FlowId) -> bool:
        """Do a bounded part of what a flow has left to do, as the engine does; whether more is left."""
        ...

    async def set_flow_tags(self, args: c.SetFlowTagsArgs) -> c.SetFlowTagsResult:
        """Set labels of a flow."""
        ...


class EdgePort(Protocol):
    """Single edges and joins, for callers that build graphs piece by piece."""

    async def stage_dependency_edge(self, args: c.StageDependencyEdgeArgs) -> c.StageDependencyEdgeResult:
        """Add an edge between two members; it counts in the join of its downstream."""
        ...

    async def apply_dependency_to_child(self, args: c.ApplyDependencyToChildArgs) -> c.ApplyDependencyToChildResult:
        """Let the downstream wait for a staged edge: waiting or delayed -> waiting_children."""
        ...

    async def resolve_dependency(self, args: c.ResolveDependencyArgs) -> c.ResolveDependencyResult:
        """Resolve one edge by hand: the downstream may be promoted or skipped."""
        ...

    async def set_edge_group_policy(self, args: c.SetEdgeGroupPolicyArgs) -> c.SetEdgeGroupPolicyResult:
        """Say how the edges into a member are joined, before the first of them."""
        ...

    async def evaluate_flow_eligibility(self, args: c.EvaluateFlowEligibilityArgs) -> c.EvaluateFlowEligibilityResult:
        """How the dependencies of an execution stand."""
        ...

    async def promote_blocked_to_eligible(
        self, args: c.PromoteBlockedToEligibleArgs
    ) -> c.PromoteBlockedToEligibleResult:
        """Let an execution go on that waits for nothing any more: waiting_children -> waiting, or delayed."""
        ...


class FlowReadPort(Protocol):
    """Looking at flows."""

    async def describe_flow(self, flow_id: FlowId) -> c.FlowSnapshot | None:
        """One flow with its joins; None when there is none."""
        ...

    async def list_flows(self, args: c.ListFlowsArgs) -> c.ListFlowsPage:
        """Flows over all partitions, newest first."""
        ...

    async def list_flow_members(self, args: c.ListFlowMembersArgs) -> c.ListFlowMembersPage:
        """The members of a flow, in the order in which they came."""
        ...

    async def list_edges(self, args: c.ListEdgesArgs) -> c.ListEdgesPage:
        """The edges at one member, or all of a flow."""
        ...

    async def describe_edge(self, flow_id: FlowId, edge_id: EdgeId) -> c.EdgeSnapshot | None:
        """One edge; None when there is none."""
        ...

    async def read_execution_inputs(self, execution_id: ExecutionId) -> list[c.ExecutionInput]:
        """What a member is given of its upstreams, in the order of its edges."""
        ...


class FlowEventPort(Protocol):
    """Waiting for flows."""

    async def wait_for_flow(self, flow_id: FlowId, *, timeout_ms: int) -> c.FlowState | None:
        """Wait until the flow ends and say how; None when it had not within `timeout_ms`."""
        ...

    def tail_flow_events(self, flow_id: FlowId, *, cursor: str | None = None) -> AsyncIterator[c.Event]:
        """The events of a flow and its members as they happen, until it has ended; `cursor` is that of the last one."""
        ...

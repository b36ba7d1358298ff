"""Steps that reach many members of a flow: cancel, release, and ending members that no join needs.

`lib/flow/cascade.lua` states the same rules.
"""

from __future__ import annotations

from flowfabric.core.contracts.flows.flow import CancellationPolicy, FlowState
from flowfabric.core.rules.flows.ends import promote
from flowfabric.core.rules.flows.flow import BUILDING, FLOW_FAILED, Flow
from flowfabric.core.rules.flows.graph import EdgeGroupState, EdgeState
from flowfabric.core.rules.flows.joins import CASCADE
from flowfabric.core.rules.flows.work import FlowWork, Task
from flowfabric.core.rules.flows.work import TaskKind as Kind
from flowfabric.core.states import BlockingReason, EligibilityState, LifecyclePhase, TerminalOutcome

# A sibling with more edges than this is assumed to be needed: checking would cost too much.
MOST_LOOKS = 100
_REASONS = {
    EdgeGroupState.SATISFIED: "sibling_quorum_satisfied", EdgeGroupState.IMPOSSIBLE: "sibling_quorum_impossible",
}  # fmt: skip
_OPEN = (EdgeState.UNSATISFIED, EdgeState.STAGED)


def is_needed(work: FlowWork, member_id: str, besides: str) -> bool:
    """Whether another undecided join waits for the member."""
    edges = work.out.get(member_id, [])
    if len(edges) >= MOST_LOOKS:
        return True
    found = [work.edges[each] for each in edges]
    return any(edge.state in _OPEN and edge.down != besides and work.join(edge.down).is_open for edge in found)


def siblings(work: FlowWork, task: Task) -> None:
    """The upstreams that a decided join no longer needs."""
    flow = work.flows[task.flow_id]
    reason = _REASONS.get(work.join(task.member).state)
    if reason is None or flow.has_ended:
        return
    if flow.work_count > 0:  # ends that are not handled yet may decide further joins
        work.defer(task)
        return
    for each in work.page(task, work.into.get(task.member, [])):
        edge = work.edges[each]
        is_live = edge.state is EdgeState.UNSATISFIED and not work.members[edge.up].has_ended
        if is_live and not is_needed(work, edge.up, task.member):
            cancel_member(work, edge.up, reason)


def cancel_member(work: FlowWork, member_id: str, reason: str) -> None:
    work.end(member_id, TerminalOutcome.CANCELLED, cancelled_by=CASCADE, cancel_reason=reason)


def cancel_flow(work: FlowWork, flow_id: str, policy: CancellationPolicy, reason: str | None) -> None:
    """Close a flow: no member can be claimed from now on (G9). Later tasks end the members."""
    work.flows.change(
        flow_id, state=FlowState.CANCELLED, cancellation_policy=policy, cancel_reason=reason or None,
        cancelled_at=work.now,
    )  # fmt: skip
    work.add(Kind.CANCEL, flow_id)


def cancel(work: FlowWork, task: Task) -> None:
    """Handle the members of a flow that ended before them."""
    flow = work.flows[task.flow_id]
    if flow.state not in (FlowState.CANCELLED, FlowState.FAILED):
        return
    for each in work.page(task, work.members_of[task.flow_id]):
        if not work.members[each].has_ended:
            _end_with_flow(work, flow, each)


def _end_with_flow(work: FlowWork, flow: Flow, member_id: str) -> None:
    """cancel_pending lets running members finish; flow_only ends none, and members that could start wait (D25)."""
    member, policy = work.members[member_id], CancellationPolicy.CANCEL_ALL
    if flow.state is FlowState.CANCELLED and flow.cancellation_policy is not None:
        policy = flow.cancellation_policy
    child = work.child(member_id) if member.is_released and policy is not CancellationPolicy.CANCEL_ALL else None
    if child is not None:  # its flow is cancelled in the same way, and ends the stand-in
        if not work.flows[child].has_ended:
            cancel_flow(work, child, policy, "parent_ended")
    elif policy is CancellationPolicy.FLOW_ONLY:
        _pause(work, member_id)
    elif policy is CancellationPolicy.CANCEL_ALL or member.phase is not LifecyclePhase.ACTIVE:
        cancel_member(work, member_id, flow.cancel_reason or FLOW_FAILED)


def _pause(work: FlowWork, member_id: str) -> None:
    member, paused = work.members[member_id], BlockingReason.PAUSED_BY_FLOW_CANCEL
    if member.phase is LifecyclePhase.RUNNABLE and member.reason is not paused:
        work.move(member_id, eligibility=EligibilityState.BLOCKED_BY_OPERATOR, reason=paused)
        work.tell(member_id, "blocked")


def release(work: FlowWork, task: Task) -> None:
    """The graph is complete: members without dependencies may start."""
    flow = work.flows[task.flow_id]
    if flow.staged or flow.has_ended:
        return
    for each in work.page(task, work.members_of[task.flow_id]):
        if not work.join(each).is_open:
            promote(work, each)


def cancel_child(work: FlowWork, task: Task) -> None:
    """End a child flow after the member that stands for it has ended."""
    child = work.child(task.member)
    if child is not None and not work.flows[child].has_ended:
        cancel_flow(work, child, CancellationPolicy.CANCEL_ALL, "parent_ended")


def abandon(work: FlowWork, task: Task) -> None:
    """Give up a graph that was never committed."""
    flow = work.flows[task.flow_id]
    if flow.staged == BUILDING and not flow.has_ended:
        cancel_flow(work, task.flow_id, CancellationPolicy.CANCEL_ALL, "never_committed")


def orphan(work: FlowWork, task: Task) -> None:
    """Give up a member whose child flow never came."""
    if not work.members[task.member].has_ended and work.child(task.member) is None:
        work.end(task.member, TerminalOutcome.FAILED)

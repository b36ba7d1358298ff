"""The end of a member reaches its downstreams: resolve edges, decide joins, promote or skip children.

`lib/flow/join.lua` states the same rules.
"""

from __future__ import annotations

from flowfabric.core.contracts.flows.flow import FailurePolicy, FlowState
from flowfabric.core.rules.flows import flow as flows
from flowfabric.core.rules.flows import joins
from flowfabric.core.rules.flows.flow import HELD, Member
from flowfabric.core.rules.flows.graph import DependencyKind, EdgeGroupState, EdgeState
from flowfabric.core.rules.flows.joins import Tally
from flowfabric.core.rules.flows.work import ABANDONED_MS, FlowWork, Task, TaskKind
from flowfabric.core.states import EligibilityState, LifecyclePhase, TerminalOutcome


def fails(member: Member) -> bool:
    return joins.is_failure(member.outcome, member.cancelled_by)


def is_handled(work: FlowWork, member_id: str) -> bool:
    """Whether an on_failure edge leads from the member to a handler, which compensates its failure."""
    return any(work.edges[each].kind is DependencyKind.ON_FAILURE for each in work.out.get(member_id, []))


def ended(work: FlowWork, task: Task) -> None:
    """Resolve the edges out of a member that has ended. A closed flow leaves them unchanged."""
    member = work.members[task.member]
    if not member.has_ended or work.flows[task.flow_id].is_closed:
        return
    edges = work.page(task, work.out.get(task.member, []))
    if not edges and task.start == 0 and fails(member):
        fail_flow(work, task.flow_id, f"member {task.member}", task.member)
    resolve(work, edges, task.member)


def resolve(work: FlowWork, edges: list[str], upstream: str) -> None:
    """Resolve the open ones among these edges with the end of their upstream."""
    member, counted = work.members[upstream], []
    for each in edges:
        edge = work.edges[each]
        if edge.state is EdgeState.UNSATISFIED:
            state, tally = joins.verdict(
                edge.kind, member.outcome, is_failure=fails(member), is_handled=is_handled(work, upstream)
            )
            work.edges.change(each, state=state)
            counted.append((each, tally))
    for each, tally in counted:
        count(work, each, tally)


def count(work: FlowWork, edge_id: str, tally: Tally) -> None:
    """Count an edge whose state was set, and act on the join if the edge decides it."""
    edge = work.edges[edge_id]
    flow_id = work.members[edge.down].flow_id
    was_open = work.joins[edge.down].state is EdgeGroupState.PENDING
    work.joins.apply(edge.down, joins.count(work.joins[edge.down], tally))
    join = work.joins[edge.down]
    # Also if the join was decided before: the order of ends must not decide whether a failure fails the flow.
    if join.state is EdgeGroupState.IMPOSSIBLE and join.failed:
        fail_flow(work, flow_id, f"join {edge.down}", edge.up)
    if not was_open or join.state is EdgeGroupState.PENDING:
        return
    if join.cancels_rest:
        work.add(TaskKind.SIBLINGS, flow_id, edge.down)
    if join.state is EdgeGroupState.SATISFIED:
        promote(work, edge.down)
    elif not work.flows[flow_id].has_ended and not work.members[edge.down].has_ended:
        work.end(edge.down, TerminalOutcome.SKIPPED)  # fail_fast cancels all members instead


def promote(work: FlowWork, member_id: str) -> None:
    """The member has no open dependencies: it may start, or the child flow it stands for may."""
    member = work.members[member_id]
    flow = work.flows[member.flow_id]
    if member.phase is not LifecyclePhase.RUNNABLE or flow.staged or flow.has_ended:
        return
    if member.child_flow_id:
        if not member.is_released:
            _release_child_flow(work, member_id)
    elif member.eligibility is EligibilityState.BLOCKED_BY_DEPENDENCIES:
        work.unblock(member_id)


def _release_child_flow(work: FlowWork, member_id: str) -> None:
    work.move(member_id, is_released=True)
    flow_id, child = work.members[member_id].flow_id, work.child(member_id)
    work.started.add(flow_id)
    if child is None:
        work.defer(Task(TaskKind.ORPHAN, flow_id, member_id), work.now + ABANDONED_MS)
    elif work.flows[child].staged == HELD:
        work.flows.change(child, staged=None)
        work.add(TaskKind.RELEASE, child)


def fail_flow(work: FlowWork, flow_id: str, where: str, execution_id: str) -> None:
    """An unhandled failure: with fail_fast it ends the flow at once, otherwise when all members have ended."""
    flow = work.flows[flow_id]
    if flow.has_ended:
        return
    work.flows.apply(flow_id, flows.note_failure(flow, where, execution_id))
    if flow.failure_policy is FailurePolicy.FAIL_FAST:
        fail_fast(work, flow_id)


def fail_fast(work: FlowWork, flow_id: str) -> None:
    work.flows.change(flow_id, state=FlowState.FAILED)
    work.add(TaskKind.CANCEL, flow_id)

"""Replay of a finished member, which also restores members that nothing was built on (D23).

`lib/graph/replay_edges.lua` and `lib/graph/replay_members.lua` state the same rules.
"""

from __future__ import annotations

from flowfabric.core.contracts.flows.flow import FlowState
from flowfabric.core.rules.flows import ends, joins
from flowfabric.core.rules.flows import flow as flows
from flowfabric.core.rules.flows.flow import Flow, Member
from flowfabric.core.rules.flows.graph import EdgeGroupState, EdgeState, edge_state
from flowfabric.core.rules.flows.joins import Tally
from flowfabric.core.rules.flows.work import FlowWork, Task, TaskKind
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.states import LifecyclePhase, TerminalOutcome

_CLOSED = (EdgeState.SATISFIED, EdgeState.IMPOSSIBLE)
# How the upstream of an edge had ended, by the task that reopens its edges.
_ENDINGS = {
    TaskKind.REOPEN: (TerminalOutcome.FAILED, True),
    TaskKind.REOPEN_SKIPPED: (TerminalOutcome.SKIPPED, False),
    TaskKind.REOPEN_CANCELLED: (TerminalOutcome.CANCELLED, True),
}


def replay(work: FlowWork, member_id: str) -> Refusal | None:
    """Run a finished member again; its flow continues. The caller drives the work afterwards."""
    member = work.members[member_id]
    flow_id = member.flow_id
    if refusal := flows.check_replay(member, work.flows[flow_id]):
        return refusal
    work.add(_task_of(member), flow_id, member_id)
    if work.flows[flow_id].is_closed:
        work.add(TaskKind.REVIVE, flow_id)
    reopen_flow(work, flow_id)
    work.flows.apply(flow_id, flows.forget_failure(work.flows[flow_id], f"member {member_id}"))
    _reopen_incoming(work, member_id)
    work.bring_back(member_id, waits=work.join(member_id).is_open)
    return None


def reopen_flow(work: FlowWork, flow_id: str) -> None:
    """Continue an ended flow: one of its members runs again, or it got a new one."""
    if work.flows[flow_id].has_ended:
        work.flows.change(flow_id, state=FlowState.RUNNING, ended_at=None)
        work.reopened.add(flow_id)
        work.open_flows.add(flow_id)


def _task_of(member: Member) -> TaskKind:
    if member.outcome is TerminalOutcome.SKIPPED:
        return TaskKind.REOPEN_SKIPPED
    is_cancelled = member.outcome is TerminalOutcome.CANCELLED and ends.fails(member)
    return TaskKind.REOPEN_CANCELLED if is_cancelled else TaskKind.REOPEN


def _reopen_incoming(work: FlowWork, member_id: str) -> None:
    """The member waits again for upstreams that run again; a skipped one waits for those that made it impossible."""
    member = work.members[member_id]
    is_first = member.outcome is TerminalOutcome.SKIPPED or not member.has_run
    for each in work.into.get(member_id, []):
        edge = work.edges[each]
        upstream, was = work.members[edge.up], edge.state
        if (was is EdgeState.IMPOSSIBLE and not is_first) or was not in _CLOSED:
            continue
        if was is EdgeState.SATISFIED and upstream.has_ended:
            continue
        _take_back(work, each, _task_of(upstream))
        if upstream.has_ended and edge_state(edge.kind, upstream.outcome) is EdgeState.SATISFIED:
            work.edges.change(each, state=EdgeState.SATISFIED)
            work.joins.apply(member_id, joins.count(work.joins[member_id], Tally.SUCCEEDED))


def _take_back(work: FlowWork, edge_id: str, task: TaskKind) -> bool:
    """Reopen an edge; task: how its upstream had ended. Returns whether the join is open again."""
    edge = work.edges[edge_id]
    join, (outcome, is_failure) = work.joins[edge.down], _ENDINGS[task]
    tally = joins.tally_to_take_back(
        join, edge.state, edge.kind, outcome, is_failure=is_failure, is_handled=ends.is_handled(work, edge.up)
    )
    work.edges.change(edge_id, state=EdgeState.UNSATISFIED)
    work.joins.apply(edge.down, joins.uncount(join, tally))
    is_open = work.joins[edge.down].state is EdgeGroupState.PENDING
    if is_open:
        flow_id = work.members[edge.down].flow_id
        work.flows.apply(flow_id, flows.forget_failure(work.flows[flow_id], f"join {edge.down}"))
    return is_open


def reopen(work: FlowWork, task: Task) -> None:
    """Reopen the edges out of a replayed or restored member. It may have ended again by now."""
    if work.flows[task.flow_id].has_ended:
        return
    for each in work.page(task, work.out.get(task.member, [])):
        edge = work.edges[each]
        if edge.state in _CLOSED and not work.members[edge.down].has_run:
            if _take_back(work, each, task.kind):
                _hold(work, edge.down)
            if work.members[task.member].has_ended:
                ends.resolve(work, [each], task.member)


def _hold(work: FlowWork, member_id: str) -> None:
    """A member that was about to start waits again; so does a skipped one, with those skipped because of it."""
    member = work.members[member_id]
    if member.phase is LifecyclePhase.RUNNABLE:
        work.block(member_id)
        return
    is_skipped = member.outcome is TerminalOutcome.SKIPPED
    if is_skipped or member.fell_with_flow:
        work.bring_back(member_id, waits=True)
    if is_skipped:
        work.add(TaskKind.REOPEN_SKIPPED, member.flow_id, member_id)


def revive(work: FlowWork, task: Task) -> None:
    """Restore the members of a continued flow that had failed fast. A remaining failure ends it again."""
    flow = work.flows[task.flow_id]
    if flow.has_ended:
        return
    if flow.work_count > 0:
        work.defer(task)
    elif flow.failures:
        ends.fail_fast(work, task.flow_id)
    else:
        for each in work.page(task, work.members_of[task.flow_id]):
            if work.members[each].has_ended:
                _revive_member(work, flow, each)


def _revive_member(work: FlowWork, flow: Flow, member_id: str) -> None:
    member = work.members[member_id]
    if member.fell_with_flow and member.child_flow_id:  # a stand-in is not restored, so its flow has failed
        ends.fail_flow(work, member.flow_id, f"member {member_id}", member_id)
    elif member.fell_with_flow:
        if work.join(member_id).state is not EdgeGroupState.IMPOSSIBLE:
            work.bring_back(member_id, waits=work.join(member_id).is_open)
    elif member.outcome is not TerminalOutcome.SKIPPED:
        work.add(TaskKind.ENDED, member.flow_id, member_id)  # the closed flow may have left its edges unresolved

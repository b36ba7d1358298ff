"""Flow steps that callers make: a member starts or ends, a graph is submitted, a flow is cancelled.

`lib/flow/advance.lua`, `lib/flow/edge_life.lua` and `lib/graph/graph_writing.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from flowfabric.core.contracts.flows.edges import EdgeDependencyPolicy
from flowfabric.core.contracts.flows.flow import FlowState
from flowfabric.core.rules.flows import cascade, ends, joins, replay
from flowfabric.core.rules.flows import flow as flows
from flowfabric.core.rules.flows.flow import BUILDING, HELD, Flow, Member
from flowfabric.core.rules.flows.work import ABANDONED_MS, MUST_BE_DONE, QUEUED, Edge, FlowWork, Task
from flowfabric.core.rules.flows.work import TaskKind as Kind
from flowfabric.core.rules.outcome import Changes
from flowfabric.core.states import LifecyclePhase, TerminalOutcome

_TASKS: Mapping[Kind, Callable[[FlowWork, Task], None]] = {
    Kind.ENDED: ends.ended, Kind.SIBLINGS: cascade.siblings, Kind.CANCEL: cascade.cancel,
    Kind.RELEASE: cascade.release, Kind.CANCEL_CHILD: cascade.cancel_child,
    Kind.ABANDON: cascade.abandon, Kind.ORPHAN: cascade.orphan, Kind.REOPEN: replay.reopen,
    Kind.REOPEN_SKIPPED: replay.reopen, Kind.REOPEN_CANCELLED: replay.reopen,
    Kind.REVIVE: replay.revive,
}  # fmt: skip
# The outcome of the member that stands for a flow.
_PARENT_ENDINGS: Mapping[FlowState, tuple[TerminalOutcome, dict[str, Any]]] = {
    FlowState.COMPLETED: (TerminalOutcome.SUCCESS, {}),
    FlowState.FAILED: (TerminalOutcome.FAILED, {}),
    FlowState.CANCELLED: (TerminalOutcome.CANCELLED, {"cancelled_by": "child_flow"}),
}


def drive(work: FlowWork) -> None:
    """Run all tasks, and apply what follows from the new states of flows."""
    while True:
        while task := work.next_task():
            if work.budget > 0 or task.kind is Kind.CANCEL_CHILD:
                _TASKS[task.kind](work, task)
            else:
                work.defer(task)
        for flow_id in work.flows:
            _settle(work, flow_id)
        work.started.clear()
        if work.is_idle:
            return


def take_up(work: FlowWork, task: Task) -> None:
    """Run a task of the work list; the caller drives the work afterwards."""
    del work.put_off[task]
    count = work.flows[task.flow_id].work_count
    if task.kind in MUST_BE_DONE and count > 0:
        work.flows.change(task.flow_id, work_count=count - 1)
    work.add(*task)


def _settle(work: FlowWork, flow_id: str) -> None:
    """Derive the state of a flow. If the flow has ended, end the member that stands for it."""
    if flow_id in work.reopened:
        work.reopened.discard(flow_id)
        work.tell(flow_id, "flow_reopened")
    flow = work.flows[flow_id]
    state = flows.flow_state(flow, is_started=flow_id in work.started)
    if state is not flow.state:
        work.flows.change(flow_id, state=state)
    if state not in flows.ENDED or flow_id not in work.open_flows:
        return
    work.open_flows.discard(flow_id)
    work.flows.change(flow_id, ended_at=work.now)
    work.tell(flow_id, f"flow_{state}")
    parent = work.members.get(flow.parent)
    if flow.parent and parent and not parent.has_ended:
        outcome, fields = _PARENT_ENDINGS[state]
        work.end(flow.parent, outcome, **fields)


def start_member(work: FlowWork, member_id: str) -> None:
    """A claim has started the member."""
    member = work.members[member_id]
    if work.flows[member.flow_id].state is FlowState.OPEN:
        work.started.add(member.flow_id)
    work.move(member_id, phase=LifecyclePhase.ACTIVE, has_attempted=True)


def return_member(work: FlowWork, member_id: str) -> None:
    """The member returns to the queue. In an ended flow no worker could claim it, so it is cancelled."""
    work.move(member_id, phase=LifecyclePhase.RUNNABLE, **QUEUED)
    flow_id = work.members[member_id].flow_id
    if work.flows[flow_id].has_ended:
        work.defer(Task(Kind.CANCEL, flow_id))


class NewMember(NamedTuple):
    id: str
    child_flow_id: str | None = None


class Graph(NamedTuple):
    """A checked part of a graph: new members and edges, and the policies of joins by downstream."""

    members: Sequence[NewMember] = ()
    edges: Mapping[str, Edge] = {}
    policies: Mapping[str, EdgeDependencyPolicy] = {}
    is_committed: bool = True


def create_flow(work: FlowWork, flow_id: str, flow: Flow, graph: Graph) -> None:
    """Create a flow with its first graph. A child flow waits for the member that stands for it."""
    staged = BUILDING if not graph.is_committed else HELD if _is_held(work, flow) else None
    work.flows.put(flow_id, _with_stage(flow, staged))
    work.members_of[flow_id] = []
    work.open_flows.add(flow_id)
    if not graph.is_committed:
        work.defer(Task(Kind.ABANDON, flow_id), work.now + ABANDONED_MS)
    grow_flow(work, flow_id, graph)


def _with_stage(flow: Flow, staged: str | None) -> Flow:
    return Changes({"staged": staged}).apply_to(flow)


def _is_held(work: FlowWork, flow: Flow) -> bool:
    parent = work.members.get(flow.parent)
    return parent is not None and not parent.is_released


def grow_flow(work: FlowWork, flow_id: str, graph: Graph) -> None:
    """Write a part of a graph, and apply what follows from it at once."""
    downstreams = {edge.down for edge in graph.edges.values()}
    for new in graph.members:
        _create_member(work, flow_id, new, has_edges=new.id in downstreams)
    before = {edge.up: len(work.out.get(edge.up, [])) for edge in graph.edges.values()}
    for down, policy in graph.policies.items():
        work.joins.put(down, Changes({"policy": policy}).apply_to(work.join(down)))
    for edge_id, edge in graph.edges.items():
        _link(work, edge_id, edge)
    created = {new.id for new in graph.members}
    for down in sorted(downstreams - created):
        work.block(down)
    for up, first in before.items():
        if work.members[up].has_ended:  # its new edges come last; older ones may wait for its replay
            work.add(Kind.ENDED, flow_id, up, first)
    if graph.is_committed:
        _commit(work, flow_id)
    drive(work)


def _create_member(work: FlowWork, flow_id: str, new: NewMember, *, has_edges: bool) -> None:
    """A member with dependencies is created waiting: it cannot be claimed before its edges exist (D19)."""
    flow = work.flows[flow_id]
    waits = has_edges or flow.staged is not None
    is_released = new.child_flow_id is not None and not waits
    work.members.put(new.id, Member(flow_id, child_flow_id=new.child_flow_id))
    work.members_of[flow_id].append(new.id)
    work.flows.change(flow_id, member_count=flow.member_count + 1)
    if is_released:
        work.move(new.id, is_released=True)
        work.defer(Task(Kind.ORPHAN, flow_id, new.id), work.now + ABANDONED_MS)
    elif not waits and new.child_flow_id is None:
        work.move(new.id, **QUEUED)


def _link(work: FlowWork, edge_id: str, edge: Edge) -> None:
    work.edges.put(edge_id, edge)
    work.out.setdefault(edge.up, []).append(edge_id)
    work.into.setdefault(edge.down, []).append(edge_id)
    work.joins.put(edge.down, joins.grow(work.join(edge.down), 1).apply_to(work.join(edge.down)))


def _commit(work: FlowWork, flow_id: str) -> None:
    """The graph is complete."""
    flow = work.flows[flow_id]
    staged = HELD if _is_held(work, flow) else None
    work.flows.change(flow_id, staged=staged, is_sealed=True)
    work.put_off.pop(Task(Kind.ABANDON, flow_id), None)
    if flow.staged is not None and staged is None:
        work.add(Kind.RELEASE, flow_id)

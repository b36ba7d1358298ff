"""The rows that one step of flows uses, and the changes it makes to them.

The caller loads the rows that the step may need, lets the rules change them, and writes the changed ones in
the same atomic step. Nothing recurses: each end is a task, and tasks beyond the budget of a step go to the
work list (G8).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from flowfabric.core.rules.flows.flow import Flow, Member, is_moving
from flowfabric.core.rules.flows.graph import DependencyKind, EdgeState
from flowfabric.core.rules.flows.joins import Join
from flowfabric.core.rules.outcome import Changes, Line
from flowfabric.core.states import BlockingReason, EligibilityState, LifecyclePhase, TerminalOutcome

R = TypeVar("R")
STEP_BUDGET = 256  # edges or members of one step
ABANDONED_MS = 3_600_000  # an uncommitted graph, or a member whose child flow did not come, is given up after this time


@dataclass(frozen=True, slots=True)
class Edge:
    """The row of an edge."""

    up: str
    down: str
    kind: DependencyKind = DependencyKind.SUCCESS_ONLY
    state: EdgeState = EdgeState.UNSATISFIED


class TaskKind(StrEnum):
    ENDED = "ended"
    SIBLINGS = "siblings"
    CANCEL = "cancel"
    RELEASE = "release"
    CANCEL_CHILD = "cancel_child"
    ABANDON = "abandon"
    ORPHAN = "orphan"
    REOPEN = "reopen"
    REOPEN_SKIPPED = "reopen_skipped"
    REOPEN_CANCELLED = "reopen_cancelled"
    REVIVE = "revive"


# Tasks that must be done before a flow can end.
MUST_BE_DONE = frozenset({
    TaskKind.ENDED, TaskKind.REOPEN, TaskKind.REOPEN_SKIPPED, TaskKind.REOPEN_CANCELLED, TaskKind.REVIVE,
})  # fmt: skip
# Tasks that are done when every join that can be decided, or reopened, is.
_LAST = frozenset({TaskKind.SIBLINGS, TaskKind.REVIVE})


class Task(NamedTuple):
    """One task of a flow, from a position in the list of its edges or members on."""

    kind: TaskKind
    flow_id: str
    member: str = "-"
    start: int = 0


class Rows(Generic[R]):
    """The loaded rows of one table, and which of them have changed."""

    def __init__(self, rows: Mapping[str, R] | None = None) -> None:
        self._rows = dict(rows or {})
        self.changed: set[str] = set()

    def __getitem__(self, key: str) -> R:
        return self._rows[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def get(self, key: str | None) -> R | None:
        return self._rows.get(key) if key is not None else None

    def put(self, key: str, row: R) -> None:
        self._rows[key] = row
        self.changed.add(key)

    def change(self, key: str, **fields: Any) -> None:
        self.put(key, replace(self._rows[key], **fields))  # type: ignore[type-var]

    def apply(self, key: str, changes: Changes) -> None:
        self.put(key, changes.apply_to(self._rows[key]))


class FlowWork:
    """The rows of the flows of one partition that a step needs."""

    def __init__(self, now: int = 0, budget: int = STEP_BUDGET) -> None:
        self.now, self.budget = now, budget
        self.flows, self.members = Rows[Flow](), Rows[Member]()
        self.edges, self.joins = Rows[Edge](), Rows[Join]()
        self.members_of: dict[str, list[str]] = {}  # by flow, in order of creation
        self.out: dict[str, list[str]] = {}  # edges by upstream, in order of creation
        self.into: dict[str, list[str]] = {}
        self.started: set[str] = set()  # flows with a member that started in this step
        self.reopened: set[str] = set()
        self.open_flows: set[str] = set()  # flows whose end is not reported yet
        self.lines: list[tuple[str, Line]] = []
        self.put_off: dict[Task, int] = {}  # tasks for the work list, with their due times
        self._todo, self._last = deque[Task](), deque[Task]()

    # Tasks.

    def add(self, kind: TaskKind, flow_id: str, member: str = "-", start: int = 0) -> None:
        (self._last if kind in _LAST else self._todo).append(Task(kind, flow_id, member, start))

    def next_task(self) -> Task | None:
        queue = self._todo or self._last
        return queue.popleft() if queue else None

    @property
    def is_idle(self) -> bool:
        return not self._todo and not self._last

    def defer(self, task: Task, due: int | None = None) -> None:
        """Put a task on the work list."""
        if task.kind in MUST_BE_DONE and task not in self.put_off:
            self.flows.change(task.flow_id, work_count=self.flows[task.flow_id].work_count + 1)
        self.put_off[task] = self.now if due is None else due

    def page(self, task: Task, items: list[str]) -> list[str]:
        """As many items of a task as the budget allows; the rest becomes another task."""
        room = self.budget
        found = items[task.start : task.start + room]
        self.budget -= len(found)
        if len(found) == room:
            self.add(task.kind, task.flow_id, task.member, task.start + room)
        return found

    # Members.

    def tell(self, subject: str, event: str) -> None:
        self.lines.append((subject, Line(event)))

    def move(self, member_id: str, **fields: Any) -> None:
        """Change a member, and count whether it is moving."""
        before = is_moving(self.members[member_id])
        self.members.change(member_id, **fields)
        member = self.members[member_id]
        by = is_moving(member) - before
        if by:
            self.flows.change(member.flow_id, moving_count=self.flows[member.flow_id].moving_count + by)

    def unblock(self, member_id: str) -> None:
        """Eligible, or delayed for the rest of its delay (D23)."""
        if self.members[member_id].delay_until > self.now:
            later, reason = EligibilityState.NOT_ELIGIBLE_UNTIL_TIME, BlockingReason.WAITING_FOR_DELAY
            self.move(member_id, eligibility=later, reason=reason)
        else:
            self.move(member_id, **QUEUED)
        self.tell(member_id, "unblocked")

    def block(self, member_id: str) -> None:
        """A runnable member with an open edge waits for it."""
        member = self.members[member_id]
        is_waiting = member.eligibility is EligibilityState.BLOCKED_BY_DEPENDENCIES
        if member.phase is LifecyclePhase.RUNNABLE and not is_waiting:
            self.move(member_id, **BLOCKED)
            self.tell(member_id, "blocked")

    def end(self, member_id: str, outcome: TerminalOutcome, **fields: Any) -> None:
        """A member has ended: its edges, and its child flow, are tasks of the same step (G7)."""
        self.move(
            member_id, phase=LifecyclePhase.TERMINAL, eligibility=EligibilityState.NOT_APPLICABLE,
            reason=BlockingReason.NONE, outcome=outcome, **fields,
        )  # fmt: skip
        member = self.members[member_id]
        self._count_end(member.flow_id, outcome, 1)
        self.tell(member_id, "completed" if outcome is TerminalOutcome.SUCCESS else str(outcome))
        self.add(TaskKind.ENDED, member.flow_id, member_id)
        if member.child_flow_id:
            self.add(TaskKind.CANCEL_CHILD, member.flow_id, member_id)

    def bring_back(self, member_id: str, *, waits: bool) -> None:
        """terminal -> runnable: it runs again when its dependencies allow."""
        member = self.members[member_id]
        self._count_end(member.flow_id, member.outcome, -1)
        self.move(
            member_id, phase=LifecyclePhase.RUNNABLE, outcome=TerminalOutcome.NONE, cancelled_by=None,
            cancel_reason=None, **(BLOCKED if waits else QUEUED),
        )  # fmt: skip
        self.tell(member_id, "replayed")

    def _count_end(self, flow_id: str, outcome: TerminalOutcome, by: int) -> None:
        ended = self.flows[flow_id].ended
        self.flows.change(flow_id, ended={**ended, outcome: ended.get(outcome, 0) + by})

    # Flows.

    def child(self, member_id: str) -> str | None:
        """The child flow of a member, if it exists: a flow that names another parent is not its child."""
        flow_id = self.members[member_id].child_flow_id
        child = self.flows.get(flow_id)
        return flow_id if child and child.parent == member_id else None

    def join(self, member_id: str) -> Join:
        return self.joins.get(member_id) or Join()


BLOCKED: dict[str, Any] = {
    "eligibility": EligibilityState.BLOCKED_BY_DEPENDENCIES, "reason": BlockingReason.WAITING_FOR_CHILDREN,
}  # fmt: skip
QUEUED: dict[str, Any] = {
    "eligibility": EligibilityState.ELIGIBLE_NOW, "reason": BlockingReason.WAITING_FOR_WORKER,
}  # fmt: skip

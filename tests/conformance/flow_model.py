"""Flows in memory: `core/rules` decides about the rows of `FlowWork`, and this names members as the tests do."""

from __future__ import annotations

from typing import NamedTuple

from flowfabric.core import contracts as c
from flowfabric.core.rules.flows import cascade, replay, steps
from flowfabric.core.rules.flows.flow import HELD, Flow
from flowfabric.core.rules.flows.steps import Graph, NewMember
from flowfabric.core.rules.flows.work import Edge as EdgeRow
from flowfabric.core.rules.flows.work import FlowWork
from flowfabric.core.states import LifecyclePhase, TerminalOutcome

LIVE = ("blocked", "waiting", "active")
PUBLIC = {
    "blocked": "waiting_children", "waiting": "waiting", "active": "active", "success": "completed", "failed": "failed",
    "cancelled": "cancelled", "skipped": "skipped",
}  # fmt: skip
WITHOUT_END = 10**9


class Edge(NamedTuple):
    up: str
    kind: c.DependencyKind
    down: str


class FlowModel:
    """One flow of `work`, which a child flow shares with the flow that it is part of."""

    def __init__(
        self, *, fail_fast: bool, work: FlowWork | None = None, flow: str = "flow", budget: int = WITHOUT_END
    ) -> None:
        self.work = work or FlowWork()
        self.flow, self.fail_fast, self.budget = flow, fail_fast, budget
        self.children: set[str] = set()  # members that stand for flows
        self.parent: str | None = None  # the member that stands for this flow, as `key` names it

    def key(self, name: str) -> str:
        return f"{self.flow}/{name}"

    def add(
        self,
        names: list[str],
        edges: list[Edge],
        policies: dict[str, c.EdgeDependencyPolicy],
        children: dict[str, FlowModel] | None = None,
    ) -> None:
        flows = {name: child.flow for name, child in (children or {}).items()}
        self.children |= flows.keys()
        graph = Graph(
            members=[NewMember(self.key(name), flows.get(name)) for name in names],
            edges={f"{self.key(e.up)}>{e.down}": EdgeRow(self.key(e.up), self.key(e.down), e.kind) for e in edges},
            policies={self.key(name): policy for name, policy in policies.items()},
        )
        self.work.budget = self.budget
        if self.work.flows.get(self.flow) is None:
            policy = c.FailurePolicy.FAIL_FAST if self.fail_fast else c.FailurePolicy.CONTINUE
            steps.create_flow(self.work, self.flow, Flow(failure_policy=policy, parent=self.parent), graph)
        else:
            steps.grow_flow(self.work, self.flow, graph)
        self.carry_out()

    @property
    def row(self) -> Flow:
        return self.work.flows[self.flow]

    @property
    def state(self) -> str:
        return str(self.row.state)

    @property
    def has_ended(self) -> bool:
        return self.row.has_ended

    @property
    def is_held(self) -> bool:
        """Its stand-in may not start yet, and so may none of its members."""
        return self.row.staged == HELD

    @property
    def nodes(self) -> dict[str, str]:
        """The state of each member by name: one of LIVE, or an outcome."""
        return {key.removeprefix(f"{self.flow}/"): self._state(key) for key in self.work.members_of[self.flow]}

    def _state(self, key: str) -> str:
        member = self.work.members[key]
        if member.has_ended:
            return str(member.outcome)
        if member.phase is LifecyclePhase.ACTIVE:
            return "active"
        return "blocked" if member.eligibility == "blocked_by_dependencies" else "waiting"

    def public_states(self) -> dict[str, str]:
        return {name: PUBLIC[state] for name, state in self.nodes.items()}

    def start(self, name: str) -> None:
        steps.start_member(self.work, self.key(name))
        self.carry_out()

    def end(self, name: str, outcome: str) -> None:
        self.work.end(self.key(name), TerminalOutcome(outcome))
        self.carry_out()

    def cancel_flow(self, policy: c.CancellationPolicy) -> None:
        cascade.cancel_flow(self.work, self.flow, policy, None)
        self.carry_out()

    def replay(self, name: str) -> None:
        assert replay.replay(self.work, self.key(name)) is None
        self.carry_out()

    def carry_out(self) -> None:
        """Drive the step, and then what it put on the work list, step by step."""
        self.work.budget = self.budget
        steps.drive(self.work)
        while due := [task for task, at in self.work.put_off.items() if at <= self.work.now]:
            self.work.budget = self.budget
            for task in due:
                steps.take_up(self.work, task)
            steps.drive(self.work)

"""A naive flow in memory: what follows from each operation is worked out edge by edge, without a thought of cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowfabric.core import contracts as c
from flowfabric.core.rules.graph import EdgeGroupState, EdgeState, edge_state, join_state
from flowfabric.core.states import TerminalOutcome

LIVE = ("blocked", "waiting", "active")
PUBLIC = {
    "blocked": "waiting_children", "waiting": "waiting", "active": "active", "success": "completed", "failed": "failed",
    "cancelled": "cancelled", "skipped": "skipped",
}  # fmt: skip


@dataclass
class Edge:
    up: str
    kind: c.DependencyKind
    down: str
    state: EdgeState = EdgeState.UNSATISFIED
    is_failure: bool = False  # how it was counted when it became impossible


@dataclass
class Join:
    policy: c.EdgeDependencyPolicy
    state: EdgeGroupState = EdgeGroupState.PENDING
    failed: bool = False  # it became impossible with a failure


@dataclass
class FlowModel:
    """States of members by name; a state is one of LIVE or an outcome."""

    nodes: dict[str, str] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    joins: dict[str, Join] = field(default_factory=dict)
    fail_fast: bool = False
    ran: set[str] = field(default_factory=set)
    by_cascade: set[str] = field(default_factory=set)
    fallen: set[str] = field(default_factory=set)  # with their flow, which failed fast
    state: str = "open"
    started: bool = False
    sink_failures: set[str] = field(default_factory=set)
    children: dict[str, FlowModel] = field(default_factory=dict)  # by the member that stands for it
    is_held: bool = False  # its stand-in may not start yet, and so may nothing of it

    def add(
        self,
        names: list[str],
        edges: list[Edge],
        policies: dict[str, c.EdgeDependencyPolicy],
        children: dict[str, FlowModel] | None = None,
    ) -> None:
        self.edges += edges
        self.children |= children or {}
        for name in names:
            incoming = [edge for edge in edges if edge.down == name]
            self.nodes[name] = "blocked"
            if incoming:
                self.joins[name] = Join(policies.get(name, c.AllOfEdges()))
            else:
                self._promote(name)
        self._settle(list(dict.fromkeys(edge.up for edge in edges if self.nodes[edge.up] not in LIVE)), edges)

    def incoming(self, name: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.down == name]

    def outgoing(self, name: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.up == name]

    @property
    def has_ended(self) -> bool:
        return self.state in ("completed", "failed", "cancelled")

    @property
    def left(self) -> list[str]:
        return [name for name, state in self.nodes.items() if state in LIVE]

    def public_states(self) -> dict[str, str]:
        """Stand-ins never run themselves, and the members of a flow that is held wait for it."""
        waits = self.nodes if self.is_held else self.children
        return {
            name: PUBLIC["blocked" if state == "waiting" and name in waits else state]
            for name, state in self.nodes.items()
        }

    def follow(self) -> None:
        """Each of a flow and the member that stands for it ends with the other."""
        while ended := [name for name, child in self.children.items() if child.has_ended and self.nodes[name] in LIVE]:
            state = self.children[ended[0]].state
            self.end(ended[0], "success" if state == "completed" else state)
        for name, child in self.children.items():
            if self.nodes[name] not in LIVE:
                self.ran.add(name)  # it is not brought back
                if not child.has_ended:
                    child.cancel_flow(c.CancellationPolicy.CANCEL_ALL)

    def start(self, name: str) -> None:
        self.nodes[name], self.started = "active", True
        self.ran.add(name)
        self._settle([])

    def end(self, name: str, outcome: str) -> None:
        self.nodes[name] = outcome
        self.by_cascade.discard(name)
        self._settle([name])

    def cancel_flow(self, policy: c.CancellationPolicy) -> None:
        self.state = "cancelled"
        for name in self.left:
            child = self.children.get(name)
            if child and not child.is_held and not child.has_ended:
                child.cancel_flow(policy)
            if policy is c.CancellationPolicy.CANCEL_ALL or self.nodes[name] != "active":
                self.nodes[name] = "cancelled"

    def replay(self, name: str) -> None:
        outcome, fell = self.nodes[name], self.state == "failed" and self.fail_fast
        self.fallen.discard(name)
        if self.has_ended:
            self.state, self.started = "running", True
        self.sink_failures.discard(name)
        self.nodes[name] = "waiting"
        for edge in self.incoming(name):
            if edge.state is EdgeState.SATISFIED and self.nodes[edge.up] in LIVE:
                self._take_back(edge)
        if outcome == "skipped" or name not in self.ran:
            self._open_again(name)
        self._bring_back(name)
        join = self.joins.get(name)
        if join and join.state is EdgeGroupState.PENDING:
            self.nodes[name] = "blocked"
        if fell and (self.sink_failures or any(join.failed for join in self.joins.values())):
            self._failed()
        self._settle(self._revive() if fell and not self.has_ended else [])

    def _bring_back(self, name: str) -> None:
        """What waited for it, or was skipped because of it, waits for it again."""
        reopened = [name]
        for each in reopened:  # grows while it is walked
            for edge in self.outgoing(each):
                if edge.state is EdgeState.UNSATISFIED or edge.down in self.ran or not self._take_back(edge):
                    continue
                if self.nodes[edge.down] == "skipped":
                    reopened.append(edge.down)
                if self.nodes[edge.down] in ("waiting", "skipped") or edge.down in self.fallen:
                    self.nodes[edge.down] = "blocked"
                    self.fallen.discard(edge.down)

    def _revive(self) -> list[str]:
        """What fell with the flow goes on where it can; answers who has ended, and may have more to say."""
        stand_ins = self.fallen & self.children.keys()  # which are not brought back
        for name in self.fallen - stand_ins:
            join = self.joins.get(name)
            if join is None or join.state is not EdgeGroupState.IMPOSSIBLE:
                is_open = join is not None and join.state is EdgeGroupState.PENDING
                self.nodes[name] = "blocked" if is_open else "waiting"
                self.fallen.discard(name)
                self.by_cascade.discard(name)
        if stand_ins:
            self.sink_failures |= stand_ins
            self._failed()
        over = (*LIVE, "skipped")
        return [name for name, state in self.nodes.items() if state not in over and name not in self.fallen]

    def _open_again(self, name: str) -> None:
        """A skipped member waits again for what made it impossible."""
        for edge in self.incoming(name):
            if edge.state is not EdgeState.IMPOSSIBLE:
                continue
            self._take_back(edge)
            state = self.nodes[edge.up]
            if state not in LIVE and edge_state(edge.kind, TerminalOutcome(state)) is EdgeState.SATISFIED:
                edge.state = EdgeState.SATISFIED
                join = self.joins[name]
                if join.state is EdgeGroupState.PENDING:
                    join.state = self._join_state(name)

    def _join_state(self, name: str) -> EdgeGroupState:
        return join_state(self.joins[name].policy.needed, [edge.state for edge in self.incoming(name)])

    def _take_back(self, edge: Edge) -> bool:
        edge.state, edge.is_failure = EdgeState.UNSATISFIED, False
        join = self.joins[edge.down]
        join.state = self._join_state(edge.down)
        if join.state is EdgeGroupState.PENDING:
            join.failed = False
        return join.state is EdgeGroupState.PENDING

    def _settle(self, ended: list[str], new: list[Edge] | None = None) -> None:
        """Everything that follows, until nothing follows any more. new: edges of members that had ended before."""
        pruned: list[str] = []
        queue = list(ended)
        known = set(ended) if new else set()
        while (queue or pruned) and not self.has_ended:
            if queue:
                name = queue.pop(0)
                self._propagate(name, queue, pruned, new if name in known else None)
                continue
            join = pruned.pop(0)
            for edge in self.incoming(join):
                is_live = edge.state is EdgeState.UNSATISFIED and self.nodes[edge.up] in LIVE
                if is_live and not self._is_needed(edge.up, join):
                    self.nodes[edge.up] = "cancelled"
                    self.by_cascade.add(edge.up)
                    queue.append(edge.up)
        self._set_state()

    def _propagate(self, name: str, queue: list[str], pruned: list[str], new: list[Edge] | None) -> None:
        outgoing = self.outgoing(name) if new is None else [edge for edge in new if edge.up == name]
        if not outgoing and self._is_failure(name):
            self.sink_failures.add(name)
            self._failed()
        for edge in outgoing:
            if edge.state is EdgeState.UNSATISFIED:
                self._resolve(edge, queue, pruned)

    def _promote(self, name: str) -> None:
        """It may start; one that stands for a flow lets that start, and has run then."""
        self.nodes[name] = "waiting"
        if name in self.children:
            self.ran.add(name)
            child = self.children[name]
            child.is_held = False
            if child.nodes:
                child._set_state()

    def _resolve(self, edge: Edge, queue: list[str], pruned: list[str]) -> None:
        outcome = TerminalOutcome(self.nodes[edge.up])
        edge.state = edge_state(edge.kind, outcome)
        if edge.state is EdgeState.IMPOSSIBLE:
            is_taken = edge.kind is c.DependencyKind.ON_FAILURE and not self._is_failure(edge.up)
            edge.is_failure = not is_taken and outcome is not TerminalOutcome.SKIPPED
        join = self.joins[edge.down]
        if join.state is not EdgeGroupState.PENDING:
            self._fail_with(edge.down)
            return
        join.state = self._join_state(edge.down)
        if join.state is EdgeGroupState.PENDING:
            return
        if not isinstance(join.policy, c.AllOfEdges) and join.policy.on_satisfied is c.OnSatisfied.CANCEL_REMAINING:
            pruned.append(edge.down)
        if join.state is EdgeGroupState.SATISFIED:
            if self.nodes[edge.down] == "blocked" and not self.has_ended:
                self._promote(edge.down)
                self.started = self.started or edge.down in self.children
            return
        self._fail_with(edge.down)
        if self.nodes[edge.down] in LIVE and not self.has_ended:
            self.nodes[edge.down] = "skipped"
            queue.append(edge.down)

    def _fail_with(self, name: str) -> None:
        """A join that is impossible takes no failure."""
        join = self.joins[name]
        if join.state is EdgeGroupState.IMPOSSIBLE and any(each.is_failure for each in self.incoming(name)):
            join.failed = join.failed or not self.has_ended
            self._failed()

    def _is_failure(self, name: str) -> bool:
        return self.nodes[name] == "failed" or (self.nodes[name] == "cancelled" and name not in self.by_cascade)

    def _is_needed(self, name: str, besides: str) -> bool:
        return any(
            edge.state is EdgeState.UNSATISFIED
            and edge.down != besides
            and self.joins[edge.down].state is EdgeGroupState.PENDING
            for edge in self.outgoing(name)
        )

    def _failed(self) -> None:
        if self.fail_fast and not self.has_ended:
            self.state = "failed"
            self.fallen |= {*self.left}
            for name in self.left:
                self.nodes[name] = "cancelled"
                self.by_cascade.add(name)

    def _set_state(self) -> None:
        if self.has_ended or self.is_held:
            return
        if not self.left:
            failed = bool(self.sink_failures) or any(join.failed for join in self.joins.values())
            self.state = "failed" if failed else "completed"
        elif self.started or self.state != "open":
            moving = any(state in ("waiting", "active") for state in self.nodes.values())
            self.state = "running" if moving else "blocked"

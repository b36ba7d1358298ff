"""Joins: how the end of an upstream counts for an edge, and when the edges of a downstream decide (D26).

`lib/flow/edge.lua` and `lib/flow/join_record.lua` state the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from flowfabric.core.contracts.flows.edges import AllOfEdges, EdgeDependencyPolicy, OnSatisfied
from flowfabric.core.rules.flows.graph import DependencyKind, EdgeGroupState, EdgeState, edge_state
from flowfabric.core.rules.outcome import Changes
from flowfabric.core.states import TerminalOutcome

CASCADE = "flow_cascade"  # the source of a cancel, when the flow no longer needed the member


class Tally(StrEnum):
    """How a join counts a resolved edge. A skipped edge is impossible but not a failure."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Join:
    """The counted edges of one downstream."""

    policy: EdgeDependencyPolicy = field(default_factory=AllOfEdges)
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    state: EdgeGroupState = EdgeGroupState.PENDING

    @property
    def open_count(self) -> int:
        return self.total - self.succeeded - self.failed - self.skipped

    @property
    def is_open(self) -> bool:
        """Whether the downstream has something to wait for."""
        return self.total > 0 and self.state is EdgeGroupState.PENDING

    @property
    def cancels_rest(self) -> bool:
        """Whether its decision also ends upstreams that still run."""
        return self.policy.on_satisfied is OnSatisfied.CANCEL_REMAINING


def is_failure(outcome: TerminalOutcome, cancelled_by: str | None) -> bool:
    """Whether it failed, timed out, or was cancelled by a caller; a cancel by the flow itself is no failure."""
    if outcome is TerminalOutcome.CANCELLED:
        return cancelled_by != CASCADE
    return outcome in (TerminalOutcome.FAILED, TerminalOutcome.EXPIRED)


def verdict(
    kind: DependencyKind, outcome: TerminalOutcome, *, is_failure: bool, is_handled: bool = False
) -> tuple[EdgeState, Tally]:
    """The state of an edge after the end of its upstream, and how the join counts it.

    is_handled: an on_failure edge leads from the upstream to a handler. Its failure is compensated: a dependent that
    needed its success is skipped, and the flow does not fail.
    """
    state = edge_state(kind, outcome)
    if state is EdgeState.SATISFIED:
        return state, Tally.SUCCEEDED
    if kind is DependencyKind.ON_FAILURE:
        return state, Tally.FAILED if is_failure else Tally.SKIPPED
    is_cancelled = outcome is TerminalOutcome.CANCELLED and is_failure
    is_skip = outcome is TerminalOutcome.SKIPPED or (is_handled and not is_cancelled)
    return state, Tally.SKIPPED if is_skip else Tally.FAILED


def decide(join: Join) -> EdgeGroupState:
    """The state of the join. With fewer edges than needed it is incomplete and undecided."""
    needed = join.total if join.policy.needed is None else join.policy.needed
    if join.total < needed:
        return EdgeGroupState.PENDING
    if join.succeeded >= needed:
        return EdgeGroupState.SATISFIED
    if join.failed + join.skipped > join.total - needed:
        return EdgeGroupState.IMPOSSIBLE
    return EdgeGroupState.PENDING


def count(join: Join, tally: Tally) -> Changes:
    """Count one more resolved edge. A join is decided once."""
    changes = Changes({str(tally): getattr(join, tally) + 1})
    if join.state is not EdgeGroupState.PENDING:
        return changes
    return changes | Changes({"state": decide(changes.apply_to(join))})


def uncount(join: Join, tally: Tally) -> Changes:
    """Uncount a resolved edge whose upstream runs again."""
    changes = Changes({str(tally): max(0, getattr(join, tally) - 1)})
    return changes | Changes({"state": decide(changes.apply_to(join))})


def grow(join: Join, edges: int) -> Changes:
    """Add edges. A decided join is open again."""
    return Changes({"total": join.total + edges, "state": EdgeGroupState.PENDING})


def tally_to_take_back(
    join: Join, state: EdgeState, kind: DependencyKind, outcome: TerminalOutcome, *, is_failure: bool,
    is_handled: bool = False,
) -> Tally:  # fmt: skip
    """How a reopened edge was counted; outcome: how its upstream had ended then.

    The edge does not store it. If the join has counted none of that kind, the other kind is meant.
    """
    if state is EdgeState.SATISFIED:
        return Tally.SUCCEEDED
    is_cancelled = outcome is TerminalOutcome.CANCELLED and is_failure
    is_by_kind = kind is DependencyKind.ON_FAILURE or is_handled
    is_skip = outcome is TerminalOutcome.SKIPPED or (is_by_kind and not is_cancelled)
    meant = Tally.SKIPPED if is_skip else Tally.FAILED
    if getattr(join, meant) == 0:
        return Tally.SKIPPED if meant is Tally.FAILED else Tally.FAILED
    return meant

"""Graphs: how an outcome resolves an edge, topological orders, cycles and paths.

`lib/flow/edge.lua` and `lib/flow/cycle_check.lua` state the same rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import InvalidInput

N = TypeVar("N", bound=Hashable)

_FAILURES = frozenset({TerminalOutcome.FAILED, TerminalOutcome.EXPIRED})


class DependencyKind(StrEnum):
    """Which outcomes of the upstream let the downstream run."""

    SUCCESS_ONLY = "success_only"
    ANY_TERMINAL = "any_terminal"
    ON_FAILURE = "on_failure"  # failed or expired; a cancelled upstream needs no failure handling


class EdgeState(StrEnum):
    """A staged edge is known to the join, but does not block the downstream yet."""

    STAGED = "staged"
    UNSATISFIED = "unsatisfied"
    SATISFIED = "satisfied"
    IMPOSSIBLE = "impossible"


class EdgeGroupState(StrEnum):
    PENDING = "pending"
    SATISFIED = "satisfied"
    IMPOSSIBLE = "impossible"
    CANCELLED = "cancelled"  # kept for other programs; no transition leads here


def edge_state(kind: DependencyKind, outcome: TerminalOutcome) -> EdgeState:
    """The state of an edge after its upstream ended with this outcome; NONE leaves it open."""
    if outcome is TerminalOutcome.NONE:
        return EdgeState.UNSATISFIED
    if kind is DependencyKind.ANY_TERMINAL:
        return EdgeState.SATISFIED
    wanted = outcome in _FAILURES if kind is DependencyKind.ON_FAILURE else outcome is TerminalOutcome.SUCCESS
    return EdgeState.SATISFIED if wanted else EdgeState.IMPOSSIBLE


def topological_order(nodes: Iterable[N], edges: Iterable[tuple[N, N]]) -> list[N]:
    """Sort nodes after their upstreams, otherwise in the given order. A cycle is refused with its nodes."""
    order = list(nodes)
    children: dict[N, list[N]] = {node: [] for node in order}
    waits = dict.fromkeys(order, 0)
    for upstream, downstream in edges:
        children[upstream].append(downstream)
        waits[downstream] += 1
    ready = [node for node in order if not waits[node]]
    sorted_nodes: list[N] = []
    for node in ready:  # grows while it is walked
        sorted_nodes.append(node)
        for child in children[node]:
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
    if len(sorted_nodes) < len(order):
        raise InvalidInput("edges", find_cycle(order, children), "must not close a cycle", code="cycle_detected")
    return sorted_nodes


def leads_to(children: Mapping[N, Iterable[N]], start: N, goal: N) -> bool:
    """Whether edges lead from `start` to `goal`; exact for any size (D28)."""
    seen, queue = {start}, [start]
    for node in queue:  # grows while it is walked
        for child in children.get(node, ()):
            if child == goal:
                return True
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return False


def closes_cycle(children: Mapping[N, Iterable[N]], upstream: N, downstream: N) -> bool:
    """Whether one more edge would close a cycle."""
    return leads_to(children, downstream, upstream)


def find_cycle(nodes: Iterable[N], children: Mapping[N, list[N]]) -> list[N]:
    """The nodes of some cycle, in order; empty when there is none."""
    done: set[N] = set()
    for start in nodes:
        path: list[N] = []
        at: dict[N, int] = {}
        stack = [(start, iter(children[start]))]
        while stack:
            node, rest = stack[-1]
            if node not in at:
                at[node] = len(path)
                path.append(node)
            following = next((each for each in rest if each not in done), None)
            if following is None:
                stack.pop()
                done.add(path.pop())
                del at[node]
            elif following in at:
                return path[at[following] :]
            else:
                stack.append((following, iter(children[following])))
    return []


class Timing(NamedTuple):
    """When a node started and ended, in milliseconds; None if it has not."""

    started_at: int | None
    ended_at: int | None


def critical_path(timings: Mapping[N, Timing], edges: Iterable[tuple[N, N]]) -> list[N]:
    """The critical path: from the node that ended last back to the upstream that ended last, and so on.

    An upstream that ended after its downstream had started is not on the path.
    """
    upstreams: dict[N, list[N]] = {}
    for upstream, downstream in edges:
        upstreams.setdefault(downstream, []).append(upstream)

    def end_of(node: N) -> int:
        return timings[node].ended_at or 0

    ended = [node for node in timings if timings[node].ended_at is not None and timings[node].started_at is not None]
    if not ended:
        return []
    path = [max(reversed(ended), key=end_of)]  # of nodes that ended together, the last one listed
    while True:
        started_at = timings[path[-1]].started_at or 0
        before = [node for node in upstreams.get(path[-1], []) if 0 < end_of(node) <= started_at]
        if not before:
            return path[::-1]
        path.append(max(reversed(before), key=end_of))

"""The pure rules of graphs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from flowfabric.core.contracts.flows.edges import AllOfEdges, AnyOfEdges, EdgeDependencyPolicy, QuorumOfEdges
from flowfabric.core.rules.flows.graph import (
    DependencyKind,
    EdgeGroupState,
    EdgeState,
    Timing,
    critical_path,
    edge_state,
    find_cycle,
    topological_order,
)
from flowfabric.core.rules.flows.joins import Join, decide
from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import InvalidInput

SAT, IMP, OPEN = EdgeState.SATISFIED, EdgeState.IMPOSSIBLE, EdgeState.UNSATISFIED


@pytest.mark.parametrize(
    ("kind", "satisfying"),
    [
        (DependencyKind.SUCCESS_ONLY, {"success"}),
        (DependencyKind.ON_FAILURE, {"failed", "expired"}),
        (DependencyKind.ANY_TERMINAL, {"success", "failed", "expired", "cancelled", "skipped"}),
    ],
)
def test_which_ends_satisfy_an_edge(kind: DependencyKind, satisfying: set[str]) -> None:
    for outcome in TerminalOutcome:
        state = edge_state(kind, outcome)
        if outcome is TerminalOutcome.NONE:
            assert state is OPEN
        else:
            assert state is (SAT if outcome in satisfying else IMP)


@pytest.mark.parametrize(
    ("policy", "edges", "state"),
    [
        (AllOfEdges(), [SAT, OPEN], EdgeGroupState.PENDING),
        (AllOfEdges(), [SAT, SAT], EdgeGroupState.SATISFIED),
        (AllOfEdges(), [IMP, OPEN], EdgeGroupState.IMPOSSIBLE),
        (AnyOfEdges(), [IMP, OPEN], EdgeGroupState.PENDING),
        (AnyOfEdges(), [IMP, SAT], EdgeGroupState.SATISFIED),
        (AnyOfEdges(), [IMP, IMP], EdgeGroupState.IMPOSSIBLE),
        (QuorumOfEdges(k=2), [SAT, IMP, OPEN], EdgeGroupState.PENDING),
        (QuorumOfEdges(k=2), [SAT, IMP, IMP], EdgeGroupState.IMPOSSIBLE),
        (QuorumOfEdges(k=2), [IMP], EdgeGroupState.PENDING),
    ],
)
def test_when_a_join_is_decided(policy: EdgeDependencyPolicy, edges: list[EdgeState], state: EdgeGroupState) -> None:
    join = Join(policy, len(edges), succeeded=edges.count(SAT), failed=edges.count(IMP))
    assert decide(join) is state
    assert decide(replace(join, failed=0, skipped=edges.count(IMP))) is state


def test_every_node_comes_after_what_it_waits_for() -> None:
    assert topological_order("dcba", [("a", "b"), ("b", "c"), ("a", "d")]) == ["a", "b", "d", "c"]
    assert topological_order("ab", []) == ["a", "b"]


def test_a_cycle_is_refused_with_its_nodes() -> None:
    with pytest.raises(InvalidInput) as caught:
        topological_order("xabc", [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")])
    assert caught.value.code == "cycle_detected"
    assert "'a', 'b', 'c'" in str(caught.value)


@pytest.mark.parametrize("seed", range(50))
def test_orders_and_cycles_of_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    nodes = list(range(rng.randint(1, 30)))
    edges = [(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randint(0, 40))]
    children: dict[int, list[int]] = {node: [down for up, down in edges if up == node] for node in nodes}
    cycle = find_cycle(nodes, children)
    if cycle:
        assert all(follower in children[node] for node, follower in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        with pytest.raises(InvalidInput):
            topological_order(nodes, edges)
    else:
        order = topological_order(nodes, edges)
        assert sorted(order) == nodes
        assert all(order.index(up) < order.index(down) for up, down in edges)


def test_a_deep_chain_needs_no_stack() -> None:
    edges = [(i, i + 1) for i in range(20_000)]
    assert len(topological_order(range(20_001), edges)) == 20_001
    with pytest.raises(InvalidInput):
        topological_order(range(20_001), [*edges, (20_000, 0)])


def test_the_critical_path_is_the_chain_that_ended_last() -> None:
    timings = {
        "a": Timing(0, 10),
        "b": Timing(10, 15),
        "c": Timing(10, 40),
        "d": Timing(40, 50),
        "e": Timing(None, None),
    }
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")]
    assert critical_path(timings, edges) == ["a", "c", "d"]
    assert critical_path({"x": Timing(None, None)}, []) == []


def test_what_ended_after_its_downstream_had_started_is_not_on_the_critical_path() -> None:
    timings = {"a": Timing(0, 10), "late": Timing(0, 90), "joined": Timing(12, 100)}
    assert critical_path(timings, [("a", "joined"), ("late", "joined")]) == ["a", "joined"]

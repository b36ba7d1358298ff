"""Graphs as they are drawn: edges, joins and payloads, and what is refused before anything is sent."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from flowfabric.client.flows.builder import FlowBuilder
from flowfabric.client.flows.graph import MOST_UPSTREAMS, graph_of, in_parts
from flowfabric.client.flows.nodes import Node
from flowfabric.client.flows.result_refs import as_inputs, filled
from flowfabric.client.tasks.submission import Submitter
from flowfabric.client.tasks.task import task
from flowfabric.core import contracts as c
from flowfabric.core.ids import FlowId, Namespace
from flowfabric.core.partition import PartitionConfig, flow_partition
from flowfabric.errors import InvalidInput

PARTITIONS = PartitionConfig()
SUBMITTER = Submitter(PARTITIONS, Namespace("tests"), "")


@task
def plan(topic: str) -> list[str]:
    return [topic]


@task
def search(query: str, plan: list[str] | None = None) -> str:
    return query


@task
def judge(found: list[str], plan: list[str] | None = None) -> int:
    return len(found)


@task
def report(number: int, options: dict[str, Any] | None = None) -> None: ...


@task
def tidy(after: str = "") -> None: ...


def drawn(name: str = "research") -> FlowBuilder:
    flow_id = FlowId(str(uuid.uuid4()))
    return FlowBuilder(name, PARTITIONS, flow_partition(flow_id, PARTITIONS).tag, flow_id)


def edges_of(flow: FlowBuilder) -> set[tuple[str, str, str]]:
    """Upstream, kind and downstream of each edge; the kind has a + when it passes the result."""
    names = {node.id: node.name for node in flow.nodes.values()}
    return {
        (
            names[edge.upstream_execution_id],
            edge.dependency_kind + ("+" if edge.data_passing_ref else ""),
            names[edge.downstream_execution_id],
        )
        for edge in graph_of(flow, SUBMITTER).edges
    }


def call_of(node: Node[Any], **results: str) -> Any:
    """What the worker calls when these nodes have given these results, as JSON."""
    return msgspec.json.decode(filled(node.payload, as_inputs({name: text.encode() for name, text in results.items()})))


def test_a_node_as_an_argument_is_an_edge_and_becomes_its_result() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    b = flow.add(search, "moon", a)
    assert edges_of(flow) == {("plan", "success_only+", "search")}
    assert call_of(b, plan='["x"]') == {"args": ["moon", ["x"]]}


def test_nodes_are_found_in_lists_and_dicts_and_named_arguments() -> None:
    flow = drawn()
    a, b = flow.add(search, "a"), flow.add(search, "b")
    c = flow.add(judge, [a.result, "plain", b.result])
    d = flow.add(report, number=c.result, options={"deep": [{"of": a}]})
    assert call_of(c, **{"search": '"A"', "search-2": '"B"'}) == {"args": [["A", "plain", "B"]]}
    assert call_of(d, judge="3", search='"A"') == {"kwargs": {"number": 3, "options": {"deep": [{"of": "A"}]}}}
    assert ("search", "success_only+", "report") in edges_of(flow)


def test_what_looks_like_a_place_in_a_payload_stays_what_it_is() -> None:
    flow = drawn()
    a = flow.add(judge, [])
    b = flow.add(report, a, {"given": [[[0], "judge"]]})
    assert call_of(b, judge="7") == {"args": [7, {"given": [[[0], "judge"]]}]}


def test_a_task_given_by_its_name_takes_options_beside_the_arguments() -> None:
    flow = drawn()
    a = flow.add("elsewhere", 1, priority=5, more=2)
    assert (a.name, a.task.options.priority, call_of(a)) == ("elsewhere", 5, {"args": [1], "kwargs": {"more": 2}})
    (member,) = graph_of(flow, SUBMITTER).members
    assert (member.execution_kind, member.priority) == ("elsewhere", 5)


def test_after_is_order_without_data_for_each_kind_of_end() -> None:
    flow = drawn()
    a, b = flow.add(search, "a"), flow.add(search, "b")
    flow.add(judge, [], after=[a, b.ended])
    flow.add(report, 1, after=b.failed)
    assert edges_of(flow) == {
        ("search", "success_only", "judge"),
        ("search-2", "any_terminal", "judge"),
        ("search-2", "on_failure", "report"),
    }


def test_a_task_with_a_parameter_called_after_keeps_it() -> None:
    flow = drawn()
    a = flow.add(search, "a")
    b = flow.add(tidy, after="lunch").after(a)
    assert call_of(b) == {"args": [], "kwargs": {"after": "lunch"}}
    assert edges_of(flow) == {("search", "success_only", "tidy")}


def test_the_same_node_as_argument_and_in_after_is_one_edge() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    flow.add(search, "moon", a, after=[a])
    assert edges_of(flow) == {("plan", "success_only+", "search")}


def test_nodes_are_called_after_their_tasks_and_their_ids_follow_from_that() -> None:
    flow_id = FlowId(str(uuid.uuid4()))
    tag = flow_partition(flow_id, PARTITIONS).tag
    one, two = (FlowBuilder("research", PARTITIONS, tag, flow_id) for _ in range(2))
    names = [node.name for node in one.map(search, ["a", "b", "c"])]
    assert names == ["search", "search-2", "search-3"]
    assert [node.id for node in two.map(search, ["a", "b", "c"])] == [node.id for node in one.nodes.values()]
    assert len({node.id for node in one.nodes.values()}) == 3


def test_map_makes_a_node_for_each_item_with_the_common_arguments() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    nodes = flow.map(search, ["x", "y"], a)
    assert [call_of(node, plan="[]")["args"] for node in nodes] == [["x", []], ["y", []]]


@pytest.mark.parametrize(
    ("join", "policy"),
    [
        (lambda flow, nodes: flow.quorum(2, nodes), c.QuorumOfEdges(k=2)),
        (
            lambda flow, nodes: flow.quorum(2, nodes, on_satisfied="let_run"),
            c.QuorumOfEdges(k=2, on_satisfied=c.OnSatisfied.LET_RUN),
        ),
        (lambda flow, nodes: flow.any(nodes), c.AnyOfEdges()),
    ],
)
def test_joins_give_the_list_of_results_that_are_there(join: Callable[..., Any], policy: object) -> None:
    flow = drawn()
    nodes = flow.map(search, ["a", "b", "c"])
    node = flow.add(judge, join(flow, nodes))
    (made,) = graph_of(flow, SUBMITTER).joins
    assert (made.downstream_execution_id, made.policy) == (node.id, policy)
    assert call_of(node, **{"search-3": '"C"', "search": '"A"'}) == {"args": [["A", "C"]]}


def test_joins_take_whatever_goes_through_nodes() -> None:
    flow = drawn()
    flow.add(judge, flow.quorum(2, (flow.add(search, each) for each in "abc")))
    (made,) = graph_of(flow, SUBMITTER).joins
    assert made.policy == c.QuorumOfEdges(k=2)


def test_all_needs_no_join_of_its_own() -> None:
    flow = drawn()
    flow.add(judge, flow.all(flow.map(search, ["a", "b"])))
    assert (len(graph_of(flow, SUBMITTER).edges), graph_of(flow, SUBMITTER).joins) == (2, ())


def test_a_quorum_beside_what_all_of_it_depends_on_counts_that_too() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    flow.add(judge, flow.quorum(2, flow.map(search, ["a", "b", "c"], a)), a)
    (made,) = graph_of(flow, SUBMITTER).joins
    assert made.policy == c.QuorumOfEdges(k=3)


def test_a_quorum_beside_something_else_is_refused() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    flow.add(judge, flow.quorum(2, flow.map(search, ["a", "b", "c"])), a)
    with pytest.raises(InvalidInput, match="join in two steps"):
        graph_of(flow, SUBMITTER)


@pytest.mark.parametrize("end", ["ended", "failed"])
def test_ends_that_come_without_a_run_do_not_vouch_for_what_stands_beside_them(end: str) -> None:
    """A node that is skipped has ended, and one whose deadline comes while it waits has failed."""
    flow = drawn()
    a = flow.add(plan, "tides")
    nodes = flow.map(search.with_options(deadline=60), ["a", "b"], a)
    flow.add(judge, [], after=[flow.any([getattr(node, end) for node in nodes]), a])
    with pytest.raises(InvalidInput, match=r"'plan', which may not have succeeded .* join in two steps"):
        graph_of(flow, SUBMITTER)


def test_failures_of_what_has_run_vouch_for_what_stands_beside_them() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    flow.add(judge, [], a, after=flow.any([node.failed for node in flow.map(search, ["a", "b"], a)]))
    (made,) = graph_of(flow, SUBMITTER).joins
    assert made.policy == c.QuorumOfEdges(k=2)


def test_a_quorum_of_all_ends_needs_what_stands_beside_it_anyway() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    flow.add(judge, [], a, after=flow.quorum(2, [node.ended for node in flow.map(search, ["a", "b"], a)]))
    (made,) = graph_of(flow, SUBMITTER).joins
    assert made.policy == c.QuorumOfEdges(k=3)


def test_two_quorums_of_one_node_are_refused() -> None:
    flow = drawn()
    nodes = flow.map(search, ["a", "b", "c"])
    flow.add(judge, flow.any(nodes[:2]), after=flow.any(nodes[1:]))
    with pytest.raises(InvalidInput, match="one any-of or quorum"):
        graph_of(flow, SUBMITTER)


def test_a_cycle_is_refused_with_the_names_of_its_nodes() -> None:
    flow = drawn()
    a = flow.add(plan, "tides")
    b = flow.add(search, "moon", a)
    a.after(b)
    with pytest.raises(InvalidInput, match=r"must not close a cycle \(got \['plan', 'search'\]\)") as refused:
        graph_of(flow, SUBMITTER)
    assert refused.value.code == "cycle_detected"


@pytest.mark.parametrize(
    "use",
    [
        lambda flow, stranger: flow.add(search, stranger),
        lambda flow, stranger: flow.add(judge, [stranger.result]),
        lambda flow, stranger: flow.add(plan, "x", after=[stranger]),
        lambda flow, stranger: flow.all([stranger]),
    ],
)
def test_a_node_of_another_flow_is_refused(use: Callable[..., Any]) -> None:
    flow, other = drawn("here"), drawn("there")
    stranger = other.add(search, "a")
    with pytest.raises(InvalidInput, match=r"must be a node of FlowBuilder\('here'\)"):
        use(flow, stranger)
    assert not flow.nodes


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda flow, node: flow.add(plan, 3), "topic"),
        (lambda flow, node: flow.add(plan, node, "more"), "too many"),
        (lambda flow, node: flow.add(report, node), "gives <class 'str'>, but report takes <class 'int'>"),
        (lambda flow, node: flow.add(report, flow.all([node])), r"gives list\[str\]"),
        (lambda flow, node: flow.add(search, node.failed), "has no result; pass it as after="),
        (lambda flow, node: flow.add(report, 1, {7: node}), r"must be a text key to contain Node\('search'\)"),
        (lambda flow, node: flow.add(judge, {node}), "has no JSON form"),
        (lambda flow, node: flow.add(plan, "x", after=["search"]), "must hold nodes"),
        (lambda flow, node: flow.add(plan, "x", after=7), "must be a node"),
        (lambda flow, node: flow.add(lambda: None), "must be a task"),
        (lambda flow, node: flow.map(search, node), "ctx.flow.map"),
        (lambda flow, node: flow.map(search, 5), r"items: must be a list .* \(got 5\)"),
        (lambda flow, node: flow.map(search, None), "items: must be a list"),
        (lambda flow, node: flow.all(node), r"nodes: must be a list of nodes, .* \(got Node\('search'\)\)"),
        (lambda flow, node: flow.all(None), "nodes: must be a list of nodes"),
        (lambda flow, node: flow.any(node), "nodes: must be a list of nodes"),
        (lambda flow, node: flow.quorum(1, node), "nodes: must be a list of nodes"),
        (lambda flow, node: flow.all([]), "at least one"),
        (lambda flow, node: flow.all(each for each in ()), "at least one"),  # type: ignore[var-annotated]
        (lambda flow, node: flow.all([node, node]), "each node only once"),
        (lambda flow, node: flow.quorum(2, [node]), "from 1 to 1"),
        (lambda flow, node: flow.quorum(2, (each for each in [node])), "from 1 to 1"),
        (lambda flow, node: flow.quorum(True, [node]), r"k: must be a whole number from 1 to 1.* \(got True\)"),
        (lambda flow, node: flow.quorum(None, [node]), "k: must be a whole number"),
        (lambda flow, node: flow.quorum("1", [node]), "k: must be a whole number"),
        (lambda flow, node: flow.any([node], on_satisfied=None), "on_satisfied: must be one of cancel_remaining"),
        (lambda flow, node: flow.any([node], on_satisfied=""), "on_satisfied: must be one of cancel_remaining"),
        (lambda flow, node: flow.add_flow(5), "name: "),
        (lambda flow, node: flow.add_flow("inner", after=7), "after: must be a node"),
        (lambda flow, node: flow.map(search, ["a"], after=["search"]), "after: must hold nodes"),
        (lambda flow, node: flow.any([node], on_satisfied="stop"), "cancel_remaining, let_run"),
        (lambda flow, node: flow.add_flow("inner", failure_policy="never"), "continue, fail_fast"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(wrong: Callable[..., Any], problem: str) -> None:
    flow = drawn()
    node = flow.add(search, "a")
    with pytest.raises(InvalidInput, match=problem):
        wrong(flow, node)
    assert list(flow.nodes) == ["search"]


def test_one_node_waits_for_another_in_one_way_only() -> None:
    flow = drawn()
    a = flow.add(search, "a")
    flow.add(search, a, after=[a.failed])
    with pytest.raises(InvalidInput, match="in one way"):
        graph_of(flow, SUBMITTER)


def test_an_empty_flow_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must have a node"):
        graph_of(drawn(), SUBMITTER)


def test_a_node_waits_for_no_more_than_a_claim_can_bring() -> None:
    flow = drawn()
    flow.add(judge, flow.all(flow.map(search, [str(n) for n in range(MOST_UPSTREAMS + 1)])))
    with pytest.raises(InvalidInput, match="at most 1000"):
        graph_of(flow, SUBMITTER)


def test_a_flow_in_a_flow_is_of_the_same_partition_and_has_a_node() -> None:
    flow = drawn()
    a = flow.add(search, "a")
    child = flow.add_flow("inner", after=[a])
    child.add(search, "b")
    flow.add(judge, [], after=[child.node])
    assert flow_partition(child.flow_id, PARTITIONS).tag == child.node.id.tag == a.id.tag
    assert graph_of(flow, SUBMITTER).child_flows == {child.node.id: child.flow_id}
    assert edges_of(flow) == {("search", "success_only", "inner"), ("inner", "success_only", "judge")}


def test_large_graphs_are_cut_so_that_members_come_with_all_their_edges() -> None:
    flow = drawn()
    nodes = flow.map(search, [str(n) for n in range(600)])
    flow.add(judge, flow.all(nodes))
    flow.add(judge, flow.all(nodes))
    known: set[str] = set()
    for part in in_parts(graph_of(flow, SUBMITTER)):
        new = {member.execution_id for member in part.members}
        assert len(part.members) <= 256
        assert len(part.edges) <= 1_024
        assert {edge.downstream_execution_id for edge in part.edges} <= new
        known |= new
        assert {edge.upstream_execution_id for edge in part.edges} <= known
    assert len(known) == 602

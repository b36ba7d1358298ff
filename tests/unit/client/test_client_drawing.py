"""Drawings of flows: the tree, Mermaid and DOT."""

from __future__ import annotations

import uuid
from typing import Any

from flowfabric.client.flows.drawing import MOST_ALIKE, span, tree_lines
from flowfabric.client.flows.view import FlowView
from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, LaneId, Namespace
from flowfabric.core.states import PublicState

FLOW = FlowId(str(uuid.uuid4()))


def member(name: str, number: int, state: str = "completed", needed: int | None = None, n: int = 0) -> c.FlowMember:
    execution_id = ExecutionId(f"{{fp:1}}:{uuid.uuid5(uuid.UUID(FLOW), name)}")
    group = None
    if needed:
        group = c.EdgeGroupSnapshot(
            downstream_execution_id=execution_id, policy=c.QuorumOfEdges(k=needed), total_deps=n, satisfied_count=0,
            failed_count=0, skipped_count=0, running_count=n, group_state=c.EdgeGroupState.PENDING,
        )  # fmt: skip
    started = 1_000 + 10 * number if state == "completed" else None
    return c.FlowMember(
        execution_id=execution_id, number=number, public_state=PublicState(state),
        execution_kind=name.split("-", maxsplit=1)[0], lane_id=LaneId("default"), created_at=1_000, started_at=started,
        completed_at=None if started is None else started + 10, edge_group=group,
    )  # fmt: skip


def view(members: list[c.FlowMember], *pairs: str, **more: Any) -> FlowView:
    """Edges are drawn as `0>1`, `0!>1` (on failure) and `0->1` (order without data), by the members' numbers."""
    edges = []
    for pair in pairs:
        up, down = pair.replace("!", "").replace("-", "").split(">")
        kind = c.DependencyKind.ON_FAILURE if "!" in pair else c.DependencyKind.SUCCESS_ONLY
        edges.append(
            c.EdgeSnapshot(
                edge_id=EdgeId(str(uuid.uuid4())), flow_id=FLOW, created_at=0, edge_state=c.EdgeState.UNSATISFIED,
                upstream_execution_id=members[int(up)].execution_id, dependency_kind=kind,
                downstream_execution_id=members[int(down)].execution_id,
                data_passing_ref=None if "-" in pair or "!" in pair else "x",
            )
        )  # fmt: skip
    flow = c.FlowSnapshot(
        flow_id=FLOW, flow_kind='re"search', namespace=Namespace("tests"), graph_revision=0, node_count=len(members),
        public_flow_state=c.FlowState.RUNNING, edge_count=len(edges), created_at=1_000, last_mutation_at=1_000, **more,
    )  # fmt: skip
    return FlowView(flow=flow, members=tuple(members), edges=tuple(edges))


def drawn(found: FlowView) -> list[str]:
    return [line.branch + line.label for line in tree_lines(found)]


def test_a_join_stands_below_what_all_ways_to_it_lead_through() -> None:
    members = [member("plan", 0), member("search", 1), member("search-2", 2), member("judge", 3), member("write", 4)]
    found = view(members, "0>1", "0>2", "1>3", "2>3", "3>4")
    assert drawn(found) == ["plan", "├─ search", "├─ search-2", "└─ judge", "   └─ write"]


def test_what_joins_several_beginnings_is_a_beginning_of_the_drawing() -> None:
    members = [member("a", 0), member("b", 1), member("c", 2), member("d", 3)]
    assert drawn(view(members, "0>2", "1>2", "0>3")) == ["a", "└─ d", "b", "c"]


def test_the_margin_of_a_long_chain_stays_narrow() -> None:
    members = [member(f"plan-{n + 1}" if n else "plan", n) for n in range(200)]
    lines = drawn(view(members, *(f"{n}>{n + 1}" for n in range(199))))
    assert (lines[1], len(lines), len(lines[-1])) == ("└─ plan-2", 200, 3 * 31 + len("plan-200"))


def test_members_that_nobody_named_have_their_kind_and_a_piece_of_their_id() -> None:
    stranger = member("search-70", 0)
    assert drawn(view([stranger])) == [f"search {stranger.execution_id[-6:]}"]


def test_many_alike_are_counted_by_state() -> None:
    count = MOST_ALIKE + 1
    members = [member("plan", 0)]
    members += [member(f"search-{n}", n, "active" if n % 5 else "completed") for n in range(1, count + 1)]
    found = view(members, *(f"0>{n}" for n in range(1, count + 1)))
    assert drawn(found) == ["plan", "├─ search x20", "└─ search x5"]
    assert [line.state for line in tree_lines(found)] == ["completed", "active", "completed"]


def test_the_text_says_states_times_joins_and_the_longest_path() -> None:
    members = [
        member("plan", 0),
        member("search", 1),
        member("search-2", 2, "failed"),
        member("judge", 3, needed=1, n=2),
    ]
    found = view(members, "0>1", "0>2", "1>3", "2>3", ended_at=1_040)
    assert found.tree().splitlines() == [
        f're"search {FLOW} running 40ms',
        "plan        * completed  10ms",
        "├─ search   * completed  10ms",
        "├─ search-2   failed",
        "└─ judge    * completed  1 of 2  10ms",
    ]


def test_mermaid_has_a_node_a_state_and_a_kind_of_arrow() -> None:
    members = [member("plan", 0), member("mend", 1, "skipped"), member("judge", 2, needed=1, n=2)]
    found = view(members, "0!>1", "0>2", "1->2")
    assert found.mermaid().splitlines() == [
        "flowchart TD",
        '  n0["plan"]:::completed',
        '  n1["mend"]:::skipped',
        '  n2["judge<br/>1 of 2"]:::completed',
        "  n0 -. failed .-> n1",
        "  n0 --> n2",
        "  n1 -.-> n2",
        "  classDef completed fill:#81c784",
        "  classDef skipped fill:#ffd54f",
    ]


def test_dot_escapes_what_it_quotes() -> None:
    found = view([member("plan", 0), member("judge", 1)], "0>1").dot()
    assert found.startswith('digraph "re\\"search" {')
    assert '  n0 -> n1 [label="", style=solid];' in found.splitlines()


def test_durations_are_short() -> None:
    assert [span(ms) for ms in (None, 0, 999, 1_000, 90_000)] == ["", "0ms", "999ms", "1.0s", "1.5m"]


def test_what_all_of_a_quorum_wait_for_is_not_counted_in_it() -> None:
    members = [member("plan", 0), member("search", 1), member("search-2", 2), member("judge", 3, needed=2, n=3)]
    found = view(members, "0>1", "0>2", "0>3", "1>3", "2>3")
    assert tree_lines(found)[-1].note == "1 of 2  10ms"


def test_what_was_cancelled_is_not_on_the_longest_path() -> None:
    members = [member("plan", 0), member("search", 1), member("search-2", 2, "cancelled"), member("judge", 3)]
    found = view(members, "0>1", "0>2", "1>3", "2>3")
    assert [found.labels[each] for each in found.critical_path] == ["plan", "search", "judge"]

"""What flows, edges and graphs refuse before anything is sent."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import InvalidInput

FLOW = str(uuid.uuid4())
A, B = (f"{{fp:1}}:{uuid.uuid4()}" for _ in range(2))


def member(execution_id: str, **more: Any) -> c.CreateExecutionArgs:
    args = {"execution_id": execution_id, "namespace": "t", "lane_id": "default", "execution_kind": "k", **more}
    return c.CreateExecutionArgs(**args)


def edge(up: str, down: str, **more: Any) -> c.FlowEdge:
    args = {"edge_id": str(uuid.uuid4()), "upstream_execution_id": up, "downstream_execution_id": down, **more}
    return c.FlowEdge(**args)


def graph(**more: Any) -> c.SubmitFlowArgs:
    return c.SubmitFlowArgs(**{"flow_id": FLOW, "namespace": "t", "members": (member(A), member(B)), **more})


@pytest.mark.parametrize(
    ("parts", "field", "code"),
    [
        ({"members": ()}, "members", "invalid_input"),
        ({"members": (member(A), member(A))}, "members", "invalid_input"),
        ({"members": (member(A, idempotency_key="x"),)}, "idempotency_key", "invalid_input"),
        ({"members": "ab"}, "members", "invalid_input"),
        ({"edges": (edge(A, A),)}, "edges", "self_referencing_edge"),
        ({"edges": (edge(A, B), edge(B, A))}, "edges", "cycle_detected"),
        ({"edges": (edge(A, f"{{fp:1}}:{uuid.uuid4()}"),)}, "edges", "execution_not_in_flow"),
        ({"joins": (c.FlowJoin(downstream_execution_id=B, policy=c.QuorumOfEdges(k=1)),)}, "joins", "invalid_input"),  # type: ignore[arg-type]
        ({"child_flows": {f"{{fp:1}}:{uuid.uuid4()}": FLOW}}, "child_flows", "invalid_input"),
        ({"failure_policy": "panic"}, "failure_policy", "invalid_input"),
    ],
)
def test_a_wrong_graph_is_refused_by_name(parts: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        graph(**parts)
    assert (caught.value.field, caught.value.code) == (field, code)


def test_members_come_after_those_they_wait_for() -> None:
    args = graph(members=(member(B), member(A)), edges=(edge(A, B),))
    assert [each.execution_id for each in args.ordered_members()] == [A, B]


@pytest.mark.parametrize("k", [0, limits.MAX_QUORUM + 1, True, 1.5])
def test_a_quorum_has_bounds(k: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        c.QuorumOfEdges(k=k)
    assert caught.value.field == "k"


@pytest.mark.parametrize(
    ("text", "status"),
    [("open", "active"), ("running", "active"), ("blocked", "active"), ("failed", "failed"), ("odd", "unknown")],
)
def test_the_status_of_a_list(text: str, status: str) -> None:
    assert c.FlowStatus.from_public_flow_state(text) == status


def test_growth_must_bring_something() -> None:
    with pytest.raises(InvalidInput):
        c.GrowFlowArgs(flow_id=FLOW)  # type: ignore[arg-type]


def test_resolving_needs_an_outcome() -> None:
    with pytest.raises(InvalidInput):
        c.ResolveDependencyArgs(edge_id=FLOW, downstream_execution_id=A, upstream_outcome="none")  # type: ignore[arg-type]

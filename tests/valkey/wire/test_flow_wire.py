"""Flows on the public wire, called as another program would: plain FCALL, documented positions."""

from __future__ import annotations

import uuid

import valkey

from tests.valkey.wire.flow_wire import Flow, item
from tests.valkey.wire.wire import Execution


def made(wire: valkey.Valkey) -> Flow:
    flow = Flow(wire)
    assert flow.create() == [1, "OK", flow.id]
    return flow


def run(x: Execution) -> Execution:
    assert x.grant()[0] == 1
    assert x.claim()[0] == 1
    return x


def test_create_flow(wire: valkey.Valkey) -> None:
    flow = made(wire)
    assert flow.create() == [1, "ALREADY_SATISFIED", flow.id]
    assert [flow.field(name) for name in ("flow_kind", "namespace", "graph_revision", "node_count", "edge_count")] == [
        "dag", "ns", "0", "0", "0",
    ]  # fmt: skip
    assert flow.field("public_flow_state") == "open"


def test_add_execution_to_flow(wire: valkey.Valkey) -> None:
    flow, x = made(wire), Execution(wire)
    x.create()
    assert flow.add(x) == [1, "OK", x.id, "1"]
    assert flow.add(x) == [1, "ALREADY_SATISFIED", x.id, "1"]
    assert (x.field("flow_id"), flow.field("graph_revision")) == (flow.id, "1")
    assert made(wire).add(x)[:2] == [0, f"already_member_of_different_flow:{flow.id}"]


def test_stage_and_apply(wire: valkey.Valkey) -> None:
    flow = made(wire)
    up, down, edge = flow.member(), flow.member(), str(uuid.uuid4())
    assert flow.stage(up, down, edge, 2) == [1, "OK", edge, "3"]
    assert flow.apply(up, down, edge, 3) == [1, "OK", "1"]
    assert flow.apply(up, down, edge, 3) == [1, "OK", "already_applied"]
    assert down.field("public_state") == "waiting_children"
    assert flow.evaluate(down) == [1, "OK", "blocked_by_dependencies"]
    assert down.grant()[1] == "execution_not_eligible"


def test_a_completion_resolves_promotes_and_ends_the_flow(wire: valkey.Valkey) -> None:
    flow = made(wire)
    up, down = flow.member(), flow.member()
    edge = flow.link(up, down)
    run(up).complete()
    assert down.field("public_state") == "waiting"
    assert flow.resolve(down, edge, "success") == [1, "OK", "already_resolved", ""]
    assert flow.field("public_flow_state") == "running"
    run(down).complete()
    assert flow.field("public_flow_state") == "completed"


def test_a_failure_skips_and_the_message_is_sent(wire: valkey.Valkey) -> None:
    flow = made(wire)
    up, down = flow.member(), flow.member()
    flow.link(up, down)
    run(up).fail()
    assert down.field("public_state") == "skipped"
    assert (flow.field("public_flow_state"), flow.field("failed_execution_id")) == ("failed", up.id)


def test_resolve_dependency_by_hand(wire: valkey.Valkey) -> None:
    flow = made(wire)
    up, down = flow.member(), flow.member()
    edge = flow.link(up, down)
    for nothing in ("", "none"):
        assert flow.resolve(down, edge, nothing)[:2] == [0, "invalid_input"]
    assert down.field("public_state") == "waiting_children"
    assert flow.resolve(down, edge, "success") == [1, "OK", "satisfied", ""]
    assert down.field("public_state") == "waiting"


def test_a_result_becomes_the_payload_of_a_child_that_has_none(wire: valkey.Valkey) -> None:
    flow, up, down = made(wire), Execution(wire), Execution(wire)
    up.create()
    down.create(payload="")
    flow.add(up)
    flow.add(down)
    flow.link(up, down, ref="result")
    run(up).complete(result=b"\x00out")
    assert wire.get(down.exec("payload")) == b"\x00out"


def test_set_edge_group_policy(wire: valkey.Valkey) -> None:
    flow = made(wire)
    first, second, down = flow.member(), flow.member(), flow.member()
    assert flow.policy(down, "quorum", "let_run", 2) == [1, "OK", "set"]
    assert flow.policy(down, "quorum", "let_run", 2) == [1, "OK", "already_set"]
    assert flow.policy(down, "any_of", "cancel_remaining") == [1, "OK", "set"]
    flow.link(first, down)
    assert flow.policy(down, "quorum", "let_run", 2)[:2] == [0, "invalid_input"]
    assert flow.policy(down, "any_of", "cancel_remaining") == [1, "OK", "already_set"]
    flow.link(second, down)
    run(first).complete()
    assert (down.field("public_state"), second.field("public_state")) == ("waiting", "cancelled")
    assert second.field("cancellation_reason") == "sibling_quorum_satisfied"


def test_promote_blocked_to_eligible_refuses_what_still_waits(wire: valkey.Valkey) -> None:
    flow = made(wire)
    up, down = flow.member(), flow.member()
    assert flow.promote(down)[:2] == [0, "not_blocked_by_deps"]
    flow.link(up, down)
    assert flow.promote(down) == [0, "deps_not_satisfied", "1", "1"]


def test_cancel_flow_names_its_members_and_ends_them(wire: valkey.Valkey) -> None:
    flow = made(wire)
    members = [flow.member() for _ in range(3)]
    run(members[0])
    assert flow.cancel() == [1, "OK", "cancel_all", *(x.id for x in members)]
    assert {x.field("public_state") for x in members} == {"cancelled"}
    assert [flow.field(name) for name in ("public_flow_state", "cancel_reason", "cancellation_policy")] == [
        "cancelled", "enough", "cancel_all",
    ]  # fmt: skip
    assert flow.cancel()[:2] == [0, "flow_already_terminal"]


def test_a_cancelled_member_is_acknowledged(wire: valkey.Valkey) -> None:
    flow = made(wire)
    x = flow.member()
    wire.sadd(f"{flow.base}:pending_cancels", x.id)  # as a cancel leaves one that cannot be read
    assert flow.ack(x) == [1, "OK"]
    assert flow.ack(x) == [1, "OK"]
    assert not wire.exists(f"{flow.base}:pending_cancels")


def test_no_join_leaves_siblings_for_others_to_end(wire: valkey.Valkey) -> None:
    flow = made(wire)
    first, second, down = flow.member(), flow.member(), flow.member()
    assert flow.siblings("drain", down.id) == [1, "OK", "drained_sans_group", ""]
    flow.policy(down, "any_of", "cancel_remaining")
    flow.link(first, down)
    flow.link(second, down)
    run(first).complete()
    assert second.field("public_state") == "cancelled"
    assert flow.siblings("drain", down.id) == [1, "OK", "already_drained", ""]
    assert flow.siblings("reconcile", down.id) == [1, "OK", "no_op", "not_in_set"]


def test_set_flow_tags(wire: valkey.Valkey) -> None:
    flow = made(wire)
    assert flow.set_tags("team.a", "1", "team.b", "2") == [1, "OK", "2"]
    assert wire.hgetall(f"{flow.base}:tags") == {b"team.a": b"1", b"team.b": b"2"}


def test_submit_flow_takes_a_whole_graph(wire: valkey.Valkey) -> None:
    flow, a, b, edge = Flow(wire), item(), item(), str(uuid.uuid4())
    request = {"members": [a, b], "edges": [[edge, a[0], b[0], "success_only", ""]]}
    assert flow.submit(b"in", b"in", **request) == [1, "OK", flow.id, "3", "2", "1", "open", "0"]
    assert flow.submit(b"in", b"in", **request) == [1, "ALREADY_SATISFIED", flow.id, "3", "2", "1", "open", "0"]
    states = [wire.hget(f"ff:exec:{flow.tag}:{flow.tag}:{name[0]}:core", "public_state") for name in (a, b)]
    assert states == [b"waiting", b"waiting_children"]

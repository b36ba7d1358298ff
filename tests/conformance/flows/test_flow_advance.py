"""A member's end moves its flow on in the same step: edges, joins, promotion, skipping, siblings, the flow's state."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import BlockingReason
from tests.conformance.driver import BACKOFF, DEADLINE_IN, Driver, Subject
from tests.conformance.flowing import Graph

pytestmark = pytest.mark.every_store

CANCEL, LET_RUN = c.OnSatisfied.CANCEL_REMAINING, c.OnSatisfied.LET_RUN


async def test_a_chain_runs_in_order(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>c")
    assert await graph.states() == {"a": "waiting", "b": "waiting_children", "c": "waiting_children"}
    await graph.end("a")
    assert await graph.states() == {"a": "completed", "b": "waiting", "c": "waiting_children"}
    await graph.run("b", "c")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_a_diamond_joins_when_both_sides_are_done(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b a>c b>d c>d")
    await graph.run("a", "b")
    assert (await graph.states())["d"] == "waiting_children"
    await graph.end("c")
    assert (await graph.states())["d"] == "waiting"


async def test_the_state_of_the_flow_follows_its_members(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    assert await graph.flow_state() == "open"
    await graph.start("a")
    assert await graph.flow_state() == "running"
    await graph.end("a")
    assert await graph.flow_state() == "running"
    await driver.block(Subject(graph.ids["b"]), BlockingReason.PAUSED_BY_OPERATOR)
    assert await graph.flow_state() == "blocked"
    await driver.unblock(Subject(graph.ids["b"]))
    assert await graph.flow_state() == "running"
    await graph.end("b")
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.left_count) == (c.FlowState.COMPLETED, 0)
    assert snapshot.ended_at == driver.clock.now_ms


async def test_a_failure_skips_all_that_depend_on_it_and_no_others(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>c x>y")
    await graph.end("a", "failed")
    assert await graph.states() == {"a": "failed", "b": "skipped", "c": "skipped", "x": "waiting",
                                    "y": "waiting_children"}  # fmt: skip
    await graph.run("x", "y")
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.failed_execution_id) == (c.FlowState.FAILED, graph.ids["a"])
    await graph.check()


@pytest.mark.parametrize(
    ("outcome", "taken"),
    [("success", {"on_success", "always"}), ("failed", {"on_failure", "always"}), ("cancelled", {"always"})],
)
async def test_the_kind_of_an_edge_says_which_ends_it_takes(driver: Driver, outcome: str, taken: set[str]) -> None:
    graph = await Graph(driver).submit("a>on_success a!>on_failure a*>always")
    await graph.end("a", outcome)
    states = await graph.states()
    assert {name for name, state in states.items() if state == "waiting"} == taken
    assert {name for name, state in states.items() if state == "skipped"} == {
        "on_success",
        "on_failure",
        "always",
    } - taken


async def test_an_expired_upstream_is_a_failure(driver: Driver) -> None:
    members = {"a": {"execution_deadline_at": driver.clock.now_ms + DEADLINE_IN}}
    graph = await Graph(driver).submit("a>b a!>mend", members=members)
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(Subject(graph.ids["a"]), c.ExpireReason.EXECUTION_DEADLINE)
    assert await graph.states() == {"a": "expired", "b": "skipped", "mend": "waiting"}


@pytest.mark.parametrize(("disposition", "rest"), [(CANCEL, "cancelled"), (LET_RUN, "waiting")])
async def test_any_of_takes_the_first(driver: Driver, disposition: c.OnSatisfied, rest: str) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z", {"z": c.AnyOfEdges(on_satisfied=disposition)})
    await graph.end("a", "failed")
    assert (await graph.states())["z"] == "waiting_children"
    await graph.end("b")
    assert await graph.states() == {"a": "failed", "b": "completed", "d": rest, "z": "waiting"}


async def test_a_quorum_needs_so_many_and_cancels_running_siblings(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z e>z", {"z": c.QuorumOfEdges(k=2)})
    await graph.start("d")
    await graph.end("a")
    assert (await graph.states())["z"] == "waiting_children"
    await graph.end("b")
    assert await graph.states() == {
        "a": "completed", "b": "completed", "d": "cancelled", "e": "cancelled", "z": "waiting",
    }  # fmt: skip
    await graph.end("z")
    assert await graph.flow_state() == "completed"  # what a quorum does not need is no failure
    await graph.check()


async def test_an_impossible_quorum_is_decided_as_soon_as_it_is_certain(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z z>end", {"z": c.QuorumOfEdges(k=2)})
    await graph.end("a", "failed")
    assert (await graph.states())["z"] == "waiting_children"
    await graph.end("b", "failed")
    assert await graph.states() == {
        "a": "failed", "b": "failed", "d": "cancelled", "z": "skipped", "end": "skipped",
    }  # fmt: skip
    assert await graph.flow_state() == "failed"


async def test_a_failure_that_a_quorum_can_do_without_does_not_fail_the_flow(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z", {"z": c.QuorumOfEdges(k=2, on_satisfied=LET_RUN)})
    await graph.end("a", "failed")
    await graph.run("b", "d", "z")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_a_sibling_that_another_join_waits_for_goes_on(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z d>other", {"z": c.AnyOfEdges()})
    await graph.end("a")
    assert await graph.states() == {
        "a": "completed", "b": "cancelled", "d": "waiting", "z": "waiting", "other": "waiting_children",
    }  # fmt: skip


async def test_late_ends_are_counted_and_change_nothing(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z", {"z": c.AnyOfEdges(on_satisfied=LET_RUN)})
    await graph.run("a", "z")
    await graph.end("b", "failed")
    join = await graph.join("z")
    assert (join.satisfied_count, join.failed_count, join.running_count) == (1, 1, 0)
    assert (join.group_state, await graph.flow_state()) == (c.EdgeGroupState.SATISFIED, "completed")
    await graph.check()


async def test_a_running_downstream_is_skipped_through_the_one_terminal_routine(driver: Driver) -> None:
    graph = await Graph(driver).submit("z a")
    await graph.start("z")
    await graph.grow("a>z", old="a z")
    await graph.end("a", "failed")
    assert (await graph.states())["z"] == "skipped"


async def test_a_delay_survives_dependencies(driver: Driver) -> None:
    members = {"b": {"delay_until": driver.clock.now_ms + BACKOFF}}
    graph = await Graph(driver).submit("a>b", members=members)
    await graph.end("a")
    assert (await graph.states())["b"] == "delayed"
    await driver.clock.advance(BACKOFF)
    await driver.promote(Subject(graph.ids["b"]))
    assert (await graph.states())["b"] == "waiting"


async def test_a_promoted_member_waits_in_the_queue_of_its_capabilities(driver: Driver) -> None:
    gpu = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
    graph = await Graph(driver).submit("a>b", members={"b": {"policy": gpu}})
    await graph.end("a")
    assert (await graph.states())["b"] == "waiting"


async def test_members_of_one_concurrency_key_take_turns(driver: Driver) -> None:
    key = {"concurrency_key": "k"}
    graph = await Graph(driver).submit("a>b a>d", members={"b": key, "d": key})
    await graph.end("a")
    assert sorted([(await graph.states())["b"], (await graph.states())["d"]]) == ["rate_limited", "waiting"]
    assert await graph.flow_state() == "running"


async def test_fail_fast_ends_the_flow_with_its_first_failure(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b x>y", failure_policy=c.FailurePolicy.FAIL_FAST)
    await graph.start("x")
    await graph.end("a", "failed")
    assert await graph.states() == {"a": "failed", "b": "cancelled", "x": "cancelled", "y": "cancelled"}
    assert await graph.flow_state() == "failed"


async def test_compensation_runs_on_the_failure_edge(driver: Driver) -> None:
    graph = await Graph(driver).submit("book>pay pay>ship pay!>unbook")
    await graph.end("book")
    await graph.end("pay", "failed")
    assert await graph.states() == {"book": "completed", "pay": "failed", "ship": "skipped", "unbook": "waiting"}
    await graph.end("unbook")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_results_are_passed_by_edge_without_overwriting_each_other(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z", passing=True)
    await graph.end("a", result_payload=b"\x00A", result_encoding="raw")
    await graph.end("b", result_payload=b"B")
    given = {each.data_passing_ref: each for each in await driver.backend.read_execution_inputs(graph.ids["z"])}
    assert {name: each.payload for name, each in given.items()} == {"a": b"\x00A", "b": b"B"}
    assert (given["a"].encoding, given["b"].encoding) == ("raw", None)
    context = await driver.backend.read_execution_context(graph.ids["z"])
    assert context.input_payload == b"z"


async def test_a_member_that_waits_for_what_it_spawned_goes_on_with_the_same_attempt(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.end("a")
    await graph.start("b")
    await graph.grow("child>b", old="b")
    await driver.move_to_waiting_children(graph.held["b"])
    assert await graph.states() == {"a": "completed", "b": "waiting_children", "child": "waiting"}
    await graph.end("child")
    assert (await graph.states())["b"] == "waiting"
    await graph.end("b")
    assert await graph.flow_state() == "completed"


async def test_a_failure_that_comes_to_an_impossible_join_fails_the_flow(driver: Driver) -> None:
    """As it would have, had it come first."""
    join = c.QuorumOfEdges(k=2, on_satisfied=c.OnSatisfied.LET_RUN)
    graph = await Graph(driver).submit("u!>a u!>b a>z b>z d>z", {"z": join})
    await graph.start("d")
    await graph.run("u")
    assert (await graph.states())["z"] == "skipped"
    await graph.end("d", "failed")
    flow = await graph.flow()
    assert (flow.public_flow_state, flow.failed_execution_id) == ("failed", graph.ids["d"])

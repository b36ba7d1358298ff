"""Replaying members: what came of their end is taken back where nothing has been built on it (D23)."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.errors import Conflict
from tests.conformance.driver import Driver, Subject
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_child_flows import nested


async def replay(graph: Graph, name: str) -> c.ReplayExecutionResult:
    return await graph.driver.replay(Subject(graph.ids[name]))


async def test_replaying_a_failed_upstream_revives_what_was_skipped_because_of_it(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>d")
    await graph.end("a", "failed")
    assert await graph.flow_state() == "failed"
    await replay(graph, "a")
    assert await graph.states() == {"a": "waiting", "b": "waiting_children", "d": "waiting_children"}
    assert await graph.flow_state() == "running"
    await graph.run("a", "b", "d")
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.failed_execution_id) == (c.FlowState.COMPLETED, None)
    await graph.check()


async def test_a_child_that_has_not_run_waits_for_the_replayed_upstream_again(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.end("a")
    await replay(graph, "a")
    assert await graph.states() == {"a": "waiting", "b": "waiting_children"}
    await graph.end("a")
    assert (await graph.states())["b"] == "waiting"


async def test_a_child_that_has_run_keeps_what_it_was_given(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.run("a", "b")
    await replay(graph, "a")
    assert await graph.states() == {"a": "waiting", "b": "completed"}
    await graph.end("a", "failed")
    assert await graph.states() == {"a": "failed", "b": "completed"}
    assert await graph.edge_state("a", "b") == "satisfied"


async def test_a_skipped_member_waits_for_those_that_made_it_impossible(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z")
    await graph.end("b")
    await graph.end("a", "failed")
    assert await replay(graph, "z") == c.ExecutionReplayed(public_state="waiting_children")  # type: ignore[arg-type]
    assert await graph.edge_state("b", "z") == "satisfied"
    await replay(graph, "a")
    await graph.end("a")
    assert (await graph.states())["z"] == "waiting"


async def test_a_skipped_member_of_a_quorum_can_be_met_after_a_replay(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z d>z", {"z": c.QuorumOfEdges(k=2, on_satisfied=c.OnSatisfied.LET_RUN)})
    await graph.end("a", "failed")
    await graph.end("b", "failed")
    assert (await graph.states())["z"] == "skipped"
    await replay(graph, "a")
    assert (await graph.states())["z"] == "waiting_children"
    await graph.run("a", "d")
    assert (await graph.states())["z"] == "waiting"
    await graph.end("z")
    assert await graph.flow_state() == "completed"


async def test_a_completed_flow_goes_on_with_a_replay_and_ends_again(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.run("a", "b")
    await replay(graph, "b")
    assert (await graph.flow()).ended_at is None
    await graph.end("b")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_other_failures_still_count_after_a_replay(driver: Driver) -> None:
    graph = await Graph(driver).submit("a b")
    await graph.end("a", "failed")
    await graph.end("b", "failed")
    await replay(graph, "a")
    await graph.end("a")
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.failed_execution_id) == (c.FlowState.FAILED, graph.ids["b"])


async def test_a_join_that_others_still_satisfy_keeps_its_child(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>z b>z", {"z": c.AnyOfEdges(on_satisfied=c.OnSatisfied.LET_RUN)})
    await graph.run("a", "b")
    await replay(graph, "a")
    assert (await graph.states())["z"] == "waiting"


async def test_a_stand_in_for_a_flow_is_not_replayed(driver: Driver) -> None:
    graph, child = Graph(driver), Graph(driver)
    while child.mint("x").tag != graph.mint("m").tag:
        child = Graph(driver)
    await graph.submit("m", child_flows={graph.ids["m"]: child.flow_id})
    await driver.cancel(Subject(graph.ids["m"]))
    with pytest.raises(Conflict) as caught:
        await replay(graph, "m")
    assert caught.value.details["why"] == "child_flow"


async def test_a_member_of_a_flow_that_ended_with_its_stand_in_is_not_replayed(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub>z", "x>y")
    await inner.end("x", "failed")
    with pytest.raises(Conflict) as caught:
        await replay(inner, "x")
    assert caught.value.details["why"] == "child_flow"
    assert (await inner.flow_state(), await outer.flow_state()) == ("failed", "failed")


async def test_a_member_that_has_run_waits_again_for_those_that_run_again(driver: Driver) -> None:
    graph = await Graph(driver).submit("a*>z b*>z")
    await graph.end("a", "failed")
    await graph.end("b")
    await graph.end("z", "failed")
    await replay(graph, "a")
    assert (await graph.states())["z"] == "failed"
    await replay(graph, "z")
    assert await graph.states() == {"a": "waiting", "b": "completed", "z": "waiting_children"}
    await graph.run("a", "z")
    assert await graph.flow_state() == "completed"


async def test_a_replay_of_a_flow_that_failed_fast_brings_back_what_fell_with_it(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>d runs>after", failure_policy="fail_fast")
    await graph.start("runs")
    await graph.end("a", "failed")
    assert await graph.states() == {name: "failed" if name == "a" else "cancelled" for name in graph.ids}
    await replay(graph, "a")
    blocked = dict.fromkeys(("b", "d", "after"), "waiting_children")
    assert await graph.states() == {"a": "waiting", "runs": "waiting", **blocked}
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.failed_execution_id) == (c.FlowState.RUNNING, None)
    await graph.run("a", "b", "d", "runs", "after")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_another_failure_ends_a_flow_that_fails_fast_again(driver: Driver) -> None:
    graph = await Graph(driver).submit("a b d", failure_policy="fail_fast")
    await graph.start("b")
    await graph.end("d", "cancelled")
    assert await graph.states() == {"a": "cancelled", "b": "cancelled", "d": "cancelled"}
    await replay(graph, "a")
    assert await graph.states() == {"a": "cancelled", "b": "cancelled", "d": "cancelled"}
    assert await graph.flow_state() == "failed"
    await replay(graph, "d")
    assert await graph.states() == {"a": "waiting", "b": "waiting", "d": "waiting"}
    await graph.run("a", "b", "d")
    assert await graph.flow_state() == "completed"


async def test_a_flow_fails_whose_member_somebody_cancelled_and_only_failures_are_taken(driver: Driver) -> None:
    graph = await Graph(driver).submit("a!>b")
    await graph.end("a", "cancelled")
    assert await graph.states() == {"a": "cancelled", "b": "skipped"}
    assert await graph.flow_state() == "failed"
    await replay(graph, "a")
    assert await graph.states() == {"a": "waiting", "b": "waiting_children"}
    await graph.end("a")
    assert await graph.flow_state() == "completed"

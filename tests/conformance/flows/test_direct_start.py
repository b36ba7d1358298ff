"""Who ends a member and asks for work in the same call takes what may start with it, where nobody waits before it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import BlockingReason, LaneState
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver, Subject, home
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_flow_inputs import flow_in
from tests.conformance.limiting import Limits


async def drawn(driver: Driver, drawing: str, *started: str, **more: Any) -> Graph:
    graph = await Graph(driver, flow_in(driver, home(driver))).submit(drawing, **more)
    await graph.start(*started)
    return graph


async def end_and_ask(graph: Graph, ended: str, *, failed: str = "", count: int = 4, **changes: Any) -> set[str]:
    """The members that a worker gets in the call that ends others."""
    claim: dict[str, Any] = {
        "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lease_ttl_ms": TTL, "count": count,
        **changes,
    }  # fmt: skip
    endings: list[b.FinishArgs] = [
        c.CompleteExecutionArgs(execution_id=graph.ids[name], fence=graph.held[name].fence, result_payload=b"r")
        for name in ended.split()
    ]
    endings += [
        c.FailExecutionArgs(
            execution_id=graph.ids[name],
            fence=graph.held[name].fence,
            failure_reason="boom",
            failure_category="c",
            retry_policy_json="",
        )
        for name in failed.split()
    ]
    args = b.FinishExecutionsArgs(
        partition=home(graph.driver), finish=tuple(endings), claim=b.ClaimExecutionsArgs(**claim)
    )
    names = {execution_id: name for name, execution_id in graph.ids.items()}
    works = (await graph.backend.finish_executions(args)).claimed
    for work in works:
        if work.execution_id in names:
            graph.held[names[work.execution_id]] = graph.driver.held(work)
    return {names.get(work.execution_id, "another") for work in works}


async def test_a_chain_runs_to_its_end_in_such_calls(driver: Driver) -> None:
    graph = await drawn(driver, "a>b b>c", "a")
    assert await end_and_ask(graph, "a") == {"b"}
    assert await end_and_ask(graph, "b") == {"c"}
    assert await end_and_ask(graph, "c") == set()
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_who_waits_in_the_queue_comes_first(driver: Driver) -> None:
    graph = await drawn(driver, "a>z", "a")
    await driver.create(priority=5)
    assert await end_and_ask(graph, "a", count=1) == {"another"}
    assert (await graph.states())["z"] == "waiting"


async def test_of_more_than_the_worker_has_room_for_the_best_are_taken(driver: Driver) -> None:
    members = {"y": {"priority": 3}, "z": {"priority": 7}}
    graph = await drawn(driver, "a>x a>y a>z", "a", members=members)
    assert await end_and_ask(graph, "a", count=2) == {"y", "z"}
    assert (await graph.states())["x"] == "waiting"


async def test_two_ends_that_one_join_waits_for_start_it_once(driver: Driver) -> None:
    graph = await drawn(driver, "a>z b>z", "a", "b")
    assert await end_and_ask(graph, "a b") == {"z"}
    await graph.check()


async def test_a_flow_that_fails_in_the_same_call_starts_nothing(driver: Driver) -> None:
    graph = await drawn(driver, "a>z b", "a", "b", failure_policy="fail_fast")
    assert await end_and_ask(graph, "a", failed="b") == set()
    assert await graph.states() == {"a": "completed", "b": "failed", "z": "cancelled"}
    assert await graph.flow_state() == "failed"


async def test_a_member_that_waits_for_a_failure_starts_with_it(driver: Driver) -> None:
    graph = await drawn(driver, "a!>mend a>z b>c", "a", "b")
    assert await end_and_ask(graph, "b", failed="a") == {"mend", "c"}
    assert (await graph.states())["z"] == "skipped"


async def test_capabilities_that_the_worker_lacks_keep_a_member_waiting(driver: Driver) -> None:
    gpu = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
    graph = await drawn(driver, "a>y a>z", "a", members={"z": {"policy": gpu}})
    assert await end_and_ask(graph, "a") == {"y"}
    assert (await graph.states())["z"] == "waiting"


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.DRAINING])
async def test_a_lane_that_starts_nothing_starts_no_member(driver: Driver, state: LaneState) -> None:
    graph = await drawn(driver, "a>z", "a")
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))
    assert await end_and_ask(graph, "a") == set()
    assert (await graph.states())["z"] == "waiting"


async def test_a_full_lane_starts_one_for_each_that_ended(driver: Driver) -> None:
    graph = await drawn(driver, "a>y a>z", "a")
    await driver.configure(max_concurrency=1)
    assert len(await end_and_ask(graph, "a")) == 1
    await graph.check()


async def test_a_spent_budget_of_a_member_keeps_it_waiting(driver: Driver, limits: Limits) -> None:
    budget = await limits.budget({"tokens": 10})
    graph = await drawn(driver, "a>z", "a", members={"z": {"policy": ExecutionPolicy(budget_ids=(budget,))}})
    await limits.report(budget, tokens=11)
    assert await end_and_ask(graph, "a") == set()
    assert (await driver.state(Subject(graph.ids["z"]))).blocking_reason is BlockingReason.WAITING_FOR_BUDGET


async def test_results_of_the_same_call_reach_the_member(driver: Driver) -> None:
    graph = await drawn(driver, "a>z", "a", passing=True)
    claim = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=1
    )
    done = c.CompleteExecutionArgs(execution_id=graph.ids["a"], fence=graph.held["a"].fence, result_payload=b"tides")
    args = b.FinishExecutionsArgs(partition=home(driver), finish=(done,), claim=claim)
    (work,) = (await driver.backend.finish_executions(args)).claimed
    assert [each.payload for each in work.inputs] == [b"tides"]

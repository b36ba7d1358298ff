"""Who ends a member and asks for work in the same call takes what may start with it, where nobody waits before it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.codec import to_msgpack
from flowfabric.core.contracts import batch as b
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import BlockingReason, LaneState
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.flowing import Graph
from tests.conformance.invariants import dump
from tests.conformance.limiting import Limits
from tests.conformance.parking import home
from tests.conformance.test_claim_repeats import next_ones
from tests.conformance.test_flow_inputs import flow_in
from tests.conformance.test_usual_steps import events, record


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


async def test_it_is_the_same_as_an_end_and_a_claim(near: Driver) -> None:
    at_once, in_turn = await drawn(near, "a>z", "a"), await drawn(near, "a>z", "a")
    assert await end_and_ask(at_once, "a") == {"z"}
    await in_turn.end("a")
    assert len(await near.take()) == 1
    z, other = Subject(at_once.ids["z"]), Subject(in_turn.ids["z"])
    assert {**await record(near, z), "flow_id": ""} == {**await record(near, other), "flow_id": ""}
    assert await events(near, z) == await events(near, other) == ["created", "unblocked", "claimed"]
    await at_once.check()


async def test_a_chain_runs_to_its_end_in_such_calls(near: Driver) -> None:
    graph = await drawn(near, "a>b b>c", "a")
    assert await end_and_ask(graph, "a") == {"b"}
    assert await end_and_ask(graph, "b") == {"c"}
    assert await end_and_ask(graph, "c") == set()
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_who_waits_in_the_queue_comes_first(near: Driver) -> None:
    graph = await drawn(near, "a>z", "a")
    await near.create(priority=5)
    assert await end_and_ask(graph, "a", count=1) == {"another"}
    assert (await graph.states())["z"] == "waiting"


async def test_of_more_than_the_worker_has_room_for_the_best_are_taken(near: Driver) -> None:
    members = {"y": {"priority": 3}, "z": {"priority": 7}}
    graph = await drawn(near, "a>x a>y a>z", "a", members=members)
    assert await end_and_ask(graph, "a", count=2) == {"y", "z"}
    assert (await graph.states())["x"] == "waiting"


async def test_two_ends_that_one_join_waits_for_start_it_once(near: Driver) -> None:
    graph = await drawn(near, "a>z b>z", "a", "b")
    assert await end_and_ask(graph, "a b") == {"z"}
    await graph.check()


async def test_a_flow_that_fails_in_the_same_call_starts_nothing(near: Driver) -> None:
    graph = await drawn(near, "a>z b", "a", "b", failure_policy="fail_fast")
    assert await end_and_ask(graph, "a", failed="b") == set()
    assert await graph.states() == {"a": "completed", "b": "failed", "z": "cancelled"}
    assert await graph.flow_state() == "failed"


async def test_a_member_that_waits_for_a_failure_starts_with_it(near: Driver) -> None:
    graph = await drawn(near, "a!>mend a>z b>c", "a", "b")
    assert await end_and_ask(graph, "b", failed="a") == {"mend", "c"}
    assert (await graph.states())["z"] == "skipped"


async def test_capabilities_that_the_worker_lacks_keep_a_member_waiting(near: Driver) -> None:
    gpu = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
    graph = await drawn(near, "a>y a>z", "a", members={"z": {"policy": gpu}})
    assert await end_and_ask(graph, "a") == {"y"}
    assert (await graph.states())["z"] == "waiting"


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.DRAINING])
async def test_a_lane_that_starts_nothing_starts_no_member(near: Driver, state: LaneState) -> None:
    graph = await drawn(near, "a>z", "a")
    await near.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))
    assert await end_and_ask(graph, "a") == set()
    assert (await graph.states())["z"] == "waiting"


async def test_a_full_lane_starts_one_for_each_that_ended(near: Driver) -> None:
    graph = await drawn(near, "a>y a>z", "a")
    await near.configure(max_concurrency=1)
    assert len(await end_and_ask(graph, "a")) == 1
    await graph.check()


async def test_a_spent_budget_of_a_member_keeps_it_waiting(near: Driver, limits: Limits) -> None:
    budget = await limits.budget({"tokens": 10})
    graph = await drawn(near, "a>z", "a", members={"z": {"policy": ExecutionPolicy(budget_ids=(budget,))}})
    await limits.report(budget, tokens=11)
    assert await end_and_ask(graph, "a") == set()
    assert (await near.state(Subject(graph.ids["z"]))).blocking_reason is BlockingReason.WAITING_FOR_BUDGET


async def test_results_of_the_same_call_reach_the_member(near: Driver) -> None:
    graph = await drawn(near, "a>z", "a", passing=True)
    claim = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=1
    )
    done = c.CompleteExecutionArgs(execution_id=graph.ids["a"], fence=graph.held["a"].fence, result_payload=b"tides")
    args = b.FinishExecutionsArgs(partition=home(near), finish=(done,), claim=claim)
    (work,) = (await near.backend.finish_executions(args)).claimed
    assert [each.payload for each in work.inputs] == [b"tides"]


async def test_a_call_that_comes_again_gets_the_same_members(near: Driver) -> None:
    graph = await drawn(near, "a>y a>z", "a")
    fence = graph.held["a"].fence
    ending = (graph.ids["a"].uuid, fence.lease_id, str(fence.lease_epoch), fence.attempt_id, "json")
    args: dict[str, Any] = {
        "finish": to_msgpack(ending), "renew": to_msgpack(()), "claim": next_ones(4), "payloads": [b"r"],
    }  # fmt: skip
    first = await near.backend._caller.call_partition("finish_batch", home(near).tag, **args)
    before = await dump(near.backend.client)
    again = await near.backend._caller.call_partition("finish_batch", home(near).tag, **args)
    assert again.values[2] == first.values[2]
    assert len(first.values[2]) == 2
    assert await dump(near.backend.client) == before

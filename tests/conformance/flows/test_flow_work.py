"""Large fan-outs are cut into bounded steps that a durable work list finishes; a whole flow leaves nothing behind."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import BudgetId
from flowfabric.core.partition import flow_partition
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver
from tests.conformance.execution.test_keyspace_invariant import trim
from tests.conformance.flowing import Graph

WIDE = 700


async def run_due_work(graph: Graph) -> int:
    """What an engine does in the flow's partition; how many steps it took."""
    partition, steps = flow_partition(graph.flow_id, graph.backend.partitions), 0
    while True:
        steps += 1
        done = await graph.backend.run_due_work(b.RunDueWorkArgs(partition=partition, limit=100))
        if not done.more and not done.flow_work:
            return steps


async def waiting(graph: Graph) -> int:
    counts = await graph.backend.count_executions()
    return sum(each.counts.get("waiting", 0) for each in counts)  # type: ignore[call-overload]


async def test_a_wide_fan_out_is_promoted_in_bounded_steps(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"a>n{i}" for i in range(WIDE)))
    await graph.end("a")
    first = await waiting(graph)
    assert 0 < first < WIDE
    due = await driver.backend.next_due(flow_partition(graph.flow_id, driver.backend.partitions))
    assert due.at_ms is not None
    assert due.at_ms <= due.now_ms
    assert await run_due_work(graph) > 1
    assert await waiting(graph) == WIDE
    await graph.check()


@pytest.mark.parametrize("finishes", [True, False])
async def test_workers_that_ask_need_no_engine_for_a_wide_fan_out(driver: Driver, finishes: bool) -> None:
    graph = await Graph(driver).submit(" ".join(f"a>n{i} n{i}>z" for i in range(WIDE)))
    partition, ran = flow_partition(graph.flow_id, driver.backend.partitions), 0
    claim = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=100, partition=partition
    )
    works = await driver.backend.claim_executions(claim)
    while works:
        ran += len(works)
        finish = tuple(
            c.CompleteExecutionArgs(execution_id=work.execution_id, fence=work.fence)
            for work in works
            if isinstance(work, b.ClaimedWork)
        )
        args = b.FinishExecutionsArgs(partition=partition, finish=finish, claim=claim if finishes else None)
        finished = await driver.backend.finish_executions(args)
        works = list(finished.claimed) if finishes else await driver.backend.claim_executions(claim)
    assert ran == WIDE + 2
    assert await graph.flow_state() == "completed"


async def test_a_wide_fan_out_is_skipped_in_bounded_steps(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"a>n{i} n{i}>z" for i in range(300)))
    await graph.end("a", "failed")
    await run_due_work(graph)
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.left_count) == (c.FlowState.FAILED, 0)
    await graph.check()


async def test_a_long_chain_is_skipped_without_recursion(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"n{i}>n{i + 1}" for i in range(WIDE)))
    await graph.end("n0", "failed")
    await run_due_work(graph)
    assert (await graph.flow()).left_count == 0
    await graph.check()


async def test_many_siblings_are_cancelled_in_bounded_steps(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"n{i}>z" for i in range(WIDE)), {"z": c.AnyOfEdges()})
    await graph.end("n0")
    assert await graph.state("z") == "waiting"
    await run_due_work(graph)
    assert (await graph.flow()).left_count == 1
    await graph.end("z")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_an_upstream_that_was_replayed_meanwhile_resolves_nothing(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"a>n{i}" for i in range(WIDE)))
    await graph.end("a", "failed")
    left = (await graph.flow()).left_count
    assert left > 0
    await driver.replay(graph.held["a"])
    await run_due_work(graph)
    assert (await graph.flow()).left_count == WIDE + 1
    await graph.end("a")
    await run_due_work(graph)
    assert await waiting(graph) == WIDE
    await graph.check()


async def skipped_widely(driver: Driver) -> Graph:
    graph = await Graph(driver).submit(" ".join(f"a>n{i}" for i in range(WIDE)))
    await graph.end("a", "failed")
    await run_due_work(graph)
    assert (await graph.flow()).left_count == 0
    return graph


async def test_a_replay_brings_many_back_in_bounded_steps(driver: Driver) -> None:
    graph = await skipped_widely(driver)
    await driver.replay(graph.held["a"])
    assert 1 < (await graph.flow()).left_count < WIDE + 1
    assert await run_due_work(graph) > 1
    assert (await graph.flow()).left_count == WIDE + 1
    await graph.end("a")
    await run_due_work(graph)
    assert await waiting(graph) == WIDE
    await graph.check()


@pytest.mark.parametrize(("outcome", "left", "state"), [("success", WIDE, "running"), ("failed", 0, "failed")])
async def test_what_comes_back_late_learns_how_its_upstream_ended_meanwhile(
    driver: Driver, outcome: str, left: int, state: str
) -> None:
    graph = await skipped_widely(driver)
    await driver.replay(graph.held["a"])
    await graph.end("a", outcome)
    assert await graph.flow_state() in ("running", "blocked")
    await run_due_work(graph)
    assert ((await graph.flow()).left_count, await graph.flow_state()) == (left, state)
    assert await waiting(graph) == left
    await graph.check()


async def test_a_batch_of_ends_lets_so_many_start_and_leaves_the_rest(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"a{i}>n{i}.{j}" for i in range(40) for j in range(120)))
    partition = flow_partition(graph.flow_id, driver.backend.partitions)
    claim = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=40, partition=partition
    )
    works = await driver.backend.claim_executions(claim)
    finish = tuple(
        c.CompleteExecutionArgs(execution_id=work.execution_id, fence=work.fence)
        for work in works
        if isinstance(work, b.ClaimedWork)
    )
    await driver.backend.finish_executions(b.FinishExecutionsArgs(partition=partition, finish=finish))
    assert 0 < await waiting(graph) < 40 * 120
    await run_due_work(graph)
    assert await waiting(graph) == 40 * 120
    await graph.check()


async def test_a_flow_leaves_nothing_behind(driver: Driver) -> None:
    """Submit, run in every way, trim, and the key space is what it was (D29)."""
    graph = await Graph(driver).submit(
        "a>b a!>d b>z e>z f>z z*>end", {"z": c.QuorumOfEdges(k=1)}, passing=True, flow_kind="whole"
    )
    await driver.backend.set_flow_tags(c.SetFlowTagsArgs(flow_id=graph.flow_id, tags={"team.a": "1"}))
    await graph.run("a", "b")
    assert await trim(driver) == 0  # members stay as long as their flow is open
    await graph.run("z", "end")
    assert await graph.flow_state() == "completed"
    limit = c.AttachLimitArgs(
        scope_type=c.LimitScope.FLOW, scope_id=graph.flow_id, limit_kind=c.LimitKind.BUDGET, limit_id=BudgetId.new()
    )
    await driver.backend.attach_limit(limit)
    assert await trim(driver) == 7
    assert await driver.probe.left_behind() == []


async def test_a_cancelled_large_flow_leaves_nothing_behind(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"a>n{i} n{i}>z" for i in range(300)))
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=graph.flow_id, wait=True))
    assert await trim(driver) == 302
    assert await driver.probe.left_behind() == []

"""A cancelled flow: nothing of it can be claimed from then on, and its members follow as the policy says (G9, D25)."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import flow_partition
from flowfabric.errors import Conflict, FlowFabricError, NotFound
from tests.conformance.driver import BACKOFF, Driver, Subject
from tests.conformance.flowing import Graph

pytestmark = pytest.mark.every_store

ALL, PENDING, ONLY = c.CancellationPolicy


def args(graph: Graph, policy: c.CancellationPolicy = ALL, **more: object) -> c.CancelFlowArgs:
    return c.CancelFlowArgs(flow_id=graph.flow_id, reason="enough", cancellation_policy=policy, **more)  # type: ignore[arg-type]


async def running(driver: Driver) -> Graph:
    """One that has ended, one that runs, one that may start, one that waits for it."""
    graph = await Graph(driver).submit("done runs ready ready>later")
    await graph.end("done")
    await graph.start("runs")
    return graph


async def test_cancel_all_ends_everything(driver: Driver) -> None:
    graph = await running(driver)
    result = await driver.backend.cancel_flow(args(graph))
    assert isinstance(result, c.FlowCancelled)
    assert set(result.member_execution_ids) == set(graph.ids.values())
    assert await graph.states() == {
        "done": "completed",
        "runs": "cancelled",
        "ready": "cancelled",
        "later": "cancelled",
    }
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.cancel_reason) == (c.FlowState.CANCELLED, "enough")
    assert snapshot.cancelled_at == driver.clock.now_ms


async def test_cancel_pending_leaves_what_runs(driver: Driver) -> None:
    graph = await running(driver)
    await driver.backend.cancel_flow(args(graph, PENDING))
    assert await graph.states() == {"done": "completed", "runs": "active", "ready": "cancelled", "later": "cancelled"}
    await graph.end("runs")
    assert (await graph.states())["runs"] == "completed"
    assert await graph.flow_state() == "cancelled"


async def test_flow_only_ends_nothing_and_lets_nothing_start(driver: Driver) -> None:
    graph = await running(driver)
    await driver.backend.cancel_flow(args(graph, ONLY))
    assert await graph.states() == {"done": "completed", "runs": "active", "ready": "waiting", "later": "waiting"}
    for name in ("ready", "later"):
        with pytest.raises(FlowFabricError):
            await graph.start(name)
    reason = (await driver.info(Subject(graph.ids["ready"]))).state_vector.blocking_reason
    assert reason == "paused_by_flow_cancel"


@pytest.mark.parametrize("policy", c.CancellationPolicy)
async def test_a_cancelled_flow_takes_no_members(driver: Driver, policy: c.CancellationPolicy) -> None:
    graph = await running(driver)
    await driver.backend.cancel_flow(args(graph, policy))
    with pytest.raises(Conflict) as caught:
        await graph.grow("more")
    assert caught.value.code == "flow_already_terminal"


async def test_a_repeated_cancel_answers_what_the_first_one_said(driver: Driver) -> None:
    graph = await running(driver)
    await driver.backend.cancel_flow(args(graph, PENDING))
    again = await driver.backend.cancel_flow(args(graph, ALL))
    assert isinstance(again, c.FlowCancelled)
    assert again.cancellation_policy is PENDING
    assert (await graph.states())["runs"] == "active"


async def test_a_flow_that_has_completed_cannot_be_cancelled(driver: Driver) -> None:
    graph = await Graph(driver).submit("a")
    await graph.end("a")
    with pytest.raises(Conflict) as caught:
        await driver.backend.cancel_flow(args(graph))
    assert (caught.value.code, caught.value.details["state"]) == ("flow_already_terminal", "completed")


async def test_an_unknown_flow_is_not_found(driver: Driver) -> None:
    with pytest.raises(NotFound) as caught:
        await driver.backend.cancel_flow(args(Graph(driver)))
    assert caught.value.code == "flow_not_found"


async def test_a_large_flow_is_unclaimable_at_once_and_ended_in_parts(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"n{i}" for i in range(600)))
    result = await driver.backend.cancel_flow(args(graph))
    assert isinstance(result, c.FlowCancellationScheduled)
    assert result.member_count == 600
    assert (await graph.flow()).left_count > 0
    for name in ("n0", "n599"):
        with pytest.raises(FlowFabricError):
            await graph.start(name)
    done = await driver.backend.cancel_flow(args(graph, wait=True))
    assert isinstance(done, c.FlowCancelled)
    assert (await graph.flow()).left_count == 0
    await graph.check()


async def test_the_engine_ends_what_a_cancel_left(driver: Driver) -> None:
    graph = await Graph(driver).submit(" ".join(f"n{i}" for i in range(400)))
    await driver.backend.cancel_flow(args(graph))
    partition = flow_partition(graph.flow_id, driver.backend.partitions)
    while (await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))).more:
        pass
    assert (await graph.flow()).left_count == 0


async def test_a_member_that_comes_back_from_running_is_cancelled_too(driver: Driver) -> None:
    """It could never be claimed again (G1)."""
    graph = await running(driver)
    await driver.backend.cancel_flow(args(graph, PENDING))
    await driver.fail(graph.held["runs"], retry=True)
    partition = flow_partition(graph.flow_id, driver.backend.partitions)
    await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))
    assert (await graph.states())["runs"] == "cancelled"
    assert BACKOFF


async def test_members_of_a_cancelled_flow_are_not_replayed(driver: Driver) -> None:
    graph = await running(driver)
    await driver.backend.cancel_flow(args(graph))
    with pytest.raises(Conflict) as caught:
        await driver.replay(Subject(graph.ids["done"]))
    assert caught.value.code == "replay_not_allowed"

"""Retrying members: what fell with them is open again, and nobody loses steps."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.errors import Conflict
from tests.conformance.driver import Driver, Subject
from tests.conformance.execution.test_retry_execution import record, steps
from tests.conformance.flowing import Graph


async def retry(graph: Graph, name: str) -> c.RetryExecutionResult:
    return await graph.driver.retry(Subject(graph.ids[name]))


async def test_a_failed_member_brings_back_what_was_skipped_because_of_it(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b b>d")
    await graph.end("a", "failed")
    assert await graph.flow_state() == "failed"
    assert await retry(graph, "a") == c.ExecutionRetried(public_state="waiting")  # type: ignore[arg-type]
    assert await graph.states() == {"a": "waiting", "b": "waiting_children", "d": "waiting_children"}
    assert await graph.flow_state() == "running"
    await graph.run("a", "b", "d")
    assert await graph.flow_state() == "completed"
    await graph.check()


@pytest.mark.parametrize("again", ["retry", "replay"])
async def test_a_member_that_was_cancelled_with_its_flow_goes_on_with_its_steps(driver: Driver, again: str) -> None:
    graph = await Graph(driver).submit("a b", failure_policy=c.FailurePolicy.FAIL_FAST)
    await graph.start("b")
    await record(driver, graph.held["b"], "charge", b"paid")
    await graph.end("a", "failed")
    assert await graph.states() == {"a": "failed", "b": "cancelled"}
    await (retry(graph, "a") if again == "retry" else driver.replay(Subject(graph.ids["a"])))
    assert await graph.states() == {"a": "waiting", "b": "waiting"}
    assert await steps(driver, Subject(graph.ids["b"])) == {"charge": b"paid"}
    await graph.run("a", "b")
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_a_member_of_a_cancelled_flow_is_not_retried(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=graph.flow_id))
    with pytest.raises(Conflict) as caught:
        await retry(graph, "a")
    assert (caught.value.code, caught.value.details["state"]) == ("retry_not_allowed", "flow_cancelled")

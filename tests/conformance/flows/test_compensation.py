"""A failure with a handler on its failure edge is compensated: the flow completes, whoever else depended on it."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from tests.conformance.driver import Driver
from tests.conformance.flowing import Graph

pytestmark = pytest.mark.every_store

HANDLED = "pay!>refund"
DEPENDENTS = ["", "pay>ship", "pay>ship ship>mail", "pay>ship pay*>log", "pay>ship other>ship"]


async def _run(graph: Graph, *ends: tuple[str, str]) -> str:
    for name, outcome in ends:
        await graph.end(name, outcome)
    return str(await graph.flow_state())


@pytest.mark.parametrize("dependents", DEPENDENTS)
@pytest.mark.parametrize("policy", c.FailurePolicy)
async def test_a_compensated_failure_completes_the_flow_whoever_depends_on_it(
    driver: Driver, dependents: str, policy: c.FailurePolicy
) -> None:
    graph = await Graph(driver).submit(f"{HANDLED} {dependents}", failure_policy=policy)
    await graph.end("pay", "failed")
    for name in ("other", "log", "refund"):
        if name in graph.ids:
            await graph.end(name)
    assert await graph.flow_state() == "completed"
    assert {await graph.state(name) for name in ("ship", "mail") if name in graph.ids} <= {"skipped"}
    await driver.probe.check()


@pytest.mark.parametrize("dependents", DEPENDENTS[:3])
async def test_a_handler_that_fails_fails_the_flow(driver: Driver, dependents: str) -> None:
    graph = await Graph(driver).submit(f"{HANDLED} {dependents}")
    assert await _run(graph, ("pay", "failed"), ("refund", "failed")) == "failed"


@pytest.mark.parametrize("dependents", DEPENDENTS[:3])
async def test_a_cancelled_member_is_not_compensated(driver: Driver, dependents: str) -> None:
    """Its handler is skipped: somebody decided that the work should stop."""
    graph = await Graph(driver).submit(f"{HANDLED} {dependents}")
    assert await _run(graph, ("pay", "cancelled")) == "failed"


async def test_a_node_that_runs_after_any_end_compensates_nothing(driver: Driver) -> None:
    graph = await Graph(driver).submit("pay*>log pay>ship")
    assert await _run(graph, ("pay", "failed"), ("log", "success")) == "failed"


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_an_uncompensated_failure_of_the_same_join_fails_the_flow_in_any_order(
    driver: Driver, order: tuple[str, str]
) -> None:
    graph = await Graph(driver).submit(
        "a>sum b>sum c>sum a!>undo", {"sum": c.QuorumOfEdges(k=2, on_satisfied=c.OnSatisfied.LET_RUN)}
    )
    for name in order:
        await graph.end(name, "failed")
    await graph.end("c")
    await graph.end("undo")
    assert await graph.flow_state() == "failed"


async def test_a_replayed_member_brings_back_who_was_skipped(driver: Driver) -> None:
    graph = await Graph(driver).submit("pay>ship pay!>refund")
    assert await _run(graph, ("pay", "failed"), ("refund", "success")) == "completed"
    await driver.replay(graph.held["pay"])
    assert await graph.state("ship") == "waiting_children"
    assert await _run(graph, ("pay", "success"), ("ship", "success")) == "completed"
    await driver.probe.check()

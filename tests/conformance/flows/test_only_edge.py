"""The only edge out of a member: what it is and becomes, wherever its state is kept."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.policy import ExecutionPolicy, StreamPolicy
from tests.conformance.driver import Driver, Subject
from tests.conformance.execution.test_trim_executions import trim
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_cancel_flow import PENDING, args
from tests.conformance.flows.test_direct_start import drawn, end_and_ask
from tests.conformance.flows.test_flow_advance import LET_RUN
from tests.conformance.flows.test_flow_edges import Pieces

SATISFIED = {
    ">": {"success"},
    "*>": {"success", "failed", "cancelled"},
    "!>": {"failed"},
}


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled"])
@pytest.mark.parametrize("arrow", list(SATISFIED))
async def test_the_end_of_its_upstream_decides_it(driver: Driver, arrow: str, outcome: str) -> None:
    graph = await Graph(driver).submit(f"a{arrow}b")
    assert await graph.edge_state("a", "b") == "unsatisfied"
    await graph.end("a", outcome)
    is_satisfied = outcome in SATISFIED[arrow]
    assert await graph.edge_state("a", "b") == ("satisfied" if is_satisfied else "impossible")
    assert (await graph.states())["b"] == ("waiting" if is_satisfied else "skipped")


@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_it_counts_in_the_join_that_it_leads_to(driver: Driver, outcome: str) -> None:
    graph = await Graph(driver).submit("a>z b>z")
    await graph.run("a")
    assert (await graph.states())["z"] == "waiting_children"
    await graph.end("b", outcome)
    assert (await graph.states())["z"] == ("waiting" if outcome == "success" else "skipped")
    assert (await graph.join("z")).satisfied_count == (2 if outcome == "success" else 1)


@pytest.mark.parametrize("outcome", ["", "success", "failed"])
async def test_it_stays_what_it_is_when_another_comes(driver: Driver, outcome: str) -> None:
    graph = await Graph(driver).submit("a>b o")
    if outcome:
        await graph.end("a", outcome)
    before = await graph.edge_state("a", "b")
    await graph.grow("a*>n", old="a")
    assert await graph.edge_state("a", "b") == before
    assert await graph.edge_state("a", "n") == ("satisfied" if outcome else "unsatisfied")
    if not outcome:
        await graph.end("a")
        assert await graph.edge_state("a", "b") == "satisfied"
    assert (await graph.states())["n"] == "waiting"


async def test_one_that_is_staged_later_makes_it_one_of_two(driver: Driver) -> None:
    graph = Pieces(driver)
    await graph.submit("a>b n")
    await graph.link("a", "n")
    await graph.check()
    await graph.end("a")
    assert [await graph.edge_state("a", each) for each in "bn"] == ["satisfied", "satisfied"]
    await graph.check()


async def test_a_cancelled_flow_leaves_it_as_it_was(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.start("a")
    await driver.backend.cancel_flow(args(graph, PENDING))
    await graph.end("a")
    assert await graph.edge_state("a", "b") == "unsatisfied"
    await graph.check()


async def test_a_replay_opens_it_again(driver: Driver) -> None:
    graph = await Graph(driver).submit("a>b")
    await graph.end("a", "failed")
    await driver.replay(Subject(graph.ids["a"]))
    assert await graph.edge_state("a", "b") == "unsatisfied"
    await graph.end("a")
    assert await graph.edge_state("a", "b") == "satisfied"
    await graph.check()


@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_it_outlives_its_upstream(driver: Driver, outcome: str) -> None:
    short = ExecutionPolicy(stream_policy=StreamPolicy(retention_ttl_ms=1))
    graph = await Graph(driver).submit("a>b", members={"a": {"policy": short}})
    await graph.end("a", outcome)
    if outcome == "success":
        await graph.end("b")
    before = await graph.edge_state("a", "b")
    await driver.clock.advance(10)
    assert await trim(driver) == 1
    assert await graph.edge_state("a", "b") == before == ("satisfied" if outcome == "success" else "impossible")


@pytest.mark.parametrize("arrow", list(SATISFIED))
async def test_a_batch_decides_it_as_a_single_call_does(driver: Driver, arrow: str) -> None:
    graph = await drawn(driver, f"r>a a{arrow}b", "r")
    assert await end_and_ask(graph, "r") == {"a"}
    is_satisfied = "success" in SATISFIED[arrow]
    assert await end_and_ask(graph, "a") == ({"b"} if is_satisfied else set())
    assert await graph.edge_state("a", "b") == ("satisfied" if is_satisfied else "impossible")
    await graph.check()


async def test_a_batch_leaves_it_as_it_was_in_a_cancelled_flow(driver: Driver) -> None:
    graph = await drawn(driver, "r>a a>b", "r")
    assert await end_and_ask(graph, "r") == {"a"}
    await driver.backend.cancel_flow(args(graph, PENDING))
    assert await end_and_ask(graph, "a") == set()
    assert await graph.edge_state("a", "b") == "unsatisfied"
    await graph.check()


async def test_a_batch_counts_it_once_however_often_its_upstream_ends(driver: Driver) -> None:
    graph = await drawn(driver, "r>a a>z b>z", "r", joins={"z": c.AnyOfEdges(on_satisfied=LET_RUN)})
    assert await end_and_ask(graph, "r") == {"a", "b"}
    assert await end_and_ask(graph, "a") == {"z"}
    await driver.replay(Subject(graph.ids["a"]))
    assert await end_and_ask(graph, "") == {"a"}
    assert await end_and_ask(graph, "a") == set()
    await graph.check()
    assert (await graph.join("z")).satisfied_count == 1

"""A member that stands for a flow: the flow starts when the member would, and each ends with the other."""

from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import FlowId
from flowfabric.core.partition import flow_partition
from flowfabric.errors import FlowFabricError
from tests.conformance.driver import Driver, Subject
from tests.conformance.flowing import Graph

pytestmark = pytest.mark.every_store


async def nested(
    driver: Driver, parent: str, child: str, *, failing_fast: bool = False, **more: object
) -> tuple[Graph, Graph]:
    """`sub` is the member that stands for the child flow."""
    outer, inner = Graph(driver), Graph(driver)
    while inner.mint("_").tag != outer.mint("sub").tag:
        inner = Graph(driver)
    del inner.ids["_"]
    policy = "fail_fast" if failing_fast else "continue"
    await outer.submit(parent, child_flows={outer.ids["sub"]: inner.flow_id}, failure_policy=policy)
    await inner.submit(child, parent_execution_id=outer.ids["sub"], **more)
    return outer, inner


async def test_it_starts_when_its_member_would(driver: Driver) -> None:
    outer, inner = await nested(driver, "a>sub sub>z", "x>y")
    assert await inner.states() == {"x": "waiting_children", "y": "waiting_children"}
    with pytest.raises(FlowFabricError):
        await inner.start("x")
    await outer.end("a")
    assert await inner.states() == {"x": "waiting", "y": "waiting_children"}
    assert await outer.flow_state() == "running"
    await inner.run("x", "y")
    assert await outer.states() == {"a": "completed", "sub": "completed", "z": "waiting"}
    assert (await inner.flow_state(), await outer.flow_state()) == ("completed", "running")
    await outer.end("z")
    assert await outer.flow_state() == "completed"


async def test_one_that_waits_for_nothing_starts_at_once(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub>z", "x")
    assert await inner.states() == {"x": "waiting"}
    await inner.end("x")
    assert await outer.states() == {"sub": "completed", "z": "waiting"}


async def test_its_failure_is_the_members(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub>z sub!>mend", "x>y")
    await inner.end("x", "failed")
    assert await inner.flow_state() == "failed"
    assert await outer.states() == {"sub": "failed", "z": "skipped", "mend": "waiting"}


async def test_its_cancel_is_the_members(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub>z", "x>y")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=inner.flow_id))
    assert await outer.states() == {"sub": "cancelled", "z": "skipped"}
    assert await inner.states() == {"x": "cancelled", "y": "cancelled"}


async def test_it_is_cancelled_with_its_parent(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub>z", "x>y")
    await inner.start("x")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=outer.flow_id))
    assert await inner.states() == {"x": "cancelled", "y": "cancelled"}
    assert (await inner.flow_state(), (await inner.flow()).cancel_reason) == ("cancelled", "parent_ended")


async def test_it_is_cancelled_when_its_member_is_skipped(driver: Driver) -> None:
    outer, inner = await nested(driver, "a>sub", "x")
    await outer.end("a", "failed")
    assert (await outer.states())["sub"] == "skipped"
    assert await inner.states() == {"x": "cancelled"}


async def test_a_replay_does_not_bring_it_back(driver: Driver) -> None:
    outer, inner = await nested(driver, "a>sub sub*>z", "x")
    await outer.end("a", "failed")
    await driver.replay(Subject(outer.ids["a"]))
    await outer.run("a", "z")
    assert await outer.states() == {"sub": "skipped", "a": "completed", "z": "completed"}
    assert (await outer.flow_state(), await inner.flow_state()) == ("failed", "cancelled")


async def test_flows_in_flows_in_flows_end_together(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub", "x")
    deepest = Graph(driver)
    while deepest.mint("d").tag != outer.ids["sub"].tag:
        deepest = Graph(driver)
    inner.ids["stands"] = inner.mint("stands")
    await inner.grow("x>stands", old="x", child_flows={inner.ids["stands"]: deepest.flow_id})
    await deepest.submit("d", parent_execution_id=inner.ids["stands"])
    await inner.end("x")
    await deepest.end("d")
    assert [await each.flow_state() for each in (deepest, inner, outer)] == ["completed"] * 3
    await outer.check()


async def test_a_stand_in_is_never_claimed(driver: Driver) -> None:
    outer, _ = await nested(driver, "sub", "x")
    with pytest.raises(FlowFabricError):
        await driver.grant_and_claim(Subject(outer.ids["sub"]))


@pytest.mark.parametrize("drawing", ["sub>z", "a>sub sub>z"])
async def test_a_member_fails_whose_flow_never_comes(driver: Driver, drawing: str) -> None:
    outer = Graph(driver)
    await outer.submit(drawing, child_flows={outer.mint("sub"): FlowId.new()})
    if "a" in outer.ids:
        await outer.run("a")
    assert (await outer.states())["sub"] == "waiting_children"
    await driver.clock.advance(3_600_001)
    await driver.backend.run_due_work(
        b.RunDueWorkArgs(partition=flow_partition(outer.flow_id, driver.backend.partitions))
    )
    states = await outer.states()
    assert (states["sub"], states["z"]) == ("failed", "skipped")
    assert await outer.flow_state() == "failed"


async def test_a_flow_that_came_in_time_is_not_given_up(driver: Driver) -> None:
    outer, inner = await nested(driver, "sub", "x")
    await driver.clock.advance(3_600_001)
    await driver.backend.run_due_work(
        b.RunDueWorkArgs(partition=flow_partition(outer.flow_id, driver.backend.partitions))
    )
    assert (await outer.states(), await inner.states()) == ({"sub": "waiting_children"}, {"x": "waiting"})


async def cancelled_alike(driver: Driver, policy: c.CancellationPolicy) -> tuple[Graph, Graph]:
    outer, inner = await nested(driver, "sub runs runs>later", "x>y w")
    await inner.start("x")
    await outer.start("runs")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=outer.flow_id, cancellation_policy=policy, wait=True))
    return outer, inner


async def test_a_cancel_of_what_is_pending_leaves_what_runs_in_it(driver: Driver) -> None:
    outer, inner = await cancelled_alike(driver, c.CancellationPolicy.CANCEL_PENDING)
    assert await outer.states() == {"sub": "cancelled", "runs": "active", "later": "cancelled"}
    assert await inner.states() == {"x": "active", "y": "cancelled", "w": "cancelled"}
    await inner.end("x")
    assert (await inner.states())["x"] == "completed"
    assert (await inner.flow_state(), await outer.flow_state()) == ("cancelled", "cancelled")


async def test_a_closed_parent_lets_nothing_of_it_start(driver: Driver) -> None:
    _, inner = await cancelled_alike(driver, c.CancellationPolicy.FLOW_ONLY)
    await inner.end("x")
    assert await inner.states() == {"x": "completed", "y": "waiting", "w": "waiting"}
    for name in ("y", "w"):
        with pytest.raises(FlowFabricError):
            await inner.start(name)


async def test_nothing_of_it_starts_before_the_cancel_of_its_parent_has_come_to_it(driver: Driver) -> None:
    many = " ".join(f"n{i}" for i in range(600))
    outer, inner = await nested(driver, f"{many} sub", "x>y w")
    await inner.start("x")
    await driver.backend.cancel_flow(c.CancelFlowArgs(flow_id=outer.flow_id))
    assert await inner.flow_state() == "running"
    await inner.end("x")
    for name in ("y", "w"):
        assert await inner.state(name) == "waiting"
        with pytest.raises(FlowFabricError):
            await inner.start(name)
    while await driver.backend.continue_flow(outer.flow_id):
        pass
    assert await inner.states() == {"x": "completed", "y": "cancelled", "w": "cancelled"}


async def test_a_flow_that_failed_fast_with_one_in_it_cannot_succeed_any_more(driver: Driver) -> None:
    outer, inner = await nested(driver, "a sub>z", "x", failing_fast=True)
    await outer.end("a", "failed")
    assert (await inner.flow_state(), await outer.states()) == (
        "cancelled",
        {"a": "failed", "sub": "cancelled", "z": "cancelled"},
    )
    await driver.replay(Subject(outer.ids["a"]))
    snapshot = await outer.flow()
    assert (snapshot.public_flow_state, snapshot.failed_execution_id) == (c.FlowState.FAILED, outer.ids["sub"])
    assert await outer.states() == {"a": "cancelled", "sub": "cancelled", "z": "cancelled"}

"""Graphs that are built piece by piece: create, add, stage, apply, resolve, and the joins' policies."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId
from flowfabric.core.states import TerminalOutcome
from flowfabric.errors import Conflict, FlowFabricError, InvalidInput
from tests.conformance.driver import BACKOFF, Driver, Subject
from tests.conformance.flowing import Graph


class Pieces(Graph):
    """A flow to which members and edges come one by one."""

    @classmethod
    async def made(cls, driver: Driver, names: str = "", **flow: object) -> Pieces:
        pieces = cls(driver)
        args = {"flow_id": pieces.flow_id, "flow_kind": "dag", "namespace": "tests", **flow}
        result = await driver.backend.create_flow(c.CreateFlowArgs(**args))  # type: ignore[arg-type]
        assert result == c.FlowCreated(flow_id=pieces.flow_id)
        for name in names.split():
            await pieces.add(name)
        return pieces

    async def add(self, name: str, **overrides: object) -> c.AddExecutionToFlowResult:
        await self.backend.create_execution(self.member(name, **overrides))
        return await self.join_in(name)

    async def join_in(self, name: str) -> c.AddExecutionToFlowResult:
        args = c.AddExecutionToFlowArgs(flow_id=self.flow_id, execution_id=self.ids[name])
        return await self.backend.add_execution_to_flow(args)

    async def stage(self, up: str, down: str, **more: object) -> c.StageDependencyEdgeResult:
        edge_id = self.edge_ids[up, down] = EdgeId(str(uuid.uuid4()))
        args: dict[str, Any] = {
            "flow_id": self.flow_id, "edge_id": edge_id, "upstream_execution_id": self.ids[up],
            "downstream_execution_id": self.ids[down], "expected_graph_revision": (await self.flow()).graph_revision,
            **more,
        }  # fmt: skip
        return await self.backend.stage_dependency_edge(c.StageDependencyEdgeArgs(**args))

    async def apply(self, up: str, down: str) -> c.ApplyDependencyToChildResult:
        args = c.ApplyDependencyToChildArgs(
            flow_id=self.flow_id,
            edge_id=self.edge_ids[up, down],
            upstream_execution_id=self.ids[up],
            downstream_execution_id=self.ids[down],
        )
        return await self.backend.apply_dependency_to_child(args)

    async def link(self, up: str, down: str, **more: object) -> c.ApplyDependencyToChildResult:
        await self.stage(up, down, **more)
        return await self.apply(up, down)

    async def policy(self, name: str, policy: c.EdgeDependencyPolicy) -> c.SetEdgeGroupPolicyResult:
        args = c.SetEdgeGroupPolicyArgs(flow_id=self.flow_id, downstream_execution_id=self.ids[name], policy=policy)
        return await self.backend.set_edge_group_policy(args)

    async def eligibility(self, name: str) -> str:
        args = c.EvaluateFlowEligibilityArgs(execution_id=self.ids[name])
        return (await self.backend.evaluate_flow_eligibility(args)).status


async def test_a_flow_is_created_once(driver: Driver) -> None:
    pieces = await Pieces.made(driver)
    args = c.CreateFlowArgs(flow_id=pieces.flow_id, flow_kind="dag", namespace="tests")  # type: ignore[arg-type]
    assert await driver.backend.create_flow(args) == c.FlowAlreadyCreated(flow_id=pieces.flow_id)


async def test_members_are_counted_once(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a b")
    snapshot = await pieces.flow()
    assert (snapshot.node_count, snapshot.graph_revision) == (2, 2)
    again = await pieces.join_in("a")
    assert again == c.ExecutionAlreadyMember(execution_id=pieces.ids["a"], node_count=2)
    other = Pieces(driver, pieces.flow_id)
    other.ids["nobody"] = ExecutionId.for_flow(pieces.flow_id, driver.backend.partitions)
    with pytest.raises(FlowFabricError) as caught:
        await other.join_in("nobody")
    assert caught.value.code == "execution_not_found"


async def test_an_execution_of_another_partition_is_refused_by_name(driver: Driver) -> None:
    pieces, x = await Pieces.made(driver), await driver.create()
    pieces.ids["x"] = x.execution_id
    while pieces.mint("y").tag == x.execution_id.tag:
        pieces = await Pieces.made(driver)
        pieces.ids["x"] = x.execution_id
    with pytest.raises(InvalidInput, match="partition"):
        await pieces.join_in("x")


async def test_an_edge_blocks_its_downstream_when_it_is_applied(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a b")
    staged = await pieces.stage("a", "b")
    assert staged.new_graph_revision == 3
    assert (await pieces.states())["b"] == "waiting"
    assert await pieces.apply("a", "b") == c.DependencyApplied(unsatisfied_count=1)
    assert await pieces.apply("a", "b") == c.DependencyAlreadyApplied()
    assert (await pieces.states())["b"] == "waiting_children"
    assert await pieces.eligibility("b") == "blocked_by_dependencies"
    await pieces.end("a")
    assert await pieces.eligibility("b") == "eligible"


async def test_a_child_waits_for_edges_that_are_staged_and_not_applied_yet(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a b z")
    await pieces.stage("a", "z")
    await pieces.stage("b", "z")
    await pieces.apply("a", "z")
    await pieces.end("a")
    assert (await pieces.states())["z"] == "waiting_children"
    await pieces.apply("b", "z")
    await pieces.end("b")
    assert (await pieces.states())["z"] == "waiting"


async def test_an_upstream_that_has_ended_is_seen_when_the_edge_is_applied(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a b d")
    await pieces.end("a")
    assert await pieces.link("a", "b") == c.DependencyApplied(unsatisfied_count=0)
    await pieces.end("b", "failed")
    await pieces.link("b", "d")
    assert await pieces.states() == {"a": "completed", "b": "failed", "d": "skipped"}


async def test_a_delayed_child_is_delayed_again_afterwards(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a")
    await pieces.add("b", delay_until=driver.clock.now_ms + BACKOFF)
    await pieces.link("a", "b")
    assert (await pieces.states())["b"] == "waiting_children"
    await pieces.end("a")
    assert (await pieces.states())["b"] == "delayed"


async def test_an_impossible_join_is_not_decided_before_its_edges_are_there(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a b d z")
    await pieces.policy("z", c.QuorumOfEdges(k=2, on_satisfied=c.OnSatisfied.LET_RUN))
    await pieces.end("a", "failed")
    await pieces.link("a", "z")
    assert (await pieces.states())["z"] == "waiting_children"
    await pieces.stage("b", "z")
    await pieces.stage("d", "z")
    await pieces.apply("b", "z")
    await pieces.apply("d", "z")
    await pieces.run("b", "d")
    assert (await pieces.states())["z"] == "waiting"


async def test_a_policy_is_fixed_by_the_first_edge(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a z")
    assert await pieces.policy("z", c.AnyOfEdges()) == c.EdgeGroupPolicySet()
    assert await pieces.policy("z", c.QuorumOfEdges(k=2)) == c.EdgeGroupPolicySet()
    assert await pieces.policy("z", c.QuorumOfEdges(k=2)) == c.EdgeGroupPolicyAlreadySet()
    assert await pieces.policy("z", c.QuorumOfEdges(k=1)) == c.EdgeGroupPolicySet()
    await pieces.stage("a", "z")
    with pytest.raises(InvalidInput, match="edge_group_policy_already_fixed"):
        await pieces.policy("z", c.QuorumOfEdges(k=2))
    assert await pieces.policy("z", c.QuorumOfEdges(k=1)) == c.EdgeGroupPolicyAlreadySet()


async def test_an_edge_can_be_resolved_by_hand(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a b d z")
    for name in ("a", "b"):
        await pieces.link(name, "z")
    await pieces.link("a", "d")

    async def resolve(up: str, down: str, outcome: TerminalOutcome) -> c.ResolveDependencyResult:
        args = c.ResolveDependencyArgs(
            edge_id=pieces.edge_ids[up, down], downstream_execution_id=pieces.ids[down], upstream_outcome=outcome
        )
        return await driver.backend.resolve_dependency(args)

    assert await resolve("a", "z", TerminalOutcome.SUCCESS) == c.DependencyPending()
    assert await resolve("a", "z", TerminalOutcome.FAILED) == c.DependencyAlreadyResolved()
    assert await resolve("b", "z", TerminalOutcome.SUCCESS) == c.DependencySatisfied()
    assert await resolve("a", "d", TerminalOutcome.EXPIRED) == c.DependencyImpossible()
    assert await pieces.states() == {"a": "waiting", "b": "waiting", "d": "skipped", "z": "waiting"}


async def test_promote_needs_an_execution_that_waits_for_nothing(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a z")
    await pieces.link("a", "z")
    with pytest.raises(Conflict) as caught:
        await driver.backend.promote_blocked_to_eligible(c.PromoteBlockedToEligibleArgs(execution_id=pieces.ids["z"]))
    assert caught.value.code == "deps_not_satisfied"
    x = Subject(pieces.ids["a"])
    await driver.grant_and_claim(x)
    await driver.open_dependency(x)
    await driver.move_to_waiting_children(x)
    await driver.close_dependency(x)
    result = await driver.backend.promote_blocked_to_eligible(
        c.PromoteBlockedToEligibleArgs(execution_id=x.execution_id)
    )
    assert result == c.BlockedPromoted()
    assert await pieces.state("a") == "waiting"


async def test_a_flow_that_is_built_piece_by_piece_goes_on_when_more_comes(driver: Driver) -> None:
    pieces = await Pieces.made(driver, "a")
    await pieces.end("a")
    assert await pieces.flow_state() == "completed"
    await pieces.add("b")
    assert await pieces.flow_state() == "running"
    await pieces.end("b")
    assert await pieces.flow_state() == "completed"
    await pieces.check()


async def test_an_execution_that_has_ended_can_be_added(driver: Driver) -> None:
    pieces = await Pieces.made(driver)
    await pieces.backend.create_execution(pieces.member("a"))
    await pieces.end("a", "failed")
    await pieces.join_in("a")
    assert await pieces.flow_state() == "failed"
    await pieces.check()


async def test_tags_of_a_flow(driver: Driver) -> None:
    pieces = await Pieces.made(driver)
    for tags in ({"team.a": "1", "team.b": "2"}, {"team.b": "3"}):
        await driver.backend.set_flow_tags(c.SetFlowTagsArgs(flow_id=pieces.flow_id, tags=tags))
    assert (await pieces.flow()).tags == {"team.a": "1", "team.b": "3"}


def elsewhere(member: ExecutionId) -> ExecutionId:
    """The same uuid in the next partition."""
    return ExecutionId(f"{{fp:{(member.partition_index + 1) % 256}}}:{member.uuid}")


@pytest.mark.parametrize("stranger", ["unknown", "of_another_partition"])
@pytest.mark.parametrize("way", ["set_edge_group_policy", "grow_flow"])
async def test_a_join_of_who_is_no_member_is_refused_and_nothing_is_written(
    driver: Driver, stranger: str, way: str
) -> None:
    flow = await Pieces.made(driver, "a b")
    a = flow.ids["a"]
    downstream = elsewhere(a) if stranger == "of_another_partition" else ExecutionId(f"{a.tag}:{uuid.uuid4()}")
    join: dict[str, Any]
    before, join = await driver.probe.dump(), {"downstream_execution_id": downstream, "policy": c.AllOfEdges()}
    if way == "set_edge_group_policy":
        call: Any = driver.backend.set_edge_group_policy(c.SetEdgeGroupPolicyArgs(flow_id=flow.flow_id, **join))
    else:
        grown: Any = {"members": (flow.member("c"),), "joins": (c.FlowJoin(**join),)}
        call = driver.backend.grow_flow(c.GrowFlowArgs(flow_id=flow.flow_id, **grown))
    with pytest.raises(FlowFabricError) as refused:
        await call
    assert refused.value.code in ("execution_not_in_flow", "invalid_input")
    assert downstream.uuid in str(refused.value)
    assert await driver.probe.dump() == before

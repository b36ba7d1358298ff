"""Building graphs by name and running them, through the ports."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId
from flowfabric.core.states import PublicState
from tests.conformance.driver import LANE, Driver, Subject

# How an edge is drawn between two names.
ARROWS = {
    ">": c.DependencyKind.SUCCESS_ONLY,
    "*>": c.DependencyKind.ANY_TERMINAL,
    "!>": c.DependencyKind.ON_FAILURE,
}


def parse(drawing: str) -> tuple[list[str], list[tuple[str, c.DependencyKind, str]]]:
    """Names and edges of a drawing like `a b>c b!>d`."""
    names: list[str] = []
    edges = []
    for word in drawing.split():
        arrow = next((each for each in ("*>", "!>", ">") if each in word), None)
        ends = word.split(arrow) if arrow else [word]
        for name in ends:
            if name not in names:
                names.append(name)
        if arrow:
            edges.append((ends[0], ARROWS[arrow], ends[1]))
    return names, edges


class Graph:
    """One flow under test; its members are known by name."""

    def __init__(self, driver: Driver, flow_id: FlowId | None = None) -> None:
        self.driver = driver
        self.backend = driver.backend
        self.probe = driver.probe
        self.flow_id = flow_id or FlowId(str(uuid.uuid4()))
        self.held: dict[str, Subject] = {}
        self.ids: dict[str, ExecutionId] = {}
        self.edge_ids: dict[tuple[str, str], EdgeId] = {}

    def mint(self, name: str) -> ExecutionId:
        return self.ids.setdefault(name, ExecutionId.for_flow(self.flow_id, self.backend.partitions))

    def member(self, name: str, **overrides: Any) -> c.CreateExecutionArgs:
        args: dict[str, Any] = {
            "execution_id": self.mint(name), "namespace": "tests", "lane_id": LANE, "execution_kind": name,
            "input_payload": name.encode(), **overrides,
        }  # fmt: skip
        return c.CreateExecutionArgs(**args)

    def edge(self, up: str, kind: c.DependencyKind, down: str, ref: str | None = None) -> c.FlowEdge:
        edge_id = self.edge_ids.setdefault((up, down), EdgeId(str(uuid.uuid4())))
        return c.FlowEdge(
            edge_id=edge_id,
            upstream_execution_id=self.mint(up),
            downstream_execution_id=self.mint(down),
            dependency_kind=kind,
            data_passing_ref=ref,
        )

    def args(
        self,
        drawing: str,
        joins: Mapping[str, c.EdgeDependencyPolicy] | None = None,
        *,
        passing: bool = False,
        members: Mapping[str, Mapping[str, Any]] | None = None,
        **flow: Any,
    ) -> c.SubmitFlowArgs:
        names, edges = parse(drawing)
        return c.SubmitFlowArgs(
            flow_id=self.flow_id,
            namespace="tests",  # type: ignore[arg-type]
            members=tuple(self.member(name, **(members or {}).get(name, {})) for name in names),
            edges=tuple(self.edge(*edge, ref=edge[0] if passing else None) for edge in edges),
            joins=tuple(
                c.FlowJoin(downstream_execution_id=self.mint(name), policy=policy)
                for name, policy in (joins or {}).items()
            ),
            **flow,
        )

    async def submit(self, drawing: str, *joins: Any, **more: Any) -> Graph:
        await self.backend.submit_flow(self.args(drawing, *joins, **more))
        return self

    async def grow(self, drawing: str, *, old: str = "", **more: Any) -> c.GrowFlowResult:
        """Add what is drawn; the names in `old` are members already."""
        names, edges = parse(drawing)
        known = old.split()
        args = c.GrowFlowArgs(
            flow_id=self.flow_id,
            members=tuple(self.member(name) for name in names if name not in known),
            edges=tuple(self.edge(*edge) for edge in edges),
            **more,
        )
        return await self.backend.grow_flow(args)

    async def start(self, *names: str) -> None:
        for name in names:
            x = self.held.setdefault(name, Subject(self.ids[name]))
            await self.driver.grant_and_claim(x)

    async def end(self, name: str, outcome: str = "success", **more: Any) -> None:
        """Start it if it has not, and end it so."""
        if outcome == "cancelled":
            await self.driver.cancel(Subject(self.ids[name]), **more)
            return
        if await self.state(name) is not PublicState.ACTIVE:
            await self.start(name)
        if outcome == "success":
            await self.driver.complete(self.held[name], **more)
        else:
            await self.driver.fail(self.held[name], **more)

    async def run(self, *names: str) -> None:
        for name in names:
            await self.end(name)

    async def state(self, name: str) -> PublicState | None:
        return await self.backend.get_execution_state(self.ids[name])

    async def states(self) -> dict[str, str]:
        """Every member by its state, the last look at which is checked against the whole store."""
        await self.check()
        return {name: str(await self.state(name)) for name in self.ids}

    async def check(self) -> None:
        await self.driver.probe.check()
        await self.driver.probe.check_flows()

    async def flow(self) -> c.FlowSnapshot:
        snapshot = await self.backend.describe_flow(self.flow_id)
        assert snapshot is not None
        return snapshot

    async def flow_state(self) -> str:
        return str((await self.flow()).public_flow_state)

    async def join(self, name: str) -> c.EdgeGroupSnapshot:
        return next(each for each in (await self.flow()).edge_groups if each.downstream_execution_id == self.ids[name])

    async def edge_state(self, up: str, down: str) -> str:
        edge = await self.backend.describe_edge(self.flow_id, self.edge_ids[up, down])
        assert edge is not None
        return str(edge.edge_state)

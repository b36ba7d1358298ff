"""One member that another one waits for, edge by edge as callers of the public wire do it."""

from __future__ import annotations

import uuid

from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId, ExecutionId, FlowId, LaneId, Namespace
from flowfabric.core.partition import PartitionKey
from flowfabric.core.states import TerminalOutcome
from tests.conformance.driver import Driver, Subject

UPSTREAMS = LaneId("upstreams")  # a lane of their own: who asks for work of the other one is not given them


async def link(driver: Driver, x: Subject) -> None:
    """Make it a member of a flow, with a staged edge into it from another member."""
    backend, tag = driver.backend, x.execution_id.tag
    flow_id = FlowId.in_partition(PartitionKey(tag).parse(), backend.partitions, uuid.uuid4())
    x.upstream = await driver.create(execution_id=ExecutionId(f"{tag}:{uuid.uuid4()}"), lane_id=UPSTREAMS)
    x.flow_id, x.edge_id = flow_id, EdgeId.new()
    await backend.create_flow(c.CreateFlowArgs(flow_id=flow_id, flow_kind="linked", namespace=Namespace("tests")))
    for each in (x.upstream, x):
        await backend.add_execution_to_flow(c.AddExecutionToFlowArgs(flow_id=flow_id, execution_id=each.execution_id))
    flow = await backend.describe_flow(flow_id)
    assert flow is not None
    await backend.stage_dependency_edge(
        c.StageDependencyEdgeArgs(
            flow_id=flow_id,
            edge_id=x.edge_id,
            upstream_execution_id=x.upstream.execution_id,
            downstream_execution_id=x.execution_id,
            expected_graph_revision=flow.graph_revision,
        )
    )


async def apply_edge(driver: Driver, x: Subject) -> c.ApplyDependencyToChildResult:
    assert x.flow_id is not None
    assert x.edge_id is not None
    assert x.upstream is not None
    return await driver.backend.apply_dependency_to_child(
        c.ApplyDependencyToChildArgs(
            flow_id=x.flow_id,
            edge_id=x.edge_id,
            downstream_execution_id=x.execution_id,
            upstream_execution_id=x.upstream.execution_id,
        )
    )


async def resolve_edge(driver: Driver, x: Subject, outcome: TerminalOutcome) -> c.ResolveDependencyResult:
    assert x.edge_id is not None
    return await driver.backend.resolve_dependency(
        c.ResolveDependencyArgs(downstream_execution_id=x.execution_id, edge_id=x.edge_id, upstream_outcome=outcome)
    )

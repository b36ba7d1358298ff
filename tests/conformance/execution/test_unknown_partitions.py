"""Partitions that the store does not have: no engine visits them and no list shows them, so nothing may go there."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import BudgetId, EdgeId, ExecutionId, FlowId, Namespace
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import InvalidInput
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.operations import OPERATIONS

# They write a grant or an edge of the execution into the store themselves, or wait for what cannot come.
_PREPARED = ("claim_execution", "claim_resumed_execution", "reclaim_execution", "reclaim_execution:at_cap",
             "move_to_waiting_children", "apply_dependency_to_child", "resolve_dependency:satisfied",
             "resolve_dependency:impossible")  # fmt: skip


def beyond(driver: Driver, index: int | None = None) -> ExecutionId:
    """An id whose partition is the first that the store does not have, or a later one."""
    first = driver.backend.partitions.num_flow_partitions
    return ExecutionId(f"{{fp:{first if index is None else index}}}:{uuid.uuid4()}")


async def refused(what: str, call: Awaitable[object], naming: str) -> list[str]:
    """What is wrong with how the call was refused; empty when nothing is."""
    try:
        return [f"{what}: accepted, {await call}"]
    except InvalidInput as error:
        return [] if naming in str(error) else [f"{what}: {error}"]


async def test_no_operation_reaches_one(driver: Driver) -> None:
    wrong, x = [], Subject(beyond(driver))
    before = await driver.probe.dump()
    for operation in sorted(OPERATIONS.keys() - set(_PREPARED)):
        wrong += await refused(operation, OPERATIONS[operation](driver, x), "partitions")
        if await driver.probe.dump() != before:
            wrong.append(f"{operation}: something was written")
    assert not wrong, "\n".join(wrong)


def _reads() -> list[str]:
    """Every method of the ports whose first argument is the id of an execution."""
    found = []
    for name, method in inspect.getmembers(EngineBackend, inspect.isfunction):
        names = list(inspect.signature(method).parameters)
        if names[1:2] == ["execution_id"]:
            found.append(name)
    return found


async def test_no_read_reaches_one(driver: Driver) -> None:
    needed: dict[str, Any] = {"timeout_ms": 10, "attempt_index": 0, "limit": 1}
    wrong = []
    for name in _reads():
        taken = inspect.signature(getattr(EngineBackend, name)).parameters
        answer = getattr(driver.backend, name)(beyond(driver), **{key: needed[key] for key in needed if key in taken})
        wrong += await refused(name, anext(answer) if hasattr(answer, "__anext__") else answer, "partitions")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("index", [None, limits.MAX_U16])
async def test_a_submit_with_such_an_id_is_refused_and_those_beside_it_are_not(
    driver: Driver, index: int | None
) -> None:
    stray, good = beyond(driver, index), driver.mint()
    with pytest.raises(InvalidInput, match=r"execution_id.*partitions"):
        await driver.create(execution_id=stray)
    made = [
        c.CreateExecutionArgs(execution_id=each, namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind")
        for each in (stray, good)
    ]
    refused, accepted = await driver.backend.submit_executions(made)
    assert isinstance(refused, InvalidInput)
    assert refused.field == "execution_id"
    assert isinstance(accepted, c.ExecutionCreated)
    names = [key.decode() for key in await driver.probe.dump()]
    assert not [name for name in names if stray.tag in name]


def _claim(place: Partition) -> b.ClaimExecutionsArgs:
    return b.ClaimExecutionsArgs(
        partition=place, lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, count=1
    )


Call = Callable[[Driver, Partition, ExecutionId], Awaitable[object]]
BUDGET, FLOW = BudgetId.new(), FlowId.new()
OTHERS: dict[str, Call] = {
    "claim_executions": lambda d, place, _: d.backend.claim_executions(_claim(place)),
    "finish_executions": lambda d, place, _: d.backend.finish_executions(b.FinishExecutionsArgs(partition=place)),
    "run_due_work": lambda d, place, _: d.backend.run_due_work(b.RunDueWorkArgs(partition=place)),
    "read_events": lambda d, _, x: d.backend.read_events(c.ReadEventsArgs(execution_id=x)),
    "attach_limit": lambda d, _, x: d.backend.attach_limit(
        c.AttachLimitArgs(
                limit_kind=c.LimitKind.BUDGET, limit_id=BUDGET, scope_type=c.LimitScope.EXECUTION, scope_id=x
            )
    ),
    "get_budget_ledger": lambda d, _, x: d.backend.get_budget_ledger(BUDGET, x),
    "add_execution_to_flow": lambda d, _, x: d.backend.add_execution_to_flow(
        c.AddExecutionToFlowArgs(flow_id=FLOW, execution_id=x)
    ),
    "stage_dependency_edge": lambda d, _, x: d.backend.stage_dependency_edge(
        c.StageDependencyEdgeArgs(
            flow_id=FLOW, edge_id=EdgeId.new(), upstream_execution_id=x, downstream_execution_id=x,
            expected_graph_revision=0,
        )
    ),
    "scan_eligible_executions": lambda d, place, _: d.backend.scan_eligible_executions(
        c.ScanEligibleArgs(partition=place, lane_id=LANE, limit=1)
    ),
}  # fmt: skip


async def test_no_other_reference_leads_there(driver: Driver) -> None:
    wrong, x = [], beyond(driver)
    place = Partition(PartitionFamily.FLOW, x.partition_index)
    before = await driver.probe.dump()
    for name, call in OTHERS.items():
        wrong += await refused(name, call(driver, place, x), "partition")
        if await driver.probe.dump() != before:
            wrong.append(f"{name}: something was written")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("family", [PartitionFamily.BUDGET, PartitionFamily.QUOTA])
async def test_budgets_of_other_partitions_are_no_work_of_an_engine(driver: Driver, family: PartitionFamily) -> None:
    with pytest.raises(InvalidInput, match="partition"):
        await driver.backend.reset_due_budgets(Partition(family, 32))

"""What a claim gives a member of its upstreams, beside its own payload and beside what it waited for."""

from __future__ import annotations

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import FlowId
from flowfabric.core.partition import Partition, flow_partition, lane_partitions
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver
from tests.conformance.flowing import Graph
from tests.conformance.suspending import Suspender

BINARY = bytes(range(256))
GIVEN = {"a": BINARY, "b": b""}


def home(driver: Driver) -> Partition:
    return lane_partitions(LANE, driver.backend.partitions)[0]


def flow_in(driver: Driver, partition: Partition) -> FlowId:
    """A flow whose members live there."""
    flow_id = FlowId.new()
    while flow_partition(flow_id, driver.backend.partitions) != partition:
        flow_id = FlowId.new()
    return flow_id


async def joined(driver: Driver) -> Graph:
    """Two upstreams that have ended, and z, which is given their results. All of them live where their lane does."""
    graph = Graph(driver, flow_in(driver, home(driver)))
    await graph.submit("a>z b>z", passing=True, members={"z": {"input_payload": BINARY * 2, "payload_encoding": "raw"}})
    await graph.end("a", result_payload=BINARY, result_encoding="raw")
    await graph.end("b", result_payload=b"")
    return graph


async def claim(driver: Driver) -> b.ClaimedWork:
    args = b.ClaimExecutionsArgs(
        lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, lease_ttl_ms=TTL, partition=home(driver)
    )
    (work,) = await driver.backend.claim_executions(args)
    assert isinstance(work, b.ClaimedWork)
    return work


def check_given(work: b.ClaimedWork, graph: Graph) -> None:
    assert (work.execution_id, work.execution_kind) == (graph.ids["z"], "z")
    assert (work.input_payload, work.payload_encoding) == (BINARY * 2, "raw")
    assert {each.data_passing_ref: each.payload or b"" for each in work.inputs} == GIVEN


async def test_a_claim_gives_the_results_of_upstreams(driver: Driver) -> None:
    graph = await joined(driver)
    work = await claim(driver)
    check_given(work, graph)
    assert isinstance(work.claim, c.ClaimedExecution)
    assert work.resumption is None
    await driver.complete(driver.held(work))
    assert await graph.flow_state() == "completed"


async def test_a_resumed_member_is_given_them_again_with_what_it_waited_for(driver: Driver) -> None:
    graph, waits = await joined(driver), Suspender(driver)
    await waits.seed()
    first = await claim(driver)
    x = driver.held(first)
    suspended = await waits.suspend(x)
    await waits.signal(x, suspended.waitpoints[0], payload=b"yes")
    work = await claim(driver)
    check_given(work, graph)
    assert isinstance(work.claim, c.ClaimedResumedExecution)
    assert work.fence.attempt_id == first.fence.attempt_id
    assert work.resumption is not None
    assert [signal.payload for signal in work.resumption.latest.signals] == [b"yes"]
    await graph.check()

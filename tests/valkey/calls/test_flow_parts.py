"""A large graph travels in parts: nothing of it runs before the last one."""

from __future__ import annotations

from flowfabric.backends.valkey.rows.graph_parts import submit_parts
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import flow_partition
from flowfabric.core.states import BlockingReason
from tests.conformance.driver import Subject
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_submit_flow import claim
from tests.valkey.driver import Driver


async def test_nothing_of_a_graph_runs_before_it_is_committed(driver: Driver) -> None:
    """Each part is sent by itself, and after each a worker asks for work."""
    graph = Graph(driver)
    args = graph.args(" ".join(f"r{i} a>n{i}" for i in range(300)))
    parts = submit_parts(args)
    assert len(parts) > 2
    for part in parts[:-1]:
        await driver.backend._submit_part(graph.flow_id, part)
        assert await claim(graph) == []
    assert not (await graph.flow()).is_committed
    await driver.backend.submit_flow(args)  # and what it sends when it comes again
    assert (await graph.flow()).is_committed
    assert len(await claim(graph)) == 256
    await graph.check()


async def test_what_is_blocked_and_let_go_in_an_unfinished_graph_still_waits(driver: Driver) -> None:
    graph = Graph(driver)
    parts = submit_parts(graph.args(" ".join(f"r{i}" for i in range(300))))
    await driver.backend._submit_part(graph.flow_id, parts[0])
    x = Subject(graph.ids["r0"])
    await driver.block(x, BlockingReason.PAUSED_BY_OPERATOR)
    await driver.unblock(x)
    assert await graph.state("r0") == "waiting_children"
    await graph.check()


async def test_a_graph_that_is_never_committed_is_given_up(driver: Driver) -> None:
    graph = Graph(driver)
    parts = submit_parts(graph.args(" ".join(f"r{i}" for i in range(300))))
    await driver.backend._submit_part(graph.flow_id, parts[0])
    await driver.clock.advance(3_600_000)
    partition = flow_partition(graph.flow_id, driver.backend.partitions)
    due = await driver.backend.next_due(partition)
    assert due.at_ms is not None
    assert due.at_ms <= due.now_ms
    while (await driver.backend.run_due_work(b.RunDueWorkArgs(partition=partition))).more:
        pass
    snapshot = await graph.flow()
    assert (snapshot.public_flow_state, snapshot.cancel_reason) == (c.FlowState.CANCELLED, "never_committed")
    assert snapshot.left_count == 0
    await graph.check()

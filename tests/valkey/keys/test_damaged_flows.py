"""Members and flows whose records are damaged or incomplete."""

from __future__ import annotations

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import FlowFabricError
from tests.conformance.execution.test_trim_executions import ended, trim
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_cancel_flow import args, running
from tests.conformance.reads.test_explain import facts_of, sentence
from tests.valkey.driver import Driver


async def test_only_a_member_that_cannot_be_read_makes_a_cancel_partial(driver: Driver) -> None:
    graph = await running(driver)
    core = keys.core(graph.ids["later"])
    await driver.backend.client.execute("DEL", core, key=core)
    await driver.backend.client.execute("SET", core, "broken", key=core)
    result = await driver.backend.cancel_flow(args(graph, wait=True))
    assert isinstance(result, c.FlowPartiallyCancelled)
    assert result.failed_member_execution_ids == (graph.ids["later"],)
    assert await graph.state("ready") == "cancelled"


async def test_a_member_of_a_cancelled_flow(driver: Driver) -> None:
    x = await driver.create()
    tag, client = x.execution_id.tag, driver.backend.client
    core, flow = f"ff:exec:{tag}:{x.execution_id}:core", f"ff:flow:{tag}:f-1:core"
    await client.execute("HSET", core, "flow_id", "f-1", key=core)
    await client.execute("HSET", flow, "public_flow_state", "cancelled", key=flow)
    assert (await facts_of(driver, x)).flow_is_cancelled
    assert "stopped with its flow" in await sentence(driver, x)


async def test_a_member_stays_while_its_flow_is_open(driver: Driver) -> None:
    """What a flow will write; there is no port for it yet."""
    x = await ended(driver)
    client, tag = driver.backend.client, x.execution_id.tag
    core, flow = f"ff:exec:{tag}:{x.execution_id}:core", f"ff:flow:{tag}:f:core"
    await client.execute("HSET", core, "flow_id", "f", key=core)
    await client.execute("HSET", flow, "public_flow_state", "open", key=flow)
    assert await trim(driver, older_than_ms=0) == 0
    await client.execute("HSET", flow, "public_flow_state", "completed", key=flow)
    assert await trim(driver, older_than_ms=0) == 1


async def test_the_limits_are_those_of_the_contract(driver: Driver) -> None:
    graph = await Graph(driver).submit("a")
    core = f"ff:flow:{graph.ids['a'].tag}:{graph.flow_id}:core"
    await driver.backend.client.execute("HSET", core, "node_count", limits.MAX_FLOW_MEMBERS, key=core)
    with pytest.raises(FlowFabricError) as caught:
        await graph.grow("b")
    assert caught.value.code == "flow_too_large"

"""How long keys live: what expires by itself, and what goes with its execution."""

from __future__ import annotations

from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core.partition import flow_partition
from flowfabric.core.policy import (
    ExecutionPolicy,
)
from tests.conformance.driver import BACKOFF
from tests.conformance.execution.test_idempotency_modes import M, submit
from tests.conformance.flowing import Graph
from tests.conformance.flows.test_cancel_flow import ALL, args
from tests.conformance.lanes.test_scheduler_surface import GPU
from tests.valkey.driver import Driver, Limits


async def test_the_policy_sets_how_long_an_idempotency_key_is_remembered(driver: Driver) -> None:
    x = await driver.create(idempotency_key="k", policy=ExecutionPolicy(dedup_window_ms=5_000))
    key = f"ff:idem:{x.execution_id.tag}:tests:k"
    ttl = await driver.backend.client.execute("PTTL", key, key=key)
    assert isinstance(ttl, int)
    assert 0 < ttl <= 5_000


async def test_what_is_not_given_again_is_gone(driver: Driver) -> None:
    created = await submit(
        driver, M.REPLACE_WHILE_WAITING, input_payload=b"old", payload_encoding="raw", priority=3, policy=GPU,
        concurrency_key="k", delay_ms=BACKOFF,
    )  # fmt: skip
    await submit(driver, M.REPLACE_WHILE_WAITING, execution_deadline_at=None)
    plain = await driver.submit(execution_deadline_at=None)
    facts, wanted = [await driver.backend.explain_execution(each.execution_id) for each in (created, plain)]
    assert (facts.required_capabilities, facts.concurrency_key, facts.delay_until) == ((), None, None)
    assert facts.state_vector == wanted.state_vector
    left = {key.decode() for key in await driver.probe.dump() if created.execution_id.encode() in key}
    assert left == {f"ff:exec:{created.execution_id.tag}:{created.execution_id}:core"}
    await driver.probe.check()


async def test_a_replacement_keeps_the_key_for_another_window(driver: Driver) -> None:
    created = await submit(driver, M.REPLACE_WHILE_WAITING)
    key = f"ff:idem:{created.execution_id.tag}:tests:once"
    await driver.backend.client.execute("PEXPIRE", key, 50_000, key=key)
    await submit(driver, M.REPLACE_WHILE_WAITING)
    left = await driver.backend.client.execute("PTTL", key, key=key)
    assert isinstance(left, int)
    assert left > 50_000


async def test_a_flow_without_members_is_cancelled_and_goes_by_itself(driver: Driver) -> None:
    graph = Graph(driver)
    await driver.backend.create_flow(c.CreateFlowArgs(flow_id=graph.flow_id, flow_kind="dag", namespace="tests"))  # type: ignore[arg-type]
    assert await driver.backend.cancel_flow(args(graph)) == c.FlowCancelled(cancellation_policy=ALL)
    core = keys.flow_core(flow_partition(graph.flow_id, driver.backend.partitions).tag, graph.flow_id)
    assert int(await driver.backend.client.execute("TTL", core, key=core)) > 0  # type: ignore[arg-type]


async def test_a_trimmed_execution_leaves_nothing_of_its_limits(limits: Limits) -> None:
    x = await limits.submit()
    budget = await limits.budget({"tokens": 10}, scope_id=x.execution_id)
    (held,) = await limits.driver.take(1)
    await limits.driver.complete(held)
    await limits.drain(held)
    await limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    key = keys.attachments(x.execution_id.tag)
    assert await limits.backend.client.execute("EXISTS", key, key=key) == 0
    assert (await limits.status(budget)).reserved == {}


async def test_logs_and_exceptions_go_with_their_execution(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.backend.append_logs(
        c.AppendLogsArgs(
            execution_id=x.execution_id,
            attempt_index=0,
            attempt_id=x.fence.attempt_id,
            writer="w",
            first_number=0,
            entries=(c.LogEntry(at_ms=1, level=20, message="one"),),
        )
    )
    await driver.fail(x, failure_detail=c.FailureDetail(type="ValueError"))
    logs = f"ff:exec:{x.execution_id.tag}:{x.execution_id}:logs"
    assert int(await driver.backend.client.execute("PTTL", logs, key=logs)) > 0  # type: ignore[arg-type]
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert [key for key in await driver.probe.dump() if x.execution_id.encode() in key] == []
    await driver.probe.check()

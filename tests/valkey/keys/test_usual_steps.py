"""The steps that nearly all executions make are written in a shorter way: it must leave what the long way leaves."""

from __future__ import annotations

from typing import Any

from flowfabric.backends.valkey.library.calls import flat_to_dict
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.states import PublicState
from tests.conformance.driver import Subject
from tests.event_log import read_lines
from tests.stores.batched import partition_of
from tests.valkey.driver import Driver

# Ids of their own; and a step that leaves no time behind is stamped, which a promotion is.
OWN = {"current_attempt_id", "current_lease_id", "last_mutation_at"}


async def record(driver: Driver, x: Subject) -> dict[str, str]:
    core = f"ff:exec:{x.execution_id.tag}:{x.execution_id}:core"
    found = flat_to_dict(await driver.backend.client.execute("HGETALL", core, key=core))
    return {name: value for name, value in found.items() if name not in OWN}


async def events(driver: Driver, x: Subject) -> list[str]:
    lines = await read_lines(driver.backend.client, x.execution_id.tag)
    return [line["event"] for line in lines if line["execution_id"] == x.execution_id]


def complete(x: Subject, **more: Any) -> c.CompleteExecutionArgs:
    return c.CompleteExecutionArgs(execution_id=x.execution_id, fence=x.fence, result_payload=b"r", **more)


async def finish(driver: Driver, *endings: b.FinishArgs) -> list[b.FinishOutcome]:
    args = b.FinishExecutionsArgs(partition=partition_of(driver.mint()), finish=endings)
    return (await driver.backend.finish_executions(args)).finished


async def test_a_first_claim_is_the_same_whatever_came_before(driver: Driver) -> None:
    promoted = await driver.create(delay_until=driver.clock.now_ms + 10)
    plain = await driver.create()
    await driver.clock.advance(10)
    await driver.promote(promoted)
    taken = {x.execution_id: x for x in await driver.take(2)}
    assert len(taken) == 2
    assert await record(driver, promoted) == await record(driver, plain)
    await driver.probe.check()


async def test_an_ending_is_the_same_whatever_came_before(driver: Driver) -> None:
    for _ in range(4):
        await driver.create()
    works = await driver.take(4)
    await driver.renew(works[1])
    outcomes = await finish(driver, *(complete(x, result_encoding="raw") for x in works[:3]))
    await driver.complete(works[3], result_encoding="raw")
    assert [type(outcome) for outcome in outcomes] == [c.ExecutionCompleted] * 3
    first = await record(driver, works[0])
    assert first["public_state"] == PublicState.COMPLETED
    assert [await record(driver, x) for x in works] == [first] * 4
    assert [await events(driver, x) for x in works] == [["created", "claimed", "completed"]] * 4
    await driver.probe.check()


async def test_leases_of_two_workers_end_in_one_call(driver: Driver) -> None:
    for _ in range(4):
        await driver.create()
    works = await driver.take(2) + await driver.take(2, worker_instance_id="worker-2")
    one, two, three, four = works
    failed = c.FailExecutionArgs(
        execution_id=two.execution_id,
        fence=two.fence,
        failure_reason="boom",
        failure_category="c",
        retry_policy_json="",
    )
    outcomes = await finish(driver, complete(three), failed, complete(one), complete(three), complete(four))
    assert [type(outcome) for outcome in outcomes] == [
        c.ExecutionCompleted, c.TerminalFailed, c.ExecutionCompleted, c.ExecutionCompleted, c.ExecutionCompleted,
    ]  # fmt: skip
    assert [(await events(driver, x))[2:] for x in works] == [["completed"], ["failed"], ["completed"], ["completed"]]
    await driver.probe.check()


async def test_a_replayed_execution_forgets_how_its_result_was_encoded(driver: Driver) -> None:
    await driver.create()
    (x,) = await driver.take()
    await finish(driver, complete(x, result_encoding="raw"))
    await driver.replay(x)
    (again,) = await driver.take()
    await finish(driver, complete(again))
    assert "result_encoding" not in await record(driver, again)

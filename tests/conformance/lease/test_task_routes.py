"""A worker that names its tasks gets no others; work that it left waits for a worker that has its task."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import WorkerId, WorkerInstanceId
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.states import PublicState
from tests.conformance.driver import LANE, TTL, Driver, Subject
from tests.stores.batched import partition_of

pytestmark = pytest.mark.every_store


async def claim(driver: Driver, x: Subject, *kinds: str, count: int = 10, **overrides: Any) -> list[str]:
    """The kinds that a worker with these tasks gets; without tasks it takes anything."""
    args = b.ClaimExecutionsArgs(
        partition=partition_of(x.execution_id),
        lane_id=LANE,
        worker_id=WorkerId("w"),
        worker_instance_id=WorkerInstanceId(f"w-{'-'.join(kinds) or 'plain'}"),
        lease_ttl_ms=TTL,
        count=count,
        kinds=kinds,
        **overrides,
    )
    found = await driver.backend.claim_executions(args)
    return [each.execution_kind for each in found if isinstance(each, b.ClaimedWork)]


async def test_a_worker_gets_only_what_it_has_tasks_for(driver: Driver) -> None:
    x = await driver.create(execution_kind="a")
    for kind in ("b", "a", "c"):
        await driver.create(execution_kind=kind)
    assert await claim(driver, x, "a") == ["a", "a"]
    assert await claim(driver, x, "b", "d") == ["b"]
    assert await claim(driver, x, "c") == ["c"]


async def test_work_that_nobody_has_a_task_for_waits_without_events(driver: Driver) -> None:
    x = await driver.create(execution_kind="nosuchtask")
    for _ in range(3):
        assert await claim(driver, x, "a") == []
    assert (await driver.info(x)).public_state is PublicState.WAITING
    assert [each.event for each in (await driver.backend.history(x.execution_id)).events] == ["created"]
    assert await driver.backend.list_attempts(x.execution_id) == []
    assert await claim(driver, x, "nosuchtask") == ["nosuchtask"]


async def test_a_worker_that_names_no_tasks_takes_anything(driver: Driver) -> None:
    x = await driver.create(execution_kind="odd one")
    assert await claim(driver, x, "a") == []
    assert await claim(driver, x) == ["odd one"]


@pytest.mark.parametrize("kind", ["a,b", "a b", "100%", "naïve", "a:b/c-d.e", "ff.task:a", "a%2Cb"])
async def test_any_name_of_a_task_leads_to_its_worker(driver: Driver, kind: str) -> None:
    x = await driver.create(execution_kind=kind)
    others = {"a", "b", "a,b", "a%2Cb", "ff.task:", "task"} - {kind}
    assert await claim(driver, x, *others) == []
    assert await claim(driver, x, kind) == [kind]


async def test_capabilities_hold_beside_tasks(driver: Driver) -> None:
    needs = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
    x = await driver.create(execution_kind="draw", policy=needs)
    assert await claim(driver, x, "a", worker_capabilities=("gpu",)) == []
    assert await claim(driver, x, "draw") == []
    assert await claim(driver, x, "draw", worker_capabilities=("gpu",)) == ["draw"]


async def test_others_of_a_concurrency_key_are_not_held_up(driver: Driver) -> None:
    first = await driver.create(execution_kind="nosuchtask", concurrency_key="k")
    await driver.create(execution_kind="a", concurrency_key="k")
    assert await claim(driver, first, "a") + await claim(driver, first, "a") == ["a"]


async def test_work_behind_many_unknown_ones_is_reached(driver: Driver) -> None:
    x = await driver.create(execution_kind="nosuchtask")
    for _ in range(40):
        await driver.create(execution_kind="nosuchtask")
    await driver.create(execution_kind="a")
    assert await claim(driver, x, "a", count=1) == ["a"]


async def test_what_was_left_can_be_cancelled_and_ends_as_usual(driver: Driver) -> None:
    x = await driver.create(execution_kind="nosuchtask")
    assert await claim(driver, x, "a") == []
    await driver.change_priority(x, 7)
    await driver.cancel(x)
    assert (await driver.info(x)).public_state is PublicState.CANCELLED
    assert await claim(driver, x, "nosuchtask") == []

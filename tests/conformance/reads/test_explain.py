"""explain_execution: what bears on why an execution does or does not run, and the sentence it makes."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.explain import explain
from flowfabric.core.ids import Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.states import BlockingReason, LaneState
from flowfabric.errors import ExecutionNotFound
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, TTL, Driver, Subject

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu", "ssd")))


async def facts_of(driver: Driver, x: Subject) -> c.Explanation:
    before = await driver.probe.dump()
    facts = await driver.backend.explain_execution(x.execution_id)
    assert await driver.probe.dump() == before
    return facts


async def sentence(driver: Driver, x: Subject, *capabilities: str) -> str:
    """With one live worker, as the registry tells it."""
    await driver.backend.register_worker(
        c.RegisterWorkerArgs(
            namespace=Namespace("tests"), worker_id=WorkerId("w"), worker_instance_id=WorkerInstanceId("w-1"),
            lanes=(LANE,), ttl_ms=60_000, capabilities=capabilities,
        )
    )  # fmt: skip
    page = await driver.backend.list_workers(c.ListWorkersArgs())
    return explain(await driver.backend.explain_execution(x.execution_id), page.workers)


@pytest.mark.parametrize("situation", Situation)
async def test_every_situation_has_its_facts_and_a_sentence(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    facts = await facts_of(driver, x)
    assert facts.state_vector == SITUATIONS[situation]
    assert facts.public_state is SITUATIONS[situation].public_state
    assert (facts.execution_id, facts.lane_id, facts.now_ms) == (x.execution_id, LANE, driver.clock.now_ms)
    assert explain(facts, ())


async def test_there_is_nothing_to_explain_about_nothing(driver: Driver) -> None:
    with pytest.raises(ExecutionNotFound):
        await driver.backend.explain_execution(driver.mint())


async def test_the_place_in_the_queue(driver: Driver) -> None:
    subjects = [await driver.create(priority=priority) for priority in (9, 5, 1)]
    found = [await facts_of(driver, x) for x in subjects]
    assert [facts.ahead for facts in found] == [0, 1, 2]
    assert {facts.first_in_queue for facts in found} == {subjects[0].execution_id}
    assert "2 executions are ahead" in await sentence(driver, subjects[2])
    assert "the next of its queue" in await sentence(driver, subjects[0])


async def test_what_no_worker_offers(driver: Driver) -> None:
    x = await driver.create(policy=GPU)
    assert (await facts_of(driver, x)).required_capabilities == ("gpu", "ssd")
    said = await sentence(driver, x, "ssd")
    assert said == (
        "waits for a worker that offers gpu: no live worker of lane default does; "
        "start one with capabilities {'gpu', 'ssd'}"
    )
    assert "next of its queue" in await sentence(driver, x, "ssd", "gpu")


async def test_a_lane_that_is_closed_or_full(driver: Driver) -> None:
    await driver.create(priority=1)
    x = await driver.create()
    await driver.take()
    await driver.configure(max_concurrency=1)
    facts = await facts_of(driver, x)
    assert (facts.lane_running, facts.lane_limit, facts.lane_max_concurrency) == (1, 1, 1)
    assert "1 of at most 1 run here" in await sentence(driver, x)
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.PAUSED))
    assert (await facts_of(driver, x)).lane_state is LaneState.PAUSED
    assert "lane default is paused; resume the lane" in await sentence(driver, x)


async def test_a_key_that_is_full(driver: Driver) -> None:
    await driver.configure(key_concurrency=2)
    x, *_ = [await driver.create(concurrency_key="k", priority=priority) for priority in (0, 9, 8, 7)]
    await driver.take(2)
    facts = await facts_of(driver, x)
    assert (facts.concurrency_key, facts.key_running, facts.key_limit, facts.key_ahead) == ("k", 2, 2, 1)
    said = await sentence(driver, x)
    assert "concurrency key 'k': 2 of at most 2 run, and 1 other waits before it" in said


async def test_a_grant_that_is_out(driver: Driver) -> None:
    x = await driver.create()
    await driver.grant(x)
    facts = await facts_of(driver, x)
    assert (facts.granted_to, facts.grant_expires_at) == (INSTANCE, driver.clock.now_ms + 5_000)
    assert f"granted to worker {INSTANCE}" in await sentence(driver, x)
    await driver.clock.advance(5_001)
    assert (await facts_of(driver, x)).granted_to is None


async def test_who_runs_it_and_who_lost_it(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    facts = await facts_of(driver, x)
    assert (facts.worker_instance_id, facts.lease_expires_at) == (INSTANCE, driver.clock.now_ms + TTL)
    assert await sentence(driver, x) == f"runs on worker {INSTANCE}"
    await driver.clock.advance(TTL)
    assert "lease ran out" in await sentence(driver, x)


async def test_delays_dependencies_and_words_of_others(driver: Driver) -> None:
    delayed = await driver.reach(Situation.DELAYED)
    assert (await facts_of(driver, delayed)).delay_until == driver.clock.now_ms + BACKOFF
    assert "it may start in 5.0 s" in await sentence(driver, delayed)
    parent = await driver.reach(Situation.WAITING_CHILDREN)
    assert (await facts_of(driver, parent)).open_dependencies == 1
    held: Any = await driver.create()
    await driver.block(held, BlockingReason.WAITING_FOR_BUDGET)
    assert "waits for its budget (because); raise" in await sentence(driver, held)

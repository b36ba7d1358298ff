"""Everything that is created is deleted (D29): submit, finish in every way, trim, and the key space is as before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.conditions import Count, CountKind
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements, TimeoutBehavior
from flowfabric.core.rules.execution.transitions import SITUATIONS, TERMINAL, Situation
from tests.conformance.driver import DEADLINE_IN, RETRYING, Driver, Subject
from tests.conformance.suspending import KID, SECRET, Suspender, fresh

pytestmark = pytest.mark.every_store

LIVE = [situation for situation in Situation if situation not in TERMINAL]
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
PARTS: dict[str, Any] = {
    "input_payload": b"in",
    "payload_encoding": "raw",
    "tags": {"team.a": "1", "team.b": "x y"},
    "priority": 7,
}


async def trim(driver: Driver) -> int:
    result = await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    assert not result.more
    return result.deleted


async def emit(driver: Driver, x: Subject) -> None:
    """Frames of every mode: each has keys of its own."""
    for mode in c.StreamMode:
        await driver.append(x, b"{}", mode=mode)


async def completed(driver: Driver, x: Subject) -> None:
    await driver.run(x, attempt_policy_json='{"model":"m"}')
    await driver.progress(x, progress_message="half")
    await emit(driver, x)
    await driver.complete(x)


async def retried(driver: Driver, x: Subject) -> None:
    for _ in range(2):
        await driver.run(x, attempt_policy_json='{"model":"m"}')
        await emit(driver, x)
        await driver.fail(x, retry_policy_json=None)
        await driver.clock.advance(5_000)
        await driver.promote(x)
    await completed(driver, x)


async def reclaimed(driver: Driver, x: Subject) -> None:
    await driver.run(x)
    await emit(driver, x)
    await driver.revoke(x)
    await driver.reclaim_grant(x)
    await driver.reclaim(x)
    await driver.fail(x)


async def replayed(driver: Driver, x: Subject) -> None:
    await completed(driver, x)
    await driver.replay(x)
    await completed(driver, x)


async def expired(driver: Driver, x: Subject) -> None:
    await driver.run(x)
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)


async def interrupted(driver: Driver, x: Subject) -> None:
    await driver.run(x)
    await driver.delay(x, driver.clock.now_ms)
    await driver.grant(x)
    await driver.claim_resumed(x)
    await driver.complete(x)


async def waited(driver: Driver, x: Subject) -> None:
    """A composite wait, a waitpoint that nobody came to, early and late signals, a time-out, and steps."""
    waits = Suspender(driver)
    await waits.rotate(x, KID, SECRET.reveal(), 0)
    await driver.run(x)
    early = await waits.pending(x, "early")
    await waits.pending(x, "unused")
    await waits.signal(x, early, payload=b"!", idempotency_key="once")
    keys = (WaitpointKey("early"), WaitpointKey("late"))
    both = Count(2, CountKind.DISTINCT_WAITPOINTS, keys)
    pending = c.PendingWaitpoint(waitpoint_id=early.waitpoint_id, waitpoint_key=keys[0])
    late = (await waits.suspend(x, both, pending, fresh("late"))).waitpoints[1]
    await waits.signal(x, late, payload=b"?")
    await driver.grant_and_claim(x)
    await driver.backend.record_step(
        c.RecordStepArgs(execution_id=x.execution_id, fence=x.fence, step=c.StepKey(name="charge"), payload=b"paid")
    )
    behavior = TimeoutBehavior.AUTO_RESUME_WITH_TIMEOUT_SIGNAL
    await waits.suspend(x, timeout_ms=1_000, timeout_behavior=behavior)
    await driver.clock.advance(1_000)
    await waits.due(x)
    await driver.grant_and_claim(x)
    await driver.complete(x)


async def cancelled_with_a_grant_out(driver: Driver, x: Subject) -> None:
    await driver.grant(x)
    await driver.set_tags(x, team__a="2", team__c="3")
    await driver.cancel(x)


LIVES: list[Callable[[Driver, Subject], Awaitable[None]]] = [
    completed, retried, reclaimed, replayed, expired, interrupted, waited, cancelled_with_a_grant_out,
]  # fmt: skip


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
async def test_a_whole_life_leaves_nothing(driver: Driver, life: Callable[[Driver, Subject], Awaitable[None]]) -> None:
    await life(driver, await driver.create(policy=RETRYING, **PARTS))
    assert await trim(driver) == 1
    assert await driver.probe.left_behind() == []


@pytest.mark.parametrize("situation", LIVE)
async def test_whatever_is_cancelled_leaves_nothing(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation, **PARTS)
    assert await driver.state(x) == SITUATIONS[situation]
    await driver.cancel(x)
    if x.upstream:
        await driver.cancel(x.upstream)
    assert await trim(driver) == (2 if x.upstream else 1)
    assert await driver.probe.left_behind() == []


async def test_work_that_needs_capabilities_leaves_nothing(driver: Driver) -> None:
    waiting, run = [await driver.create(policy=GPU) for _ in range(2)]
    await driver.grant_and_claim(run, worker_capabilities=("gpu",))
    await driver.complete(run)
    await driver.cancel(waiting)
    assert await trim(driver) == 2
    assert await driver.probe.left_behind() == []

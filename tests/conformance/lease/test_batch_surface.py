"""submit_executions, claim_executions, finish_executions, run_due_work: many at once, each with its own outcome."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, LaneId, Namespace, WorkerInstanceId
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.core.rules.execution.transitions import Situation
from flowfabric.core.states import AttemptRecordState, AttemptType, LaneState, PublicState
from flowfabric.errors import ExecutionNotFound, FlowFabricError, InvalidInput, StaleLease
from tests.conformance.driver import (
    ATTEMPT_TIMEOUT,
    BACKOFF,
    DEADLINE_IN,
    INSTANCE,
    LANE,
    RETRYING,
    TTL,
    WORKER,
    Driver,
)
from tests.conformance.streaming import read
from tests.stores.batched import partition_of

pytestmark = pytest.mark.every_store

GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))


def create_args(driver: Driver, **overrides: Any) -> c.CreateExecutionArgs:
    args: dict[str, Any] = {
        "execution_id": driver.mint(), "namespace": Namespace("tests"), "lane_id": LANE, "execution_kind": "kind",
        "input_payload": b"\x00\xff", **overrides,
    }  # fmt: skip
    return c.CreateExecutionArgs(**args)


def claim_args(driver: Driver, **overrides: Any) -> b.ClaimExecutionsArgs:
    args: dict[str, Any] = {
        "partition": partition_of(driver.mint()), "lane_id": LANE, "worker_id": WORKER,
        "worker_instance_id": INSTANCE, "lease_ttl_ms": TTL, "count": 100, **overrides,
    }  # fmt: skip
    return b.ClaimExecutionsArgs(**args)


async def claim(driver: Driver, **overrides: Any) -> list[b.ClaimedWork]:
    claimed = await driver.backend.claim_executions(claim_args(driver, **overrides))
    return [work for work in claimed if isinstance(work, b.ClaimedWork)]


def finish_args(driver: Driver, **parts: Any) -> b.FinishExecutionsArgs:
    return b.FinishExecutionsArgs(partition=partition_of(driver.mint()), **parts)


async def test_each_of_many_has_its_own_outcome(driver: Driver) -> None:
    first = create_args(driver)
    batch = [first, create_args(driver, idempotency_key="k"), first, create_args(driver, idempotency_key="k")]
    outcomes = await driver.backend.submit_executions(batch)
    assert [type(outcome) for outcome in outcomes] == [
        c.ExecutionCreated, c.ExecutionCreated, c.ExecutionDuplicate, c.ExecutionDuplicate,
    ]  # fmt: skip
    assert outcomes[3] == c.ExecutionDuplicate(execution_id=batch[1].execution_id)


async def test_a_batch_goes_to_as_many_partitions_as_it_has(driver: Driver) -> None:
    lanes = [LaneId(f"lane-{number}") for number in range(8)]
    batch = [create_args(driver, lane_id=lane, execution_id=driver.mint(lane)) for lane in lanes for _ in range(30)]
    outcomes = await driver.backend.submit_executions(batch)
    assert [outcome.execution_id for outcome in outcomes if isinstance(outcome, c.ExecutionCreated)] == [
        args.execution_id for args in batch
    ]
    assert len(await driver.probe.check()) == 240


async def test_claims_come_best_first_with_what_is_needed_to_run_them(driver: Driver) -> None:
    low, high = create_args(driver, priority=1), create_args(driver, priority=9, payload_encoding="raw")
    await driver.backend.submit_executions([low, high])
    works = await claim(driver)
    assert [work.claim.execution_id for work in works] == [high.execution_id, low.execution_id]
    assert (works[0].execution_kind, works[0].input_payload, works[0].payload_encoding) == ("kind", b"\x00\xff", "raw")
    assert works[0].claim.lease_expires_at == driver.clock.now_ms + TTL


async def test_no_more_are_claimed_than_asked_for_and_none_twice(driver: Driver) -> None:
    await driver.backend.submit_executions([create_args(driver) for _ in range(7)])
    counts = [len(await claim(driver, count=3)) for _ in range(4)]
    assert counts == [3, 3, 1, 0]
    await driver.probe.check()


async def test_a_worker_sees_only_what_it_can_run(driver: Driver) -> None:
    bound, free = create_args(driver, policy=GPU, priority=9), create_args(driver)
    await driver.backend.submit_executions([bound, free])
    assert [work.claim.execution_id for work in await claim(driver)] == [free.execution_id]
    capable = await claim(driver, worker_capabilities=("eu", "gpu"))
    assert [work.claim.execution_id for work in capable] == [bound.execution_id]
    await driver.probe.check()


async def test_a_granted_execution_does_not_hide_the_rest_of_the_queue(driver: Driver) -> None:
    granted, behind = await driver.create(priority=9), await driver.create()
    await driver.grant(granted)
    assert [work.claim.execution_id for work in await claim(driver, count=1)] == [behind.execution_id]


async def test_a_paused_lane_gives_nothing_and_a_draining_one_only_what_was_started(driver: Driver) -> None:
    interrupted = await driver.reach(Situation.INTERRUPTED_WAITING)
    await driver.create()
    for state, expected in ((LaneState.PAUSED, []), (LaneState.DRAINING, [interrupted.execution_id])):
        await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))
        assert [work.claim.execution_id for work in await claim(driver)] == expected


async def test_named_claims_are_refused_one_by_one(driver: Driver) -> None:
    good, done = await driver.create(), await driver.reach(Situation.COMPLETED)
    missing = driver.mint()
    outcomes = await driver.backend.claim_executions(
        claim_args(driver, execution_ids=(missing, good.execution_id, done.execution_id))
    )
    assert isinstance(outcomes[0], ExecutionNotFound)
    assert isinstance(outcomes[1], b.ClaimedWork)
    assert isinstance(outcomes[2], FlowFabricError)


async def test_endings_renewals_and_the_next_claim_are_one_step(driver: Driver) -> None:
    await driver.backend.submit_executions([create_args(driver, policy=RETRYING) for _ in range(5)])
    first, second, third = [work.claim for work in await claim(driver, count=3)]
    result = await driver.backend.finish_executions(
        finish_args(
            driver,
            finish=(
                c.CompleteExecutionArgs(execution_id=first.execution_id, fence=first.fence, result_payload=b"\xff"),
                c.FailExecutionArgs(
                    execution_id=second.execution_id, fence=second.fence, failure_reason="r", failure_category="c"
                ),
                c.CompleteExecutionArgs(execution_id=first.execution_id, fence=second.fence),
            ),
            renew=(
                c.RenewLeaseArgs(
                    execution_id=third.execution_id, attempt_index=0, fence=third.fence, lease_ttl_ms=2 * TTL
                ),
                c.RenewLeaseArgs(execution_id=third.execution_id, attempt_index=0, fence=first.fence, lease_ttl_ms=TTL),
            ),
            claim=claim_args(driver, count=10),
        )
    )
    assert isinstance(result.finished[0], c.ExecutionCompleted)
    assert result.finished[1] == c.RetryScheduled(delay_until=driver.clock.now_ms + BACKOFF)
    assert isinstance(result.finished[2], FlowFabricError)
    assert result.renewed[0] == c.LeaseRenewed(expires_at=driver.clock.now_ms + 2 * TTL)
    assert isinstance(result.renewed[1], StaleLease)
    assert len(result.claimed) == 2
    await driver.probe.check()


async def test_executions_of_another_partition_are_refused_before_anything_is_sent(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    elsewhere = ExecutionId("{fp:1}:" + x.execution_id.uuid)
    with pytest.raises(InvalidInput, match="partition"):
        await driver.backend.finish_executions(
            finish_args(driver, finish=(c.CompleteExecutionArgs(execution_id=elsewhere, fence=x.fence),))
        )
    with pytest.raises(InvalidInput, match="partition"):
        claim_args(driver, execution_ids=(elsewhere,))
    with pytest.raises(InvalidInput, match=r"claim\.partition"):
        await driver.backend.finish_executions(
            finish_args(driver, claim=claim_args(driver, partition=partition_of(elsewhere)))
        )


async def test_the_claim_of_a_finish_takes_its_partition_when_it_names_none(driver: Driver) -> None:
    x = await driver.create()
    result = await driver.backend.finish_executions(finish_args(driver, claim=claim_args(driver, partition=None)))
    assert [work.claim.execution_id for work in result.claimed] == [x.execution_id]


async def test_a_claim_without_a_partition_takes_those_of_the_lane(driver: Driver) -> None:
    low, high = await driver.create(priority=1), await driver.create(priority=9)
    taken = [work.claim.execution_id for work in await claim(driver, partition=None)]
    assert taken == [high.execution_id, low.execution_id]


async def test_named_claims_have_the_partition_of_their_executions(driver: Driver) -> None:
    first, second = driver.mint(), driver.mint()
    assert claim_args(driver, partition=None, execution_ids=(first, second)).partition == partition_of(first)
    elsewhere = ExecutionId("{fp:1}:" + second.uuid)
    with pytest.raises(InvalidInput, match=r"must all be of partition \{fp:86\}"):
        claim_args(driver, partition=None, execution_ids=(first, elsewhere))


async def run_due(driver: Driver, limit: int = 100) -> b.DueWork:
    args = b.RunDueWorkArgs(partition=partition_of(driver.mint()), limit=limit)
    return await driver.backend.run_due_work(args)


@pytest.mark.parametrize("situation", [Situation.ACTIVE, Situation.LEASE_EXPIRED, Situation.LEASE_REVOKED])
async def test_a_lost_lease_goes_back_to_the_queue_as_a_reclaim(driver: Driver, situation: Situation) -> None:
    x = await driver.reach(situation)
    await driver.clock.advance(TTL)
    done = await run_due(driver)
    assert done.requeued == 1
    (work,) = await claim(driver)
    assert isinstance(work.claim, c.ClaimedExecution)
    assert (work.claim.attempt_type, work.claim.attempt_index) == (AttemptType.RECLAIM, 1)
    first, second = await driver.backend.list_attempts(x.execution_id)
    assert (first.state, second.state) == (AttemptRecordState.INTERRUPTED_RECLAIMED, AttemptRecordState.STARTED)
    await driver.probe.check()


async def test_a_lost_lease_at_the_cap_ends_the_execution(driver: Driver) -> None:
    x = await driver.run(await driver.create(policy=ExecutionPolicy(max_reclaim_count=1)))
    for expected in (1, 0):
        await driver.clock.advance(TTL)
        done = await run_due(driver)
        assert (done.requeued, done.failed) == (expected, 1 - expected)
        await claim(driver)
    assert (await driver.info(x)).public_state is PublicState.FAILED


async def test_delays_timeouts_and_deadlines_are_done_when_due(driver: Driver) -> None:
    delayed = await driver.reach(Situation.DELAYED)
    retried = await driver.run(await driver.create(policy=RETRYING), lease_ttl_ms=10 * TTL)
    assert await run_due(driver) == b.DueWork(requeued=0, promoted=0, timed_out=0, expired=0, failed=0, more=False)
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    done = await run_due(driver)
    assert (done.promoted, done.timed_out) == (1, 1)
    await driver.clock.advance(DEADLINE_IN)
    done = await run_due(driver)
    assert done.expired == 2
    for x in (delayed, retried):
        assert (await driver.info(x)).public_state is PublicState.EXPIRED
    await driver.probe.check()


async def test_an_attempt_timeout_without_retries_fails_the_execution(driver: Driver) -> None:
    x = await driver.run(await driver.create(), lease_ttl_ms=10 * TTL)
    await driver.append(x)
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    done = await run_due(driver)
    assert (done.failed, done.timed_out, done.expired) == (1, 0, 0)
    assert (await driver.info(x)).public_state is PublicState.FAILED
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert (attempt.state, attempt.failure_category) == (AttemptRecordState.ENDED_FAILURE, "timeout")
    assert attempt.failure_reason == f"the attempt took longer than {ATTEMPT_TIMEOUT / 1000:g} s"
    assert (await read(driver, x, 0)).closed_reason == "attempt_failure"
    await driver.probe.check()


async def test_due_work_comes_in_bounded_bites(driver: Driver) -> None:
    for _ in range(5):
        await driver.reach(Situation.DELAYED)
    await driver.clock.advance(BACKOFF)
    bites = []
    while (done := await run_due(driver, limit=2)).promoted:
        bites.append((done.promoted, done.more))
    assert bites == [(2, True), (2, True), (1, False)]


async def test_names_that_look_like_those_of_the_store_are_only_names(driver: Driver) -> None:
    """A batch remembers the keys it has built; a lane and a worker may be called anything."""
    lane, instance = LaneId(" w"), WorkerInstanceId("active")
    mine = driver.mint(lane)
    await driver.backend.submit_executions([create_args(driver, execution_id=mine, lane_id=lane)])
    work = await claim(driver, partition=partition_of(mine), lane_id=lane, worker_instance_id=instance)
    done = c.CompleteExecutionArgs(execution_id=mine, fence=work[0].claim.fence)
    result = await driver.backend.finish_executions(
        b.FinishExecutionsArgs(partition=partition_of(mine), finish=(done,))
    )
    assert isinstance(result.finished[0], c.ExecutionCompleted)
    await driver.probe.check()

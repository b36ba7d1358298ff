"""Several clients at once, in orders drawn from seeds: one owner, one ending, nothing lost (G2, G3)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import WorkerId, WorkerInstanceId
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError
from flowfabric.testing import ManualClock
from tests.conformance.driver import TTL, Driver, Subject
from tests.conformance.invariants import check_store
from tests.conftest import kind_of, open_clean
from tests.soaking import examples

CLIENTS = 4
SEEDS = range(examples(5, soak=100))


@pytest.fixture
async def crowd(store_url: str, topology: str) -> AsyncIterator[list[Driver]]:
    """Clients with a connection each, on one store and one clock."""
    backends = [await open_clean(store_url, kind_of(topology)) for _ in range(CLIENTS)]
    clock = await ManualClock.start(backends[0].client)
    yield [Driver(backend, clock) for backend in backends]
    for backend in backends:
        await backend.close()


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except FlowFabricError as error:
        return error


async def all_at_once(seed: int, *calls: Awaitable[Any]) -> list[Any]:
    """Start the calls in the seed's order; the results come in the order of the arguments."""
    order = list(range(len(calls)))
    random.Random(seed).shuffle(order)
    started = {at: asyncio.ensure_future(outcome(calls[at])) for at in order}
    return [await started[at] for at in range(len(calls))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_execution_is_claimed_by_exactly_one_of_many(crowd: list[Driver], seed: int) -> None:
    subjects = [await crowd[0].create() for _ in range(25)]
    calls = [_claim_as(driver, subject, number) for subject in subjects for number, driver in enumerate(crowd * 2)]
    results = await all_at_once(seed, *calls)
    winners = Counter(result.execution_id for result in results if isinstance(result, c.ClaimedExecution))
    assert winners == {subject.execution_id: 1 for subject in subjects}
    await check_store(crowd[0].backend.client)


@pytest.mark.parametrize("seed", SEEDS)
async def test_one_grant_is_out_at_a_time_and_one_claim_uses_it(crowd: list[Driver], seed: int) -> None:
    x = await crowd[0].create()
    grants = await all_at_once(seed, *(driver.grant(x) for driver in crowd))
    assert Counter(type(result) for result in grants)[c.ClaimGrantIssued] == 1
    claims = await all_at_once(seed, *(driver.claim(Subject(x.execution_id)) for driver in crowd))
    assert Counter(type(result) for result in claims)[c.ClaimedExecution] == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_renewing_against_reclaiming_leaves_one_owner(crowd: list[Driver], seed: int) -> None:
    owner, thief = crowd[0], crowd[1]
    x = await owner.run(await owner.create())
    await owner.clock.advance(TTL - (seed % 2))  # due, or one millisecond before
    theirs = Subject(x.execution_id)

    async def take_over() -> Any:
        await thief.mark_expired(theirs)
        await thief.reclaim_grant(theirs)
        return await thief.reclaim(theirs)

    renewed, reclaimed = await all_at_once(seed, owner.renew(x), take_over())
    owners = [isinstance(renewed, c.LeaseRenewed), isinstance(reclaimed, c.ReclaimedExecution)]
    assert owners.count(True) == 1
    valid = x if owners[0] else theirs
    stale = theirs if owners[0] else x
    assert isinstance(await outcome(owner.complete(stale)), FlowFabricError)
    await owner.complete(valid)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_first_ending_wins_and_the_others_learn_which(crowd: list[Driver], seed: int) -> None:
    x = await crowd[0].run(await crowd[0].create())
    results = await all_at_once(
        seed, crowd[0].complete(x), crowd[1].cancel(x), crowd[2].fail(x), crowd[3].revoke(x), crowd[0].complete(x)
    )
    info = await crowd[0].info(x)
    endings = {
        PublicState.COMPLETED: c.ExecutionCompleted,
        PublicState.CANCELLED: c.ExecutionCancelled,
        PublicState.FAILED: c.TerminalFailed,
    }
    won = {kind for kind in endings.values() if any(isinstance(result, kind) for result in results)}
    assert won == {endings[info.public_state]}
    await check_store(crowd[0].backend.client)


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_idempotency_key_creates_one_execution(crowd: list[Driver], seed: int) -> None:
    results = await all_at_once(seed, *(driver.create(idempotency_key="once") for driver in crowd * 4))
    assert len({subject.execution_id for subject in results}) == 1
    assert len(await check_store(crowd[0].backend.client)) == 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_timeout_against_a_completion_ends_it_once(crowd: list[Driver], seed: int) -> None:
    x = await crowd[0].run(await crowd[0].create(execution_deadline_at=crowd[0].clock.now_ms))
    completed, expired = await all_at_once(
        seed, crowd[0].complete(x), crowd[1].expire(x, c.ExpireReason.EXECUTION_DEADLINE)
    )
    assert isinstance(completed, c.ExecutionCompleted) != isinstance(expired, c.ExecutionExpired)


async def _claim_as(driver: Driver, subject: Subject, number: int) -> Any:
    name = f"worker-{number}"
    mine = Subject(subject.execution_id)
    return await driver.grant_and_claim(mine, worker_id=WorkerId(name), worker_instance_id=WorkerInstanceId(name))

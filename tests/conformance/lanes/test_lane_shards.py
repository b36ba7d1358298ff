"""A lane in several partitions: its executions spread over them, and claims, keys, counts and lists see them all."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.core.partition import lane_partitions
from flowfabric.core.states import LaneState, PublicState
from flowfabric.errors import InvalidInput
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER, Driver

pytestmark = pytest.mark.every_store

SHARDS = 4


@pytest.fixture
def lane_shards() -> int:
    return SHARDS


def tags_of(driver: Driver, lane: LaneId = LANE) -> list[str]:
    return [shard.tag for shard in lane_partitions(lane, driver.backend.partitions)]


def create_args(driver: Driver, *, lane: LaneId = LANE, key: str | None = None, **more: Any) -> c.CreateExecutionArgs:
    return c.CreateExecutionArgs(
        execution_id=ExecutionId.for_lane(lane, driver.backend.partitions, idempotency_key=key),
        namespace=Namespace("tests"), lane_id=lane, execution_kind="kind", idempotency_key=key, **more,
    )  # fmt: skip


async def submit(driver: Driver, count: int, **more: Any) -> list[ExecutionId]:
    outcomes = await driver.backend.submit_executions([create_args(driver, **more) for _ in range(count)])
    return [outcome.execution_id for outcome in outcomes if isinstance(outcome, c.ExecutionCreated)]


async def submit_to_each_shard(driver: Driver, count: int, lane: LaneId = LANE) -> list[ExecutionId]:
    """`count` executions in every shard of the lane."""
    ids = [ExecutionId(f"{tag}:{driver.mint().uuid}") for tag in tags_of(driver, lane) for _ in range(count)]
    batch = [
        c.CreateExecutionArgs(execution_id=each, namespace=Namespace("tests"), lane_id=lane, execution_kind="kind")
        for each in ids
    ]
    await driver.backend.submit_executions(batch)
    return ids


async def claim(driver: Driver, **overrides: Any) -> list[c.ClaimedExecution]:
    args: dict[str, Any] = {
        "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lease_ttl_ms": TTL, "count": 100,
        **overrides,
    }  # fmt: skip
    works = await driver.backend.claim_executions(b.ClaimExecutionsArgs(**args))
    return [work.claim for work in works]  # type: ignore[union-attr,misc]


async def test_the_executions_of_a_lane_spread_over_all_of_its_shards(driver: Driver) -> None:
    found = Counter(execution_id.tag for execution_id in await submit(driver, 100))
    assert found.keys() == set(tags_of(driver))
    assert len(found) == SHARDS
    assert min(found.values()) >= 5


async def test_claims_over_all_shards_get_each_execution_exactly_once(driver: Driver) -> None:
    submitted = await submit(driver, 100)

    async def work_off() -> list[ExecutionId]:
        taken: list[ExecutionId] = []
        while claimed := await claim(driver, count=7):
            taken += [each.execution_id for each in claimed]
        return taken

    taken = await asyncio.gather(*(work_off() for _ in range(5)))
    assert sorted(each for part in taken for each in part) == sorted(submitted)
    await driver.probe.check()


async def test_a_claim_goes_on_to_the_next_shards_for_what_is_still_missing(driver: Driver) -> None:
    await submit_to_each_shard(driver, 3)
    counts = [Counter(each.execution_id.tag for each in await claim(driver, count=7)) for _ in range(3)]
    assert [sum(found.values()) for found in counts] == [7, 5, 0]
    assert sorted(counts[0].values()) == [1, 3, 3]
    assert counts[0] + counts[1] == dict.fromkeys(tags_of(driver), 3)


async def test_each_claim_of_a_lane_starts_with_its_next_shard(driver: Driver) -> None:
    lanes = [LANE, LaneId("other")]
    started: dict[LaneId, list[str]] = {lane: [] for lane in lanes}
    for lane in lanes:
        await submit_to_each_shard(driver, 2, lane)
    for lane in lanes * 2 * SHARDS:
        (claimed,) = await claim(driver, lane_id=lane, count=1)
        started[lane].append(claimed.execution_id.tag)
    for lane, tags in started.items():
        assert sorted(tags[:SHARDS]) == sorted(tags_of(driver, lane))
        assert tags[SHARDS:] == tags[:SHARDS]


async def test_a_claim_in_one_shard_leaves_the_others_alone(driver: Driver) -> None:
    await submit_to_each_shard(driver, 2)
    shard = lane_partitions(LANE, driver.backend.partitions)[1]
    assert {each.execution_id.tag for each in await claim(driver, partition=shard)} == {shard.tag}
    assert len(await claim(driver)) == 2 * (SHARDS - 1)


async def test_the_best_of_a_shard_come_first(driver: Driver) -> None:
    submitted = [create_args(driver, priority=number % 10) for number in range(60)]
    await driver.backend.submit_executions(submitted)
    priorities = {args.execution_id: args.priority for args in submitted}
    claimed = [each.execution_id for each in await claim(driver)]
    for tag in tags_of(driver):
        found = [priorities[each] for each in claimed if each.tag == tag]
        assert found == sorted(found, reverse=True)


async def test_named_executions_of_one_shard_need_no_partition(driver: Driver) -> None:
    submitted = await submit_to_each_shard(driver, 3)
    named = tuple(each for each in submitted if each.tag == tags_of(driver)[2])
    assert [each.execution_id for each in await claim(driver, execution_ids=named)] == list(named)
    with pytest.raises(InvalidInput, match=r"execution_ids.*must all be of partition"):
        await claim(driver, execution_ids=tuple(submitted))


async def test_an_idempotency_key_is_recognised_although_the_ids_differ(driver: Driver) -> None:
    names = [f"order-{number}" for number in range(20)]
    firsts = [create_args(driver, key=name) for name in names]
    assert {args.execution_id.tag for args in firsts} == set(tags_of(driver))
    await driver.backend.submit_executions(firsts)
    again = [create_args(driver, key=name) for name in names]
    expected = [c.ExecutionDuplicate(execution_id=args.execution_id) for args in firsts]
    assert await driver.backend.submit_executions(again) == expected
    assert [await driver.backend.create_execution(args) for args in again] == expected


async def test_counts_and_lists_of_a_lane_see_all_of_its_shards(driver: Driver) -> None:
    submitted = await submit(driver, 100)
    await claim(driver, count=30)
    (counts,) = await driver.backend.count_executions(LANE)
    assert counts.counts == {PublicState.WAITING: 70, PublicState.ACTIVE: 30}
    page = await driver.backend.list_executions(c.ListExecutionsArgs(lane_id=LANE, limit=100))
    assert sorted(each.execution_id for each in page.executions) == sorted(submitted)


async def test_a_paused_lane_gives_nothing_in_any_shard(driver: Driver) -> None:
    await submit_to_each_shard(driver, 1)
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.PAUSED))
    assert await claim(driver) == []
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=LaneState.ACTIVE))
    assert len(await claim(driver)) == SHARDS

"""Ten thousand entries that cannot run, in the same lane or the lane beside: nothing else waits for them.

Counted, not timed: a worker needs as many calls for healthy work with them as without them, give or take a factor. No
engine runs meanwhile, so nobody but the claims themselves can find the way past what is broken.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import pytest

from flowfabric.client.tasks.task import Task, task
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import lane_partitions
from flowfabric.core.states import BlockingReason, LaneState, PublicState
from flowfabric.engine import Engine, EngineSettings
from flowfabric.worker import Worker
from tests.load import claim_args
from tests.servers import eventually_async
from tests.soaking import examples, tell
from tests.working import Store, clean_store, lane_beside

LANE = LaneId("default")
WORKER, INSTANCE = WorkerId("w"), WorkerInstanceId("w-1")
BAD = 10_000
SOME = examples(2_000, soak=BAD)  # of each further kind
HEALTHY = 100
FACTOR = 5  # in calls; past a page of 50 at a time there would be 200 of them
WITHIN_S = 10
AT_ONCE = 1_000
LEASE_TTL_MS = 60_000

Spoil = Callable[[Store], Awaitable[None]]


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


@task
async def healthy() -> None:
    await asyncio.sleep(0)


def beside(store: Store, **options: Any) -> Task[[], None]:
    """The same task in another lane of the same partition."""
    return healthy.with_options(lane=lane_beside(LANE, store.backend), **options)


def tag_of(store: Store) -> str:
    return lane_partitions(LANE, store.backend.partitions)[0].tag


def fresh_ids(store: Store, count: int) -> list[str]:
    return [f"{tag_of(store)}:{uuid.uuid4()}" for _ in range(count)]


async def list_in(store: Store, index: str, members: Iterable[str], score: int | str) -> None:
    flat = [part for member in members for part in (score, member)]
    for start in range(0, len(flat), 2 * AT_ONCE):
        await store.command("ZADD", f"ff:idx:{tag_of(store)}:{index}", *flat[start : start + 2 * AT_ONCE])


async def queue(store: Store, ids: list[str]) -> None:
    """In the queues of both lanes: some before all healthy work, some in the midst of it, which is as old as now."""
    for lane in (LANE, lane_beside(LANE, store.backend)):
        await list_in(store, f"lane:{lane}:eligible", ids[::2], "-inf")
        await list_in(store, f"lane:{lane}:eligible", ids[1::2], store.clock.now_ms)


async def for_each(ids: Iterable[Any], do: Callable[[Any], Awaitable[object]]) -> None:
    await asyncio.gather(*(do(each) for each in ids))


async def a_paused_lane(store: Store) -> None:
    paused = beside(store)
    await store.submit_many(paused, BAD)
    args = c.SetLaneStateArgs(lane_id=LaneId(paused.options.lane), state=LaneState.PAUSED)
    await store.backend.set_lane_state(args)


async def waiting_for_one_key(store: Store) -> None:
    ids = await store.submit_many(healthy, BAD, concurrency_key="one")
    await store.backend.issue_grant_and_claim(claim_args(ids[0], LANE))


async def held_back(store: Store) -> None:
    """By an operator, and because no worker could run them."""
    ids = await store.submit_many(healthy, BAD)
    reason = BlockingReason.PAUSED_BY_OPERATOR
    by_hand = (c.BlockExecutionArgs(execution_id=each, blocking_reason=reason) for each in ids[::2])
    await for_each(by_hand, store.backend.block_execution_for_admission)
    by_route = (c.BlockRouteArgs(execution_id=each, lane_id=LANE) for each in ids[1::2])
    await for_each(by_route, store.backend.block_route)


async def without_records(store: Store) -> None:
    await queue(store, fresh_ids(store, BAD))


async def without_records_that_need_something(store: Store) -> None:
    await list_in(store, f"lane:{LANE}:eligible:gpu", fresh_ids(store, BAD), "-inf")
    await store.command("SADD", f"ff:idx:{tag_of(store)}:lane:{LANE}:capability_sets", "gpu")


async def with_names_that_are_none(store: Store) -> None:
    await queue(store, [f"nobody {number}" for number in range(SOME)])


async def of_executions_that_are_delayed(store: Store) -> None:
    await queue(store, list(await store.submit_many(healthy, SOME, delay_ms=3_600_000)))


async def unreadable_ids(store: Store, count: int = SOME) -> list[str]:
    ids = fresh_ids(store, count)
    await store.command("MSET", *(part for each in ids for part in (core(each), "no record")))
    return ids


async def with_records_of_another_type(store: Store) -> None:
    await queue(store, await unreadable_ids(store))


async def with_records_without_a_state(store: Store) -> None:
    await with_records(store, "execution_kind", "healthy")


async def with_records_without_a_lane(store: Store) -> None:
    await with_records(store, "lifecycle_phase", "runnable")


async def with_records_of_no_number(store: Store) -> None:
    """All is well with them until they are started."""
    ids = await store.submit_many(healthy, SOME)
    await for_each(ids, lambda each: store.command("HSET", core(each), "current_lease_epoch", "none"))


async def with_records(store: Store, *fields: str) -> None:
    ids = fresh_ids(store, SOME)
    await for_each(ids, lambda each: store.command("HSET", core(each), *fields))
    await queue(store, ids)


def core(execution_id: str) -> str:
    return f"ff:exec:{ExecutionId(execution_id).tag}:{execution_id}:core"


HELD_UP: tuple[Spoil, ...] = (a_paused_lane, waiting_for_one_key, held_back)
POISON: tuple[Spoil, ...] = (
    without_records,
    without_records_that_need_something,
    with_names_that_are_none,
    of_executions_that_are_delayed,
    with_records_of_another_type,
    with_records_without_a_state,
    with_records_without_a_lane,
    with_records_of_no_number,
)


class Run(NamedTuple):
    calls: int
    ms: float


async def run_healthy(store: Store) -> Run:
    """Healthy work of a lane, by a worker that serves the lane beside it, too."""
    ids = await store.submit_many(healthy, HEALTHY)
    worker = Worker(lanes=[LANE, lane_beside(LANE, store.backend)], capabilities={"gpu"}, concurrency=64)
    worker.add(healthy)
    started = time.perf_counter()
    async with asyncio.timeout(WITHIN_S), worker.working(store.backend):
        for execution_id in ids:
            assert await store.ended(execution_id) == "completed"
        ms = (time.perf_counter() - started) * 1000
        await worker.idle()
    assert (worker.stats.claimed, worker.stats.completed, worker.stats.lost) == (HEALTHY, HEALTHY, 0)
    return Run(worker.stats.calls, ms)


def named(spoil: Spoil) -> str:
    return spoil.__name__


async def check_healthy_work(store: Store, spoil: Spoil, capsys: pytest.CaptureFixture[str]) -> None:
    without = await run_healthy(store)
    await spoil(store)
    beside_it = await run_healthy(store)
    tell(
        capsys,
        f"{HEALTHY} healthy executions, alone and beside those {named(spoil)}: {without.calls} and {beside_it.calls} "
        f"calls, {without.ms:.0f} and {beside_it.ms:.0f} ms",
    )
    assert beside_it.calls <= FACTOR * without.calls


@pytest.mark.parametrize("spoil", HELD_UP, ids=named)
async def test_what_is_held_up_delays_no_work_and_nothing_that_is_due(
    store: Store, spoil: Spoil, capsys: pytest.CaptureFixture[str]
) -> None:
    await check_healthy_work(store, spoil, capsys)
    await check_due_work(store, await three_that_come_due(store))


@pytest.mark.parametrize("spoil", POISON, ids=named)
async def test_poison_in_the_queues_delays_no_work(
    store: Store, spoil: Spoil, capsys: pytest.CaptureFixture[str]
) -> None:
    await check_healthy_work(store, spoil, capsys)


async def due_without_records(store: Store) -> None:
    await list_as_due(store, fresh_ids(store, BAD))


async def due_with_names_that_are_none(store: Store) -> None:
    await list_as_due(store, [f"nobody {number}" for number in range(SOME)])


async def due_with_records_of_another_type(store: Store) -> None:
    await list_as_due(store, await unreadable_ids(store))


async def due_with_records_of_no_number(store: Store) -> None:
    """Running or delayed until no time, as it were."""
    ids = fresh_ids(store, SOME)
    wrong = ("lease_expires_at", "soon", "delay_until", "soon", "lane_id", LANE)
    states = (("active", "eligible_now"), ("runnable", "not_eligible_until_time"))
    for at, (phase, eligibility) in enumerate(states):
        fields = ("lifecycle_phase", phase, "eligibility_state", eligibility, *wrong)
        await for_each(ids[at::2], lambda each, fields=fields: store.command("HSET", core(each), *fields))  # type: ignore[misc]
    await list_as_due(store, ids)


async def list_as_due(store: Store, ids: list[str]) -> None:
    for lane in (LANE, lane_beside(LANE, store.backend)):
        await list_in(store, f"lane:{lane}:delayed", ids, 1)
    for index in ("lease_expiry", "attempt_timeout", "execution_deadline"):
        await list_in(store, index, ids, 1)


DUE: tuple[Spoil, ...] = (
    due_without_records,
    due_with_names_that_are_none,
    due_with_records_of_another_type,
    due_with_records_of_no_number,
)


async def three_that_come_due(store: Store) -> list[ExecutionId]:
    """A lease, a delay and a deadline that end with the lease."""
    (lost,) = await store.submit_many(healthy, 1)
    await store.backend.issue_grant_and_claim(claim_args(lost, LANE))
    delayed = await store.submit_many(healthy, 1, delay_ms=LEASE_TTL_MS)
    over = await store.submit_many(healthy, 1, execution_deadline_at=store.clock.now_ms + LEASE_TTL_MS)
    return [lost, *delayed, *over]


async def states(store: Store, ids: Iterable[ExecutionId]) -> list[str]:
    return [(await store.snapshot(each)).public_state for each in ids]


async def check_due_work(store: Store, ids: list[ExecutionId]) -> float:
    """One pass, which has all the time it needs, however slow the machine; how long it took."""
    await store.clock.advance(LEASE_TTL_MS)
    engine = Engine(store.backend, EngineSettings(budget_ms=60_000))
    services = {each.name: each for each in engine.services}
    await services["partitions"].run_once()
    assert await services["due_work"].turn(services["due_work"].run_once) >= len(ids)
    assert await states(store, ids) == ["waiting", "waiting", "expired"]
    await engine.stop()
    return services["due_work"].duration_ms


@pytest.mark.parametrize("spoil", DUE, ids=named)
async def test_poison_among_what_is_due_delays_nothing_of_it(
    store: Store, spoil: Spoil, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = await three_that_come_due(store)
    await spoil(store)
    tell(capsys, f"what is due, beside those {named(spoil)}: {await check_due_work(store, ids):.0f} ms")


async def test_a_pass_that_has_no_time_for_all_of_them_goes_on_at_once(store: Store) -> None:
    """The pauses of an engine that finds nothing to do double; at a hundred entries a look it would never get there."""
    ids = await three_that_come_due(store)
    await due_without_records(store)
    await store.clock.advance(LEASE_TTL_MS)
    settings = EngineSettings(budget_ms=1, quick_look_ms=1, look_ms=60_000, repair_ms=3_600_000)
    async with asyncio.timeout(WITHIN_S), Engine(store.backend, settings) as engine:
        await eventually_async(lambda: engine.status().service("due_work").items == len(ids), "all is done")
    assert await states(store, ids) == ["waiting", "waiting", "expired"]


@pytest.mark.parametrize("kind", ["without_records", "unreadable"])
async def test_a_grant_for_the_next_one_is_found_behind_poison(store: Store, kind: str) -> None:
    (healthy_one,) = await store.submit_many(healthy, 1)
    await queue(store, fresh_ids(store, BAD) if kind == "without_records" else await unreadable_ids(store, 10))
    args = c.ClaimForWorkerArgs(lane_id=LANE, worker_id=WORKER, worker_instance_id=INSTANCE, grant_ttl_ms=1_000)
    for _ in range(FACTOR * BAD // AT_ONCE):  # a call looks at so many, and the next one gets further
        granted = await store.backend.claim_for_worker(args)
        if isinstance(granted, c.WorkGranted):
            break
    assert isinstance(granted, c.WorkGranted)
    assert granted.grant.execution_id == healthy_one


async def test_an_unreadable_record_does_not_keep_others_blocked(store: Store) -> None:
    (held,) = await store.submit_many(healthy, 1)
    await store.backend.block_route(c.BlockRouteArgs(execution_id=held, lane_id=LANE))
    for name in ("route", "lane_state", "dependencies"):
        await list_in(store, f"lane:{LANE}:blocked:{name}", await unreadable_ids(store, 10), 1)
    offers = (c.WorkerOffer(lanes=(LANE,)),)
    (partition,) = lane_partitions(LANE, store.backend.partitions)
    done = await store.backend.reevaluate_blocked(c.ReevaluateBlockedArgs(partition=partition, offers=offers))
    assert done.unblocked == 1


async def test_an_unreadable_record_does_not_keep_others_from_being_deleted(store: Store) -> None:
    (ended,) = await store.submit_many(healthy, 1)
    await store.cancel(ended)
    await list_in(store, f"lane:{LANE}:terminal", await unreadable_ids(store, 10), 1)
    await store.clock.advance(1_000)
    await store.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=1_000))
    assert await store.backend.describe_execution(ended) is None


async def test_an_unreadable_record_does_not_hide_others_from_a_list(store: Store) -> None:
    ids = await store.submit_many(healthy, 3)
    for index in ("all_executions", f"lane:{LANE}:eligible"):
        await list_in(store, index, await unreadable_ids(store, 10), 1)
    for state in (None, PublicState.WAITING):
        page = await store.backend.list_executions(c.ListExecutionsArgs(public_state=state))
        assert {each.execution_id for each in page.executions} == set(ids)


async def test_an_unreadable_record_does_not_stop_others_of_its_key(store: Store) -> None:
    ids = await store.submit_many(healthy, 3, concurrency_key="one")
    claim = await store.backend.issue_grant_and_claim(claim_args(ids[0], LANE))
    bad, good = ids[1:]
    await store.command("DEL", core(bad))
    await store.command("SET", core(bad), "no record")
    done = c.CompleteExecutionArgs(execution_id=ids[0], fence=claim.fence, result_payload=b"")
    await store.backend.complete_execution(done)
    assert await states(store, [good]) == ["waiting"]

"""The engine on a real store: what time brings is done, and nothing that is broken delays the rest."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, Namespace, WorkerId, WorkerInstanceId
from flowfabric.core.partition import lane_partitions
from flowfabric.core.policy import ExecutionPolicy, StreamPolicy
from flowfabric.core.states import BlockingReason, LaneState, PublicState
from flowfabric.engine import Engine, EngineSettings
from tests.conformance.driver import (
    ATTEMPT_TIMEOUT,
    BACKOFF,
    DEADLINE_IN,
    INSTANCE,
    LANE,
    RETRYING,
    TTL,
    WORKER,
    Subject,
)
from tests.servers import eventually_async
from tests.valkey.driver import Driver, Limits
from tests.valkey.probe import open_clean, probe_of

POISON = 10_000
QUICK = EngineSettings(look_ms=100, quick_look_ms=20, set_aside_ms=50, jitter_pct=0)
# A test that calls run_once waits for the end of its work, however slow the machine.
PATIENT = EngineSettings(budget_ms=60_000, set_aside_ms=1, jitter_pct=0)


@pytest.fixture
async def backend(embedded_url: str) -> AsyncIterator[ValkeyBackend]:
    opened = await open_clean(embedded_url)
    yield opened
    await opened.close()


@pytest.fixture
async def driver(backend: ValkeyBackend) -> Driver:
    return Driver(await probe_of(backend))


@pytest.fixture
async def engine(backend: ValkeyBackend) -> AsyncIterator[Engine]:
    made = Engine(backend, PATIENT)
    yield made
    await made.stop()


async def command(driver: Driver, name: str, key: str, *rest: object) -> object:
    return await driver.backend.client.execute(name, key, *rest, key=key)  # type: ignore[arg-type]


async def happened(driver: Driver, x: Subject, kind: c.EventKind) -> None:
    async with asyncio.timeout(30):
        async for event in driver.backend.tail_events(x.execution_id):
            if event.event == kind:
                return


def lanes_apart(driver: Driver, count: int) -> list[LaneId]:
    """Lanes in as many partitions."""
    found: dict[str, LaneId] = {}
    for number in range(1_000):
        lane = LaneId(f"lane-{number}")
        found.setdefault(lane_partitions(lane, driver.backend.partitions)[0].tag, lane)
    return list(found.values())[:count]


async def test_a_lost_lease_goes_back_to_the_queue_until_the_cap_ends_it(driver: Driver, engine: Engine) -> None:
    x = await driver.create(policy=ExecutionPolicy(max_reclaim_count=2))
    for reclaims in range(3):
        await driver.grant_and_claim(x, attempt_timeout_ms=None)
        assert x.attempt_index == reclaims
        assert (await engine.run_once())["due_work"] == 0
        await driver.clock.advance(TTL)
        assert (await engine.run_once())["due_work"] == 1
    info = await driver.info(x)
    assert info.public_state is PublicState.FAILED
    assert len(await driver.backend.list_attempts(x.execution_id)) == 3


async def test_a_delay_is_promoted_when_its_time_has_come(driver: Driver, engine: Engine) -> None:
    x = await driver.create(delay_until=driver.clock.now_ms + 1_000)
    await driver.clock.advance(999)
    assert (await engine.run_once())["due_work"] == 0
    await driver.clock.advance(1)
    assert (await engine.run_once())["due_work"] == 1
    assert (await driver.state(x)).public_state is PublicState.WAITING


async def test_an_attempt_that_takes_too_long_is_retried_by_its_policy(driver: Driver, engine: Engine) -> None:
    x = await driver.run(await driver.create(policy=RETRYING))
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    assert (await engine.run_once())["due_work"] == 1
    assert (await driver.state(x)).public_state is PublicState.DELAYED
    await driver.clock.advance(BACKOFF)
    await engine.run_once()
    assert (await driver.state(x)).public_state is PublicState.WAITING


async def test_a_deadline_ends_what_waits_and_what_runs(driver: Driver, engine: Engine) -> None:
    waiting, running = await driver.create(), await driver.create()
    await driver.run(running, lease_ttl_ms=2 * DEADLINE_IN, attempt_timeout_ms=None)
    await driver.clock.advance(DEADLINE_IN)
    assert (await engine.run_once())["due_work"] == 2
    for x in (waiting, running):
        assert (await driver.state(x)).public_state is PublicState.EXPIRED


async def test_a_running_engine_notices_by_itself(driver: Driver) -> None:
    async with Engine(driver.backend, QUICK) as engine:
        x = await driver.create(delay_until=driver.clock.now_ms + 60_000)
        await driver.clock.advance(60_000)
        await happened(driver, x, c.EventKind.PROMOTED)
        await driver.run(x, attempt_timeout_ms=None)
        await driver.clock.advance(TTL)
        await happened(driver, x, c.EventKind.REQUEUED)
        await eventually_async(lambda: engine.status().service("due_work").items == 2, "both are counted")


async def test_announced_work_is_heard(driver: Driver) -> None:
    await driver.create()
    async with Engine(driver.backend, EngineSettings(announce_ms=100)) as engine:
        await eventually_async(lambda: engine.status().service("listening").items > 0, "what waits is announced again")
        assert engine.status().service("listening").errors == 0


async def test_ten_thousand_entries_without_executions_do_not_hide_the_rest(driver: Driver, engine: Engine) -> None:
    delayed, lost = await driver.create(delay_until=driver.clock.now_ms + TTL), await driver.run(await driver.create())
    tag = lost.execution_id.tag
    for name in (f"lane:{LANE}:delayed", "lease_expiry", "attempt_timeout", "execution_deadline"):
        entries = [part for _ in range(POISON) for part in (1, f"{tag}:{uuid.uuid4()}")]
        await command(driver, "ZADD", f"ff:idx:{tag}:{name}", *entries)
    await driver.clock.advance(TTL)
    assert (await engine.run_once())["due_work"] == 2
    for x in (delayed, lost):
        assert (await driver.state(x)).public_state is PublicState.WAITING


async def test_entries_that_are_due_too_early_do_not_hide_the_rest(driver: Driver, engine: Engine) -> None:
    now = driver.clock.now_ms
    far = [await driver.create(delay_until=now + DEADLINE_IN) for _ in range(250)]
    x = await driver.create(delay_until=now + 1_000)
    delayed = f"ff:idx:{x.execution_id.tag}:lane:{LANE}:delayed"
    await command(driver, "ZADD", delayed, *(part for each in far for part in (1, each.execution_id)))
    await driver.clock.advance(1_000)
    assert (await engine.run_once())["due_work"] == 1
    assert (await driver.state(x)).public_state is PublicState.WAITING
    assert await command(driver, "ZSCORE", delayed, far[0].execution_id) == str(now + DEADLINE_IN).encode()


async def test_records_that_cannot_be_read_do_not_hide_the_rest(driver: Driver, engine: Engine) -> None:
    delayed, lost = await driver.create(delay_until=driver.clock.now_ms + TTL), await driver.run(await driver.create())
    tag = lost.execution_id.tag
    bad = [driver.mint() for _ in range(250)]
    for each in bad:
        await command(driver, "SET", keys.core(each), "not a record")
    for name in (f"lane:{LANE}:delayed", "lease_expiry", "attempt_timeout", "execution_deadline"):
        await command(driver, "ZADD", f"ff:idx:{tag}:{name}", *(part for each in bad for part in (1, each)))
    await driver.clock.advance(TTL)
    assert (await engine.run_once())["due_work"] == 2
    for x in (delayed, lost):
        assert (await driver.state(x)).public_state is PublicState.WAITING


async def test_a_partition_that_fails_does_not_delay_the_others(driver: Driver) -> None:
    bad_lane, *lanes = lanes_apart(driver, 9)
    due = driver.clock.now_ms + 1_000
    bad = await driver.create(lane_id=bad_lane, delay_until=due)
    await command(driver, "SET", f"ff:idx:{bad.execution_id.tag}:attempt_timeout", "no index")
    good = [await driver.create(lane_id=lane, delay_until=due) for lane in lanes]
    async with Engine(driver.backend, QUICK) as engine:
        await driver.clock.advance(1_000)
        for x in good:
            await happened(driver, x, c.EventKind.PROMOTED)
        await eventually_async(lambda: failures(engine) >= 3, "the bad one is tried again")
        (aside,) = engine.status().service("due_work").set_aside_items
        assert aside.what == bad.execution_id.tag
        assert "corruption" in aside.error


def failures(engine: Engine) -> int:
    return max((aside.failures for aside in engine.status().service("due_work").set_aside_items), default=0)


async def test_a_paused_lane_delays_no_other(driver: Driver, engine: Engine) -> None:
    paused = LaneId("paused")
    await driver.backend.set_lane_state(c.SetLaneStateArgs(lane_id=paused, state=LaneState.PAUSED))
    for _ in range(50):
        await driver.create(lane_id=paused, delay_until=driver.clock.now_ms + 1_000)
    x = await driver.create(delay_until=driver.clock.now_ms + 1_000)
    await driver.clock.advance(1_000)
    assert (await engine.run_once())["due_work"] == 51
    await driver.run(x)


async def test_what_a_worker_can_do_again_is_no_longer_blocked(driver: Driver, engine: Engine) -> None:
    x = await driver.create()
    await driver.block(x, BlockingReason.WAITING_FOR_CAPABLE_WORKER)
    assert (await engine.run_once())["blocked_work"] == 0
    await _register(driver, "worker-1")
    assert (await engine.run_once())["blocked_work"] == 1
    await driver.run(x)


async def test_the_slot_of_a_dead_worker_comes_back(driver: Driver, engine: Engine) -> None:
    limits = Limits(driver)
    quota = await limits.quota(max_concurrent=1)
    made = [await limits.submit(quotas=(quota,)) for _ in range(2)]
    (held,) = await driver.take(2)
    assert await driver.take(2) == []
    await driver.clock.advance(TTL + 1)
    assert (await engine.run_once())["admissions"] > 0
    (taken,) = await driver.take(2)
    assert held.execution_id == taken.execution_id == made[0].execution_id, "the older one is first again"
    assert (await limits.quota_status(quota)).running == 1


async def test_ten_thousand_blocked_executions_do_not_hide_one_that_may_go_on(driver: Driver, engine: Engine) -> None:
    held = await driver.create()
    await driver.block(held, BlockingReason.PAUSED_BY_OPERATOR)
    tag = held.execution_id.tag
    for name in ("operator", "route", "lane_state"):
        entries = [part for _ in range(POISON) for part in (1, f"{tag}:{uuid.uuid4()}")]
        await command(driver, "ZADD", f"ff:idx:{tag}:lane:{LANE}:blocked:{name}", *entries)
    x, due = await driver.create(), await driver.create(delay_until=driver.clock.now_ms + 1)
    await driver.block(x, BlockingReason.WAITING_FOR_CAPABLE_WORKER)
    await _register(driver, "worker-1")
    await driver.clock.advance(1)
    done = await engine.run_once()
    assert (done["due_work"], done["blocked_work"]) == (1, 1)
    assert done["index_repair"] == 3 * POISON
    await driver.run(x)
    await driver.run(due)


async def test_indexes_are_put_right(driver: Driver, engine: Engine) -> None:
    x = await driver.create()
    await command(driver, "DEL", f"ff:idx:{x.execution_id.tag}:lane:{LANE}:eligible")
    assert (await engine.run_once())["index_repair"] > 0
    await driver.run(x)
    assert (await engine.run_once())["index_repair"] == 0


@pytest.mark.parametrize(("rule", "left"), [({}, 3), ({"retain_ms": 5_000}, 0), ({"keep_last": 1}, 1)])
async def test_what_is_finished_is_deleted_by_the_rule(driver: Driver, rule: dict[str, int], left: int) -> None:
    wishes = ExecutionPolicy(stream_policy=StreamPolicy(retention_ttl_ms=5_000))
    for policy in (None, None, None, wishes):
        await driver.cancel(await driver.create(policy=policy))
    engine = Engine(driver.backend, EngineSettings(budget_ms=60_000, **rule))
    await driver.clock.advance(5_000)
    assert (await engine.run_once())["retention"] == 4 - left
    await engine.stop()


async def test_silent_workers_are_forgotten(driver: Driver, engine: Engine) -> None:
    for name in ("worker-1", "worker-2"):
        await _register(driver, name)
    await driver.clock.advance(5_000)
    await _register(driver, "worker-2")
    await driver.clock.advance(5_000)
    assert (await engine.run_once())["worker_expiry"] == 1
    page = await driver.backend.list_workers(c.ListWorkersArgs())
    assert [worker.worker_instance_id for worker in page.workers] == ["worker-2"]


async def test_what_waits_is_announced_again(driver: Driver, engine: Engine) -> None:
    x = await driver.create()
    async with driver.backend.listen_for_work([LANE]) as listener:
        assert await listener.wait() == frozenset()
        assert (await engine.run_once())["rebroadcast"] == 1
        async with asyncio.timeout(20):
            ((lane, partition),) = await listener.wait()
        assert (lane, partition.tag) == (LANE, x.execution_id.tag)
        await driver.run(x)
        assert (await engine.run_once())["rebroadcast"] == 0


async def test_partitions_that_hold_nothing_are_left_alone(driver: Driver, engine: Engine) -> None:
    await engine.run_once()
    before = await _calls(driver)
    await engine.run_once()
    assert await _calls(driver) - before <= 5
    await driver.create()
    await engine.run_once()
    assert engine.status().partitions_in_use == 1


async def _calls(driver: Driver) -> int:
    text = await driver.backend.client.execute("INFO", "commandstats")
    assert isinstance(text, bytes)
    lines = [line for line in text.decode().splitlines() if line.startswith("cmdstat_fcall:")]
    return int(lines[0].partition("calls=")[2].partition(",")[0])


async def _register(driver: Driver, name: str) -> None:
    await driver.backend.register_worker(
        c.RegisterWorkerArgs(
            namespace=Namespace("tests"),
            worker_id=WORKER if name == INSTANCE else WorkerId("other"),
            worker_instance_id=WorkerInstanceId(name),
            lanes=(LANE,),
            ttl_ms=10_000,
        )
    )

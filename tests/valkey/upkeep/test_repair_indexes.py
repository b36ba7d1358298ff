"""repair_indexes: whatever happened to the indexes, the records say what they must be."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.backends.valkey.wire.client import Reply
from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId, WorkerInstanceId
from flowfabric.core.partition import Partition, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements, StreamPolicy
from flowfabric.core.rules.execution.transitions import SITUATIONS, Situation
from flowfabric.core.states import PublicState
from tests.conformance.driver import ATTEMPT_TIMEOUT, LANE, TTL, Subject
from tests.soaking import examples
from tests.valkey.driver import Driver
from tests.valkey.invariants import dump

OTHER = LaneId("other")
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
KEPT = ExecutionPolicy(stream_policy=StreamPolicy(retention_ttl_ms=1_000))


def partition_of(driver: Driver) -> Partition:
    return lane_partitions(LANE, driver.backend.partitions)[0]


async def repair(driver: Driver, limit: int = 100) -> int:
    """One whole pass over the partition; how many entries it put right."""
    repaired, cursor, calls = 0, None, 0
    while calls == 0 or cursor is not None:
        args = c.RepairIndexesArgs(partition=partition_of(driver), cursor=cursor, limit=limit)
        page = await driver.backend.repair_indexes(args)
        repaired, cursor, calls = repaired + page.repaired, page.cursor, calls + 1
        assert calls < 2_000
    return repaired


async def a_bit_of_everything(driver: Driver) -> list[Subject]:
    """One execution in every situation, in two lanes that share a partition, and some with more to list."""
    found = [await driver.reach(situation, tags={"team.a": situation}) for situation in SITUATIONS]
    found.append(await driver.create(policy=GPU))
    found.append(await driver.create(execution_id=driver.mint(), lane_id=OTHER, policy=GPU))
    found.append(await driver.create(execution_id=driver.mint(), lane_id=OTHER, policy=KEPT))
    await driver.cancel(found[-1])
    found += [await driver.create(concurrency_key=key, policy=policy) for key in "ab" for policy in (None, GPU, GPU)]
    await driver.run(found[-6])
    return found


async def command(driver: Driver, *words: Any) -> Reply:
    return await driver.backend.client.execute(*words, key=words[1])


def idx(driver: Driver, name: str) -> str:
    return f"ff:idx:{partition_of(driver).tag}:{name}"


def lane_idx(driver: Driver, name: str, lane: str = LANE) -> str:
    return idx(driver, f"lane:{lane}:{name}")


async def test_nothing_is_done_to_a_store_that_is_right(driver: Driver) -> None:
    await a_bit_of_everything(driver)
    before = await driver.probe.dump()
    for limit in (1, 7, 1_000):
        assert await repair(driver, limit) == 0
    assert await driver.probe.dump() == before


async def test_an_empty_partition_is_done_at_once(driver: Driver) -> None:
    page = await driver.backend.repair_indexes(c.RepairIndexesArgs(partition=partition_of(driver)))
    assert page == c.IndexesRepaired()


@pytest.mark.parametrize("situation", Situation)
async def test_entries_that_were_lost_are_added(driver: Driver, situation: Situation) -> None:
    """All but the lists of all executions and flows, which lead to their records."""
    x = await driver.reach(situation, tags={"team.a": "1"})
    kept = (":all_executions", ":flow_index", ":execution_deadline", *([":lanes"] if x.upstream else []))
    before = await driver.probe.dump()
    for key in before:
        name = key.decode()
        if name.startswith("ff:idx:") and not name.endswith(kept):  # a set of two comes back in any order
            await command(driver, "DEL", name)
    assert await repair(driver) > 0
    assert await driver.probe.dump() == before
    assert await repair(driver) == 0


async def test_an_execution_that_any_index_knows_is_listed_again(driver: Driver) -> None:
    x = await driver.create()
    await command(driver, "DEL", idx(driver, "all_executions"))
    assert await repair(driver) == 1
    listed = await driver.backend.list_executions(c.ListExecutionsArgs())
    assert [each.execution_id for each in listed.executions] == [x.execution_id]


async def test_entries_of_records_that_are_gone_are_removed(driver: Driver) -> None:
    await driver.create()
    before = await driver.probe.dump()
    names = [
        idx(driver, "all_executions"), idx(driver, "lease_expiry"), idx(driver, "attempt_timeout"),
        idx(driver, "execution_deadline"), idx(driver, "suspension_timeout"), lane_idx(driver, "eligible"),
        lane_idx(driver, "delayed"), lane_idx(driver, "active"), lane_idx(driver, "terminal"),
        lane_idx(driver, "terminal:failed"), lane_idx(driver, "retention"), lane_idx(driver, "blocked:quota"),
    ]  # fmt: skip
    for name in names:
        await command(driver, "ZADD", name, 1, driver.mint())
        await command(driver, "ZADD", name, 2, "no id at all")
    assert await repair(driver) == 2 * len(names)
    assert await driver.probe.dump() == before


async def test_entries_that_contradict_their_records_are_removed(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    before = await driver.probe.dump()
    for name in ("eligible", "delayed", "terminal", "blocked:route"):
        await command(driver, "ZADD", lane_idx(driver, name), 1, x.execution_id)
    assert await repair(driver) == 4
    assert await driver.probe.dump() == before


async def test_times_that_the_record_tells_are_put_right(driver: Driver) -> None:
    x, y = await driver.run(await driver.create()), await driver.create(priority=5)
    before = await driver.probe.dump()
    for name, who in (("lease_expiry", x), ("lane:default:active", x), ("lane:default:eligible", y)):
        await command(driver, "ZADD", idx(driver, name), 1, who.execution_id)
    assert await repair(driver) == 3
    assert await driver.probe.dump() == before


async def test_times_that_the_record_does_not_tell_are_left_alone(driver: Driver) -> None:
    x = await driver.reach(Situation.BLOCKED_BY_BUDGET)
    y = await driver.run(await driver.create())
    for name, who in (("lane:default:blocked:budget", x), ("attempt_timeout", y), ("execution_deadline", y)):
        await command(driver, "ZADD", idx(driver, name), 77, who.execution_id)
    before = await driver.probe.dump()
    assert await repair(driver) == 0
    assert await driver.probe.dump() == before


async def test_a_lost_attempt_time_out_is_set_again(driver: Driver) -> None:
    x = await driver.run(await driver.create(), lease_ttl_ms=TTL)
    started = driver.clock.now_ms
    await driver.clock.advance(1_000)
    await command(driver, "DEL", idx(driver, "attempt_timeout"))
    await repair(driver)
    score = await command(driver, "ZSCORE", idx(driver, "attempt_timeout"), x.execution_id)
    assert score == str(started + ATTEMPT_TIMEOUT).encode()


async def test_work_that_comes_back_to_an_empty_queue_is_announced(driver: Driver) -> None:
    await driver.create()
    await command(driver, "DEL", lane_idx(driver, "eligible"))
    async with driver.backend.listen_for_work([LANE]) as listener:
        await listener.wait()
        await repair(driver)
        assert await listener.wait() == {(LANE, partition_of(driver))}


async def test_leases_of_others_are_taken_off_a_workers_list(driver: Driver) -> None:
    mine, theirs = await driver.run(await driver.create()), await driver.create()
    await driver.grant_and_claim(theirs, worker_instance_id=WorkerInstanceId("worker-2"))
    done = await driver.run(await driver.create())
    await driver.complete(done)
    before = await driver.probe.dump()
    leases = idx(driver, "worker:worker-1:leases")
    await command(driver, "SADD", leases, theirs.execution_id, done.execution_id, driver.mint(), "nonsense")
    await command(driver, "SREM", leases, mine.execution_id)
    assert await repair(driver) == 5
    assert await driver.probe.dump() == before


async def test_a_key_that_nobody_holds_any_more_lets_the_next_go_on(driver: Driver) -> None:
    """Somebody is listed as running, and is gone: without a repair the key would stay full for ever."""
    gone, waits = await driver.create(concurrency_key="k"), await driver.create(concurrency_key="k")
    await driver.run(gone)
    assert (await driver.info(waits)).public_state is PublicState.RATE_LIMITED
    await command(driver, "DEL", f"ff:exec:{gone.execution_id.tag}:{gone.execution_id}:core")
    assert await repair(driver) > 0
    assert (await driver.info(waits)).public_state is PublicState.WAITING
    await driver.run(waits)


async def test_one_that_its_key_forgot_goes_on(driver: Driver) -> None:
    runs, waits = await driver.create(concurrency_key="k"), await driver.create(concurrency_key="k")
    await driver.run(runs)
    (waiting,) = [key for key in await driver.probe.dump() if b":key_waiting:" in key]
    await command(driver, "DEL", waiting.decode())
    await driver.complete(runs)
    assert (await driver.info(waits)).public_state is PublicState.RATE_LIMITED
    assert await repair(driver) > 0
    assert (await driver.info(waits)).public_state is PublicState.WAITING
    await driver.probe.check()


async def test_capability_sets_that_nothing_waits_for_are_forgotten(driver: Driver) -> None:
    x = await driver.create(policy=GPU)
    before = await driver.probe.dump()
    sets = lane_idx(driver, "capability_sets")
    await command(driver, "SADD", sets, "tpu", "quantum")
    await command(driver, "ZADD", lane_idx(driver, "eligible:tpu"), 1, x.execution_id)
    assert await repair(driver) == 3
    assert await driver.probe.dump() == before


async def test_a_record_that_cannot_be_read_is_left_alone_and_stops_nothing(driver: Driver) -> None:
    broken, x = await driver.create(), await driver.create()
    core = f"ff:exec:{broken.execution_id.tag}:{broken.execution_id}:core"
    await command(driver, "HDEL", core, "lifecycle_phase", "created_at")
    await command(driver, "ZREM", lane_idx(driver, "eligible"), x.execution_id)
    assert await repair(driver) == 1
    assert await command(driver, "ZSCORE", lane_idx(driver, "eligible"), broken.execution_id) is not None
    assert await command(driver, "ZSCORE", lane_idx(driver, "eligible"), x.execution_id) is not None


async def _indexes(backend: ValkeyBackend) -> dict[str, bool]:
    """Every index that follows from states, and whether it is a plain set."""
    ignored = (":all_executions", ":execution_deadline", ":lanes", ":capability_sets")
    names = [key.decode() for key in await dump(backend.client)]
    listed = [name for name in names if name.startswith("ff:idx:") and not name.endswith(ignored)]
    listed = [name for name in listed if ":tag:" not in name and ":key_groups:" not in name]
    return {name: await backend.client.execute("TYPE", name, key=name) == b"set" for name in listed}


async def damage(driver: Driver, chance: random.Random, subjects: list[Subject]) -> None:
    """Lose, add or move one entry of an index, or lose all of it."""
    indexes = await _indexes(driver.backend)
    name, target = chance.choice(sorted(indexes)), chance.choice(sorted(indexes))
    member = chance.choice([*(x.execution_id for x in subjects), driver.mint()])
    add = ("SADD", target, member) if indexes[target] else ("ZADD", target, chance.randrange(10**13), member)
    match chance.choice(["lose", "add", "move", "empty", "forget"]):
        case "lose":
            await command(driver, "SREM" if indexes[name] else "ZREM", name, member)
        case "add":
            await command(driver, *add)
        case "move":
            await command(driver, "SREM" if indexes[name] else "ZREM", name, member)
            await command(driver, *add)
        case "empty":
            await command(driver, "DEL", name)
        case "forget":
            await command(driver, "ZREM", idx(driver, "all_executions"), chance.choice(subjects).execution_id)


async def has_an_entry(driver: Driver, x: Subject) -> bool:
    """One that is in no index at all cannot be found; the damage stops short of that."""
    if await command(driver, "ZSCORE", idx(driver, "all_executions"), x.execution_id):
        return True
    names = [name for name, is_set in (await _indexes(driver.backend)).items() if not is_set]
    return any([await command(driver, "ZSCORE", name, x.execution_id) for name in names])


@settings(
    max_examples=examples(8, soak=200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), hits=st.integers(1, 25), limit=st.sampled_from([1, 5, 100]))
async def test_whatever_the_damage_the_records_win(driver: Driver, seed: int, hits: int, limit: int) -> None:
    await driver.backend.client.execute_on_primaries("FLUSHALL")
    chance = random.Random(seed)
    subjects = await a_bit_of_everything(driver)
    for _ in range(hits):
        await damage(driver, chance, subjects)
    for x in subjects:
        if not await has_an_entry(driver, x):
            await command(driver, "ZADD", idx(driver, "all_executions"), 1, x.execution_id)
    # Somebody begins, and is gone before the rest.
    await driver.backend.repair_indexes(c.RepairIndexesArgs(partition=partition_of(driver), limit=limit))
    await repair(driver, limit)
    await driver.probe.check()
    assert await repair(driver, limit) == 0

"""Records that somebody has damaged: whoever reads them is told that they cannot be read, and which they are."""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.core.ids import EdgeId
from flowfabric.core.partition import Partition, PartitionFamily, budget_partition
from flowfabric.errors import Corruption, FlowFabricError
from tests.conformance.driver import Subject
from tests.valkey.driver import Driver
from tests.valkey.keys.whole_store import WholeStore, whole_store

Read = Callable[[WholeStore, Subject], Awaitable[Any]]

GARBAGE = (b"", b"abc", b"-1", b"\xff\xfe", b"1.5", b"[]", b"99999999999999999999")


def _flow(store: WholeStore) -> Any:
    assert store.flow is not None
    return store.flow


def _edge(store: WholeStore) -> EdgeId:
    return next(iter(_flow(store).edge_ids.values()))


def _partition(x: Subject) -> Partition:
    return Partition(PartitionFamily.FLOW, x.execution_id.partition_index)


def _budget_partition(store: WholeStore) -> Partition:
    return budget_partition(store.budget, store.driver.backend.partitions)


def _token(s: WholeStore, x: Subject) -> Awaitable[Any]:
    assert s.waitpoint is not None
    args = c.ReadWaitpointTokenArgs(execution_id=x.execution_id, waitpoint_id=s.waitpoint.waitpoint_id)
    return s.driver.backend.read_waitpoint_token(args)


READS: dict[str, Read] = {
    "budget_partitions_in_use": lambda s, _: s.driver.backend.budget_partitions_in_use(),
    "count_executions": lambda s, _: s.driver.backend.count_executions(s.driver.lane),
    "describe_edge": lambda s, _: s.driver.backend.describe_edge(_flow(s).flow_id, _edge(s)),
    "describe_execution": lambda s, x: s.driver.backend.describe_execution(x.execution_id),
    "describe_flow": lambda s, _: s.driver.backend.describe_flow(_flow(s).flow_id),
    "describe_lane": lambda s, _: s.driver.backend.describe_lane(s.driver.lane),
    "describe_stream": lambda s, x: s.driver.backend.describe_stream(x.execution_id, 0),
    "explain_execution": lambda s, x: s.driver.backend.explain_execution(x.execution_id),
    "get_budget_ledger": lambda s, x: s.driver.backend.get_budget_ledger(s.budget, x.execution_id),
    "get_budget_status": lambda s, _: s.driver.backend.get_budget_status(s.budget),
    "get_execution": lambda s, x: s.driver.backend.get_execution(x.execution_id),
    "get_execution_result": lambda s, x: s.driver.backend.get_execution_result(x.execution_id),
    "get_execution_state": lambda s, x: s.driver.backend.get_execution_state(x.execution_id),
    "get_quota_status": lambda s, _: s.driver.backend.get_quota_status(s.quota, key=s.names.lane),
    "history": lambda s, x: s.driver.backend.history(x.execution_id),
    "list_attempts": lambda s, x: s.driver.backend.list_attempts(x.execution_id),
    "list_budgets": lambda s, _: s.driver.backend.list_budgets(),
    "list_edges": lambda s, _: s.driver.backend.list_edges(c.ListEdgesArgs(flow_id=_flow(s).flow_id)),
    "list_executions": lambda s, _: s.driver.backend.list_executions(c.ListExecutionsArgs(lane_id=s.driver.lane)),
    "list_flow_members": lambda s, _: s.driver.backend.list_flow_members(
        c.ListFlowMembersArgs(flow_id=_flow(s).flow_id)
    ),
    "list_flows": lambda s, _: s.driver.backend.list_flows(c.ListFlowsArgs()),
    "list_lanes": lambda s, _: s.driver.backend.list_lanes(c.ListLanesArgs()),
    "list_pending_waitpoints": lambda s, x: s.driver.backend.list_pending_waitpoints(
        c.ListPendingWaitpointsArgs(execution_id=x.execution_id)
    ),
    "list_quota_policies": lambda s, _: s.driver.backend.list_quota_policies(),
    "list_resume_signals": lambda s, x: s.driver.backend.list_resume_signals(
        c.ListResumeSignalsArgs(execution_id=x.execution_id)
    ),
    "list_tasks": lambda s, _: s.driver.backend.list_tasks(c.ListTasksArgs()),
    "list_suspended": lambda s, _: s.driver.backend.list_suspended(c.ListSuspendedArgs()),
    "list_waitpoint_hmac_kids": lambda s, x: s.driver.backend.list_waitpoint_hmac_kids(
        c.ListWaitpointHmacKidsArgs(partition=_partition(x))
    ),
    "list_workers": lambda s, _: s.driver.backend.list_workers(c.ListWorkersArgs()),
    "next_due": lambda s, x: s.driver.backend.next_due(_partition(x)),
    "partitions_in_use": lambda s, _: s.driver.backend.partitions_in_use(),
    "read_attempt_stream": lambda s, x: s.driver.backend.read_attempt_stream(
        c.ReadFramesArgs(execution_id=x.execution_id, attempt_index=0)
    ),
    "read_budget_notices": lambda s, _: s.driver.backend.read_budget_notices(_budget_partition(s)),
    "read_events": lambda s, x: s.driver.backend.read_events(c.ReadEventsArgs(partition=_partition(x))),
    "read_execution_context": lambda s, x: s.driver.backend.read_execution_context(x.execution_id),
    "read_execution_inputs": lambda s, x: s.driver.backend.read_execution_inputs(x.execution_id),
    "read_logs": lambda s, x: s.driver.backend.read_logs(c.ReadLogsArgs(execution_id=x.execution_id)),
    "read_watched_ends": lambda s, x: s.driver.backend.read_watched_ends(_partition(x)),
    "read_steps": lambda s, x: s.driver.backend.read_steps(c.ReadStepsArgs(execution_id=x.execution_id)),
    "read_summary": lambda s, x: s.driver.backend.read_summary(x.execution_id, 0),
    "read_waitpoint_token": _token,
    "scan_eligible_executions": lambda s, x: s.driver.backend.scan_eligible_executions(
        c.ScanEligibleArgs(partition=_partition(x), lane_id=s.driver.lane, limit=10)
    ),
}

# They ask all partitions.
EVERYWHERE = {
    "budget_partitions_in_use", "count_executions", "list_budgets", "list_executions", "list_flows", "list_lanes",
    "list_quota_policies", "list_suspended", "partitions_in_use",
}  # fmt: skip
_VERBS = ("budget", "count", "describe", "explain", "get", "history", "list", "next", "partitions", "read", "scan")


def test_every_read_of_the_ports_is_here() -> None:
    methods = [name for name, _ in inspect.getmembers(EngineBackend, inspect.isfunction)]
    assert READS.keys() == {name for name in methods if name.split("_")[0] in _VERBS}


async def damage(rng: random.Random, client: Any, key: str) -> str:
    """Change something of the value of a key, or its type; says what."""
    kind = (await client.execute("TYPE", key, key=key)).decode()
    if rng.random() < 0.15:
        await client.execute("DEL", key, key=key)
        command: tuple[Any, ...] = ("SET", key, "x") if kind != "string" else ("HSET", key, "a", "b")
        await client.execute(*command, key=key)
        return f"{key}: {kind} is a {command[0]} now"
    bad = rng.choice(GARBAGE)
    if kind == "hash":
        name = rng.choice(await client.execute("HKEYS", key, key=key))
        command = ("HDEL", key, name) if rng.random() < 0.4 else ("HSET", key, name, bad)
    elif kind == "zset":
        command = ("ZADD", key, 1, bad)
    elif kind == "set":
        command = ("SADD", key, bad)
    elif kind == "list":
        command = ("RPUSH", key, bad)
    elif kind == "stream":
        command = ("XADD", key, "99999999999999-*", rng.choice((b"lines", b"payload", b"at_ms")), bad)
    else:
        command = ("SET", key, bad)
    await client.execute(*command, key=key)
    return " ".join(map(str, command))


async def answers(store: WholeStore, name: str, x: Subject, what: str) -> None:
    try:
        await READS[name](store, x)
    except FlowFabricError:
        pass
    except Exception as error:
        raise AssertionError(f"{name} of {x.execution_id} raised {error!r} after {what}") from error


@pytest.mark.parametrize("seed", range(4))
async def test_reads_of_damaged_records_raise_nothing_but_our_own_errors(driver: Driver, seed: int) -> None:
    rng, client = random.Random(f"damage-{seed}"), driver.backend.client
    store = await whole_store(driver)
    await store.look()
    for _ in range(20):
        key = rng.choice(sorted(name for name in store.seen if not name.startswith("ff:config:")))
        kept: Any = await client.execute("DUMP", key, key=key)
        if kept is None:
            continue
        what = await damage(rng, client, key)
        subjects = [x for x in store.executions.values() if x.execution_id in key] or [
            rng.choice(list(store.executions.values()))
        ]
        for name in READS:
            if name not in EVERYWHERE or rng.random() < 0.3:
                await answers(store, name, subjects[0], what)
        await client.execute("DEL", key, key=key)
        await client.execute("RESTORE", key, 0, kept, key=key)


@pytest.mark.parametrize("field", ["lane_id", "created_at", "lifecycle_phase"])
@pytest.mark.parametrize("name", ["describe_execution", "get_execution"])
async def test_describing_a_record_without_a_field_is_a_corruption_that_names_both(
    driver: Driver, name: str, field: str
) -> None:
    x = await driver.create()
    core = keys.core(x.execution_id)
    await driver.backend.client.execute("HDEL", core, field, key=core)
    with pytest.raises(Corruption) as told:
        await getattr(driver.backend, name)(x.execution_id)
    assert told.value.code == "corruption"
    assert x.execution_id.short in str(told.value)
    assert field in str(told.value)


@pytest.mark.parametrize("name", ["describe_execution", "get_execution", "get_execution_state", "list_attempts"])
async def test_a_record_of_another_type_is_a_corruption(driver: Driver, name: str) -> None:
    x = await driver.create()
    core = keys.core(x.execution_id)
    await driver.backend.client.execute("SET", core, "text", key=core)
    with pytest.raises(Corruption, match=x.execution_id.uuid):
        await getattr(driver.backend, name)(x.execution_id)


@pytest.mark.parametrize("field", ["created_at", "progress_pct", "lease_expires_at", "current_attempt_index"])
async def test_a_number_that_is_none_is_a_corruption_that_names_it(driver: Driver, field: str) -> None:
    x = await driver.run(await driver.create())
    core = keys.core(x.execution_id)
    await driver.backend.client.execute("HSET", core, field, "many", key=core)
    with pytest.raises(Corruption, match=field):
        await driver.backend.describe_execution(x.execution_id)

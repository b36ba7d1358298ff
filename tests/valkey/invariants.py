"""What must hold of a whole store at any time: every record legal, every index exactly what the records imply."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from typing import Any

from flowfabric.backends.valkey.library.calls import flat_to_dict
from flowfabric.backends.valkey.library.keys import part
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.core.states import (
    PHASE_DEFAULTS,
    BlockingReason,
    EligibilityState,
    LifecyclePhase,
    OwnershipState,
    StateVector,
    TerminalOutcome,
    violations,
)

_QUEUES = {
    "eligible_now": "eligible",
    "not_eligible_until_time": "delayed",
    "blocked_by_dependencies": "blocked:dependencies",
    "blocked_by_budget": "blocked:budget",
    "blocked_by_quota": "blocked:quota",
    "blocked_by_route": "blocked:route",
    "blocked_by_operator": "blocked:operator",
    "blocked_by_lane_state": "blocked:lane_state",
}

# Due times depend on what the execution was given; lanes, capability sets and parked claims are lists of other things.
_NOT_OF_STATE = (
    ":attempt_timeout", ":execution_deadline", ":lanes", ":capability_sets", ":parked", ":parked_lanes",
    ":flow_index", ":flow_work", ":watched_ends",
)  # fmt: skip

# What hangs on a waitpoint follows one more colon.
_WAITPOINT = re.compile(r"ff:wp:(?P<tag>\{[^}]*\}):(?P<id>[^:]*)")

Dump = dict[bytes, bytes]


async def dump(client: Client) -> Dump:
    """Every key and its exact content."""
    found: Dump = {}
    for node in await client.primaries():
        keys: Any = await node.execute("KEYS", "*")
        contents: Any = await asyncio.gather(*(node.execute("DUMP", key) for key in keys))
        found |= dict(zip(keys, contents, strict=True))
    return found


async def key_names(client: Client) -> list[str]:
    found: list[bytes] = []
    for node in await client.primaries():
        found += await node.execute("KEYS", "*")  # type: ignore[arg-type]
    return [key.decode() for key in found]


async def each(client: Client, names: list[str], command: str, *args: str) -> list[Any]:
    """The same command for each key, on its way at the same time."""
    return await asyncio.gather(*(client.execute(command, name, *args, key=name) for name in names))


async def check_store(client: Client) -> dict[str, StateVector]:
    """Raise on the first broken invariant; answer the state of every execution."""
    names = await key_names(client)
    records = await _records(client, names)
    expected: dict[str, set[str]] = defaultdict(set)
    states: dict[str, StateVector] = {}
    for execution_id, record in records.items():
        state = states[execution_id] = StateVector.from_record(record)
        assert not violations(state), (execution_id, state)
        assert record["public_state"] == state.public_state, (execution_id, record)
        assert "" not in record.values(), f"an empty field is stored: {record}"
        usual = PHASE_DEFAULTS[state.lifecycle_phase]
        for name in set(record) & set(StateVector.__struct_fields__) - {"lifecycle_phase"}:
            assert record[name] != getattr(usual, name), f"a default is stored: {name} in {record}"
        for name in _indexes(execution_id, record, state):
            expected[name].add(execution_id)
        if "waits_for_key" in record and "required_capabilities" in record:
            expected[_of_key("groups", execution_id, record)].add(record["required_capabilities"])
    for name, waitpoint_id in await _pending_waitpoints(client, names):
        expected[name].add(waitpoint_id)
    assert await _actual_indexes(client, names) == dict(expected)
    await _check_keys(client, records, expected)
    return states


async def _records(client: Client, names: list[str]) -> dict[str, dict[str, str]]:
    cores = [name for name in names if name.startswith("ff:exec:") and name.endswith(":core")]
    ids = [name.split(":", 2)[2].split(":", 2)[2].removesuffix(":core") for name in cores]
    return dict(zip(ids, map(flat_to_dict, await each(client, cores, "HGETALL")), strict=True))


async def _pending_waitpoints(client: Client, names: list[str]) -> list[tuple[str, str]]:
    """Each with the index that says when it runs out."""
    found = [match for name in names if (match := _WAITPOINT.fullmatch(name))]
    states = await each(client, [match.string for match in found], "HGET", "state")
    return [
        (f"ff:idx:{match['tag']}:pending_waitpoint_expiry", match["id"])
        for match, state in zip(found, states, strict=True)
        if state == b"pending"
    ]


def _indexes(execution_id: str, record: dict[str, str], state: StateVector) -> set[str]:
    tag = _tag(execution_id)
    lane = f"ff:idx:{tag}:lane:{part(record['lane_id'])}:"
    names = {f"ff:idx:{tag}:all_executions"}
    if state.lifecycle_phase is LifecyclePhase.RUNNABLE:
        needs = record.get("required_capabilities")
        waits = state.eligibility_state is EligibilityState.ELIGIBLE_NOW
        names.add(lane + _QUEUES[state.eligibility_state] + (f":{needs}" if needs and waits else ""))
    else:
        names.add(lane + state.lifecycle_phase)
    if state.lifecycle_phase is LifecyclePhase.TERMINAL and state.terminal_outcome is not TerminalOutcome.SUCCESS:
        names.add(f"{lane}terminal:{state.terminal_outcome}")
    if state.lifecycle_phase is LifecyclePhase.TERMINAL and "retention_ttl_ms" in record:
        names.add(f"{lane}retention")
    if state.lifecycle_phase is LifecyclePhase.ACTIVE:
        names.add(f"ff:idx:{tag}:lease_expiry")
        if state.ownership_state is not OwnershipState.LEASE_REVOKED:
            names.add(f"ff:idx:{tag}:worker:{part(record['current_worker_instance_id'])}:leases")
    if state.lifecycle_phase is LifecyclePhase.SUSPENDED and "suspension_timeout_at" in record:
        names.add(f"ff:idx:{tag}:suspension_timeout")
    if "concurrency_key" in record:
        names |= _key_indexes(execution_id, record, state)
    return names


def _tag(execution_id: str) -> str:
    return execution_id[: execution_id.index("}") + 1]


def _of_key(kind: str, execution_id: str, record: dict[str, str], *group: str) -> str:
    """An index of the executions that share a concurrency key."""
    owner = [part(name) for name in (record["lane_id"], record["namespace"], *group)]
    return f"ff:idx:{_tag(execution_id)}:key_{kind}:{':'.join(owner)}:{record['concurrency_key']}"


def _key_indexes(execution_id: str, record: dict[str, str], state: StateVector) -> set[str]:
    needs = record.get("required_capabilities", "")
    if state.lifecycle_phase is LifecyclePhase.ACTIVE:
        return {_of_key("active", execution_id, record)}
    if state.eligibility_state is EligibilityState.ELIGIBLE_NOW:
        return {_of_key("ready", execution_id, record, needs)}
    if "waits_for_key" in record:
        assert state.blocking_reason is BlockingReason.WAITING_FOR_QUOTA, (execution_id, state)
        return {_of_key("waiting", execution_id, record, needs)}
    return set()


async def _check_keys(client: Client, records: dict[str, dict[str, str]], indexes: dict[str, set[str]]) -> None:
    """Nothing waits for its concurrency key while the key has room for it."""
    for execution_id, record in records.items():
        if "waits_for_key" not in record:
            continue
        config = f"ff:lane:{_tag(execution_id)}:{part(record['lane_id'])}:config"
        limit = await client.execute("HGET", config, "key_concurrency", key=config)
        ready = _of_key("ready", execution_id, record, record.get("required_capabilities", ""))
        running = _of_key("active", execution_id, record)
        taken = len(indexes.get(ready, ())) + len(indexes.get(running, ()))
        assert taken >= int(limit or 1), f"{execution_id} waits for its key, of which only {taken} go first"  # type: ignore[arg-type]


async def _actual_indexes(client: Client, names: list[str]) -> dict[str, set[str]]:
    """Every index of executions but those that follow from something else than the state."""
    indexes = [name for name in names if name.startswith("ff:idx:{fp:") and ":tag:" not in name]
    indexes = [name for name in indexes if not name.endswith(_NOT_OF_STATE)]
    sets = [name for name, kind in zip(indexes, await each(client, indexes, "TYPE"), strict=True) if kind == b"set"]
    ordered = [name for name in indexes if name not in sets]
    members = await each(client, sets, "SMEMBERS") + await each(client, ordered, "ZRANGE", "0", "-1")
    return {name: {member.decode() for member in found} for name, found in zip(sets + ordered, members, strict=True)}

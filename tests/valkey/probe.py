"""The probe of every store that is a Valkey, and what its kinds share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from flowfabric.backends.valkey.backend import ValkeyBackend, agree_on_partitions
from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.bundle import bundle
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.rows.limit_records import Debt
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.backends.valkey.wire.url import parse_url
from flowfabric.config import Settings
from flowfabric.core.ids import BudgetId, ExecutionId, FlowId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import Partition, PartitionConfig
from flowfabric.core.states import StateVector
from flowfabric.testing import ManualClock
from tests.valkey.flow_invariants import check_flows
from tests.valkey.invariants import Dump, check_store, dump

_FLOW = FlowId("11111111-1111-4111-8111-111111111111")  # one without a record, for open dependencies


class ValkeyInside:
    """The look inside of a Valkey, whatever a test reaches its ports through."""

    def __init__(self, url: str, opened: ValkeyBackend, clock: ManualClock) -> None:
        self.url = url
        self.clock = clock
        self.client: Client = opened.client
        self._opened = opened

    async def flush(self) -> None:
        await self.client.execute_on_primaries("FLUSHALL")

    async def dump(self) -> Dump:
        return await dump(self.client)

    async def check(self) -> dict[str, StateVector]:
        return await check_store(self.client)

    async def check_flows(self) -> None:
        await check_flows(self.client)

    async def cut(self) -> None:
        for node in await self.client.primaries():
            for kind in ("pubsub", "normal"):
                await node.execute("CLIENT", "KILL", "TYPE", kind)

    async def waiting(self) -> int:
        return len(await blocked_reads(self.client))

    async def until_waiting(self, count: int = 1) -> None:
        async with asyncio.timeout(20):
            while await self.waiting() < count:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        await self._opened.close()

    async def place_grant(
        self, execution_id: ExecutionId, worker_id: WorkerId, instance: WorkerInstanceId, until: int
    ) -> None:
        key = keys.claim_grant(execution_id)
        fields = ("worker_id", worker_id, "worker_instance_id", instance, "grant_expires_at", until)
        await self.client.execute("HSET", key, *fields, key=key)

    async def withdraw_grant(self, execution_id: ExecutionId) -> None:
        key, core = keys.claim_grant(execution_id), keys.core(execution_id)
        await self.client.execute("DEL", key, key=key)
        await self.client.execute("HDEL", core, "claim_grant_until", key=core)

    async def open_dependency(self, execution_id: ExecutionId) -> None:
        core, group = keys.core(execution_id), keys.edge_group(execution_id.tag, _FLOW, execution_id)
        await self.client.execute("HSET", core, "flow_id", _FLOW, key=core)
        await self.client.execute("HSET", group, "n", 1, key=group)

    async def close_dependency(self, execution_id: ExecutionId) -> None:
        group = keys.edge_group(execution_id.tag, _FLOW, execution_id)
        await self.client.execute("HSET", group, "group_state", "satisfied", key=group)

    async def left_behind(self) -> list[str]:
        found = []
        for key in await self.dump():
            name = key.decode()
            is_log = name.startswith("ff:part:") and name.endswith((":events", ":event_lines"))
            if is_log or name.startswith(("ff:sec:", "ff:kid:")) or name == "ff:config:partitions":
                continue
            if await self.client.execute("PTTL", name, key=name) == -1:
                found.append(name)
        return found

    async def pay_and_die(self, partition: Partition, budget_id: BudgetId) -> None:
        due = await self._opened._caller.call_partition("due_admissions", partition.tag, limit=100)
        debts = [Debt.read(entry) for entry in due.texts(1)]
        if debts:
            await self._opened.settle_stretches(budget_id, [debt.stretch(budget_id) for debt in debts])

    async def count_signals(self, execution_id: ExecutionId) -> int:
        key = keys.core(execution_id).removesuffix("core") + "signals"
        return int(await self.client.execute("ZCARD", key, key=key))  # type: ignore[arg-type]

    async def debts(self, partition: Partition) -> list[tuple[str, int, bool]]:
        key = f"ff:part:{partition.tag}:handovers"
        found: Any = await self.client.execute("ZRANGE", key, 0, -1, key=key)
        entries = [entry.decode().split(" ") for entry in found]
        return [(entry[0], int(entry[3]), entry[8] != "-") for entry in entries]


class ValkeyProbe(ValkeyInside):
    """A Valkey as one test holds it."""

    def __init__(self, url: str, backend: ValkeyBackend, clock: ManualClock) -> None:
        super().__init__(url, backend, clock)
        self.backend = backend

    async def another(self) -> ValkeyBackend:
        return await open_backend(self.url, type(self.backend), self.backend.partitions)


async def probe_of(backend: ValkeyBackend) -> ValkeyProbe:
    """Return the probe of a store that a test has opened by itself; its time stands still from here on."""
    return ValkeyProbe(str(backend._address), backend, await ManualClock.start(backend.client))


async def blocked_reads(client: Client) -> list[tuple[int, int]]:
    """Return node and client id of every blocking read."""
    found = []
    for at, node in enumerate(await client.primaries()):
        listed = await node.execute("CLIENT", "LIST", "TYPE", "normal")
        assert isinstance(listed, bytes)
        clients = [dict(pair.split("=", 1) for pair in line.split()) for line in listed.decode().splitlines()]
        found += [(at, int(each["id"])) for each in clients if "b" in each["flags"] and each["cmd"] == "xread"]
    return found


async def open_backend(url: str, kind: type[ValkeyBackend], partitions: PartitionConfig) -> ValkeyBackend:
    """Connect without the checks of `ValkeyBackend.open`: the store is ours and its library is loaded."""
    client = await open_client(Settings(url=url))
    return kind(client, Library(client, bundle(manual_clock=True)), partitions, parse_url(url))


async def open_clean(url: str, kind: type[ValkeyBackend] = ValkeyBackend, *, lane_shards: int = 1) -> ValkeyBackend:
    """An empty store with the library of the manual clock, whose time passes until the test holds it."""
    backend = await open_backend(url, kind, PartitionConfig(lane_shards=lane_shards))
    await backend.client.execute_on_primaries("FLUSHALL")
    if lane_shards > 1:  # one shard is what a store without a record has
        await agree_on_partitions(backend.client, Settings(url=url, lane_shards=lane_shards))
    await backend._library.ensure()
    try:
        await _let_time_pass(backend)
    except ServerReplyError:  # a process that came first has loaded the released library, of the same version
        await Library(backend.client, bundle(manual_clock=True), force=True).ensure()
        await _let_time_pass(backend)
    return backend


async def _let_time_pass(backend: ValkeyBackend) -> None:
    for node in await backend.client.primaries():
        await node.execute("FCALL", "ff_test_clock", 0, "")


class ValkeyStore:
    """A Valkey that every test finds empty, with the library of the manual clock."""

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    nth_life: ClassVar[int] = 1
    backend: ClassVar[type[ValkeyBackend]] = ValkeyBackend
    url: str

    def start(self, directory: Path) -> None:
        raise NotImplementedError

    def stop(self) -> None: ...

    async def open(self, *, lane_shards: int = 1, holds_clock: bool = True) -> ValkeyProbe:
        backend = await open_clean(self.url, self.backend, lane_shards=lane_shards)
        clock = await ManualClock.start(backend.client) if holds_clock else ManualClock(backend.client, 0)
        return ValkeyProbe(self.url, backend, clock)

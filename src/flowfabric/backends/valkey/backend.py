"""EngineBackend on Valkey: all ports over one client, and the checks before the first call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy

from msgspec.structs import replace

from flowfabric.backends.valkey.embedded.secret import own_secret
from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.library.bundle import Bundle, bundle
from flowfabric.backends.valkey.library.calls import FunctionCaller, flat_to_dict
from flowfabric.backends.valkey.library.layout import LAYOUT, refuse_another_layout
from flowfabric.backends.valkey.library.loader import Library
from flowfabric.backends.valkey.listen.event_tail import EventTail
from flowfabric.backends.valkey.listen.frame_tail import FrameTails
from flowfabric.backends.valkey.listen.wakeups import Announcements, ValkeyWakeups
from flowfabric.backends.valkey.ports.batches import ValkeyBatches
from flowfabric.backends.valkey.ports.executions import ValkeyExecutions
from flowfabric.backends.valkey.ports.flows.events import ValkeyFlowEvents
from flowfabric.backends.valkey.ports.flows.flow import ValkeyEdges, ValkeyFlows
from flowfabric.backends.valkey.ports.lanes import ValkeyLanes
from flowfabric.backends.valkey.ports.leases import ValkeyLeases
from flowfabric.backends.valkey.ports.limits.reconciling import ValkeyReconciling
from flowfabric.backends.valkey.ports.listing import ValkeyListing
from flowfabric.backends.valkey.ports.logs import ValkeyLogs
from flowfabric.backends.valkey.ports.maintenance import ValkeyMaintenance
from flowfabric.backends.valkey.ports.reads import ValkeyReads
from flowfabric.backends.valkey.ports.retention import ValkeyRetention
from flowfabric.backends.valkey.ports.scheduling import ValkeyScheduling
from flowfabric.backends.valkey.ports.secrets import ValkeySecrets
from flowfabric.backends.valkey.ports.signals import ValkeySignals
from flowfabric.backends.valkey.ports.steps import ValkeySteps
from flowfabric.backends.valkey.ports.streams import ValkeyStreams
from flowfabric.backends.valkey.ports.suspensions import ValkeySuspensions
from flowfabric.backends.valkey.ports.workers import ValkeyWorkers
from flowfabric.backends.valkey.rows.explanations import ValkeyExplanations
from flowfabric.backends.valkey.wire.client import Client
from flowfabric.backends.valkey.wire.connection import AccessRefused
from flowfabric.backends.valkey.wire.open_client import open_client
from flowfabric.backends.valkey.wire.url import ServerAddress, parse_url
from flowfabric.config import Settings
from flowfabric.core.ids import Namespace
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.tokens import SigningSecret
from flowfabric.errors import InvalidInput, PartitionMismatch

_RECORD = keys.PARTITION_RECORD
_COUNTS = ("num_flow_partitions", "num_budget_partitions", "num_quota_partitions")
_LANE_SHARDS = "lane_shards"
_LAYOUT = "layout"
_CLUSTER_SHARDS = 8


class ValkeyBackend(
    ValkeyExecutions,
    ValkeyLeases,
    ValkeyScheduling,
    ValkeyExplanations,
    ValkeyLanes,
    ValkeySuspensions,
    ValkeySignals,
    ValkeySecrets,
    ValkeySteps,
    ValkeyStreams,
    ValkeyLogs,
    ValkeyFlows,
    ValkeyEdges,
    ValkeyFlowEvents,
    ValkeyBatches,
    ValkeyListing,
    ValkeyRetention,
    ValkeyWakeups,
    ValkeyWorkers,
    ValkeyMaintenance,
    ValkeyReconciling,
    ValkeyReads,
):
    """All ports on one Valkey: standalone, cluster or embedded."""

    def __init__(self, client: Client, library: Library, partitions: PartitionConfig, address: ServerAddress) -> None:
        self._client = client
        self._address = address
        self._library = library
        self._caller = FunctionCaller(library, partitions)
        self._tail = EventTail(client)
        self._frame_tails = FrameTails(client, self._tail)
        self._announcements = Announcements(client)
        self._turns = {}
        self._whole = self
        self.partitions = partitions

    @classmethod
    async def open(cls, settings: Settings, source: Bundle | None = None) -> ValkeyBackend:
        """Connect, refuse a store of another program or with other partition counts, and load the library."""
        client = await open_client(settings)
        try:
            library = Library(client, source or bundle(), force=settings.force_library_load)
            await refuse_another_layout(library, await _stored_counts(client), force=settings.force_library_load)
            partitions = await agree_on_partitions(client, settings)
            await library.ensure()
        except BaseException:
            await client.close()
            raise
        return cls(client, library, partitions, parse_url(settings.url))

    @property
    def client(self) -> Client:
        """The underlying client, for the test kit only; everything else uses the ports."""
        return self._client

    def within(self, namespaces: Sequence[Namespace]) -> ValkeyBackend:
        view = copy(self)
        view._caller = FunctionCaller(self._library, self.partitions, tuple(namespaces))
        return view

    async def kept_secret(self) -> SigningSecret | None:
        if self._address.kind != "embedded":
            return None
        return await asyncio.to_thread(own_secret, self._address.directory)

    async def close(self) -> None:
        await self._announcements.close()
        await self._frame_tails.close()
        await self._tail.close()
        await self._client.close()


async def agree_on_partitions(client: Client, settings: Settings) -> PartitionConfig:
    """Record the partition counts at the first start. Ids depend on them, so they cannot change later."""
    ours = _first_counts(client, settings)
    # Write lane_shards first: a record without it is of another program, whose lanes have one partition.
    known = await _stored_counts(client)
    first = {_LANE_SHARDS: ours.lane_shards} if not known else {}
    first |= {name: getattr(ours, name) for name in _COUNTS} | {_LAYOUT: LAYOUT}
    for name in [each for each in first if each not in known]:  # if all exist, no write permission is needed
        await _record(client, name, first[name])
    stored = {_LANE_SHARDS: "1", **await _stored_counts(client)}
    for name in (*_COUNTS, _LANE_SHARDS) if settings.lane_shards else _COUNTS:
        if stored.get(name) != str(getattr(ours, name)):
            raise PartitionMismatch(
                f"{name}: the store was set up with {stored.get(name)}, the settings say {getattr(ours, name)}; "
                f"set FLOWFABRIC_{name.upper()}={stored.get(name)}",
                field=name,
            )
    try:
        return replace(ours, lane_shards=int(stored[_LANE_SHARDS]))
    except (ValueError, InvalidInput) as error:
        raise PartitionMismatch(f"lane_shards: the store's record is unusable ({error})", field=_LANE_SHARDS) from error


async def _record(client: Client, name: str, value: int | str) -> None:
    try:
        await client.execute("HSETNX", _RECORD, name, value, key=_RECORD, repeatable=True)
    except AccessRefused as refusal:
        problem = f"the store is new, and this user may not set it up; let an operator open it first: {refusal.message}"
        raise AccessRefused(problem, sent=True) from refusal


def _first_counts(client: Client, settings: Settings) -> PartitionConfig:
    """The partition counts of a new store; several shards per lane pay off with several nodes only."""
    usual = min(_CLUSTER_SHARDS, settings.num_flow_partitions) if client.topology == "cluster" else 1
    counts = {name: getattr(settings, name) for name in _COUNTS}
    return PartitionConfig(**counts, lane_shards=settings.lane_shards or usual)


async def _stored_counts(client: Client) -> dict[str, str]:
    return flat_to_dict(await client.execute("HGETALL", _RECORD, key=_RECORD, repeatable=True))

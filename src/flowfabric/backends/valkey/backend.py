"""EngineBackend on Valkey: the ports over one client, and what is checked before the first call."""

from __future__ import annotations

from flowfabric.backends.valkey import keys
from flowfabric.backends.valkey.batches import ValkeyBatches
from flowfabric.backends.valkey.bundle import Bundle, bundle
from flowfabric.backends.valkey.calls import FunctionCaller, flat_to_dict
from flowfabric.backends.valkey.client import Client
from flowfabric.backends.valkey.events import ValkeyEvents
from flowfabric.backends.valkey.executions import ValkeyExecutions
from flowfabric.backends.valkey.leases import ValkeyLeases
from flowfabric.backends.valkey.library import Library
from flowfabric.backends.valkey.listing import ValkeyListing
from flowfabric.backends.valkey.opening import open_client
from flowfabric.backends.valkey.reads import ValkeyReads
from flowfabric.backends.valkey.retention import ValkeyRetention
from flowfabric.backends.valkey.scheduling import ValkeyScheduling
from flowfabric.backends.valkey.tail import EventTail
from flowfabric.config import Settings
from flowfabric.core.partition import PartitionConfig
from flowfabric.errors import PartitionMismatch

_COUNTS = ("num_flow_partitions", "num_budget_partitions", "num_quota_partitions")


class ValkeyBackend(
    ValkeyExecutions,
    ValkeyLeases,
    ValkeyScheduling,
    ValkeyBatches,
    ValkeyEvents,
    ValkeyListing,
    ValkeyRetention,
    ValkeyReads,
):
    """All ports on one Valkey, standalone, cluster or embedded."""

    def __init__(self, client: Client, library: Library, partitions: PartitionConfig) -> None:
        self._client = client
        self._library = library
        self._caller = FunctionCaller(library)
        self._tail = EventTail(client)
        self.partitions = partitions

    @classmethod
    async def open(cls, settings: Settings, source: Bundle | None = None) -> ValkeyBackend:
        """Connect, refuse a store that is partitioned otherwise, and load the function library."""
        client = await open_client(settings)
        try:
            partitions = await agree_on_partitions(client, settings)
            library = Library(client, source or bundle(), force=settings.force_library_load)
            await library.ensure()
        except BaseException:
            await client.close()
            raise
        return cls(client, library, partitions)

    @property
    def client(self) -> Client:
        """The connection underneath, for the test kit; nothing else of ours goes past the ports."""
        return self._client

    async def close(self) -> None:
        await self._tail.close()
        await self._client.close()


async def agree_on_partitions(client: Client, settings: Settings) -> PartitionConfig:
    """The first boot records the partition counts; ids were minted by them, so nobody may come with others."""
    wanted = {name: getattr(settings, name) for name in _COUNTS}
    record = keys.PARTITION_RECORD
    for name, count in wanted.items():
        await client.execute("HSETNX", record, name, count, key=record, repeatable=True)
    stored = flat_to_dict(await client.execute("HGETALL", record, key=record, repeatable=True))
    for name, count in wanted.items():
        if stored.get(name) != str(count):
            raise PartitionMismatch(
                f"{name}: the store was set up with {stored.get(name)}, the settings say {count}; "
                f"set FLOWFABRIC_{name.upper()}={stored.get(name)}",
                field=name,
            )
    return PartitionConfig(**wanted)

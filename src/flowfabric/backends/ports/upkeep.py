"""Upkeep: the calls of the engine besides due work (shares, repair, retention)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition


class DueSoon(NamedTuple):
    """A partition got a timer that is due in `in_ms`."""

    partition: Partition
    in_ms: int


class DueListener(Protocol):
    """Notifies an engine of timers that are due soon."""

    async def wait(self) -> frozenset[DueSoon]:
        """Wait for timers since the last call. An empty set means that some may have been missed."""
        ...


class MaintenancePort(Protocol):
    """Divide partitions among engines, find due work, repair indexes."""

    async def hold_share(self, args: c.HoldShareArgs) -> c.EngineShares:
        """Register this engine replica for a while and return the live replicas."""
        ...

    async def partitions_in_use(self) -> list[Partition]:
        """The partitions that hold executions."""
        ...

    async def next_due(self, partition: Partition) -> c.NextDue:
        """The time of the earliest lease expiry, delay, timeout or deadline in the partition."""
        ...

    async def read_watched_ends(
        self, partition: Partition, *, done: Sequence[c.WatchedEnd] = (), limit: int = 100
    ) -> list[c.WatchedEnd]:
        """Ended executions whose watchers must be signalled, oldest first. `done` ones are removed before reading."""
        ...

    def listen_for_due(self) -> AbstractAsyncContextManager[DueListener]:
        """Subscribe to delays, timeouts and deadlines that are due within seconds. Messages count from entry on.

        The first wait returns an empty set at once, and so does the first one after a lost connection.
        """
        ...

    async def repair_indexes(self, args: c.RepairIndexesArgs) -> c.IndexesRepaired:
        """Correct index entries that disagree with their records."""
        ...

    async def reevaluate_blocked(self, args: c.ReevaluateBlockedArgs) -> c.BlockedReevaluated:
        """Release executions whose reason for the block is gone: blocked -> waiting."""
        ...


class RetentionPort(Protocol):
    """Delete finished executions."""

    async def trim_executions(self, args: c.TrimExecutionsArgs) -> c.TrimExecutionsResult:
        """Delete finished executions with everything that belongs to them: terminal -> absent."""
        ...

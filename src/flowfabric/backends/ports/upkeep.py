"""Upkeep: the calls of the engine besides due work (shares, repair, retention)."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition


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

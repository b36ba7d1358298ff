"""What an engine asks of a store besides due work: shares, retention, repairs."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c
from flowfabric.core.partition import Partition


class MaintenancePort(Protocol):
    """What an engine needs besides the work itself."""

    async def hold_share(self, args: c.HoldShareArgs) -> c.EngineShares:
        """Live for a while, and learn who else does."""
        ...

    async def partitions_in_use(self) -> list[Partition]:
        """The partitions that hold executions."""
        ...

    async def next_due(self, partition: Partition) -> c.NextDue:
        """When the partition's earliest lease, delay, time-out or deadline is due."""
        ...

    async def repair_indexes(self, args: c.RepairIndexesArgs) -> c.IndexesRepaired:
        """Put right index entries that do not agree with their records."""
        ...

    async def reevaluate_blocked(self, args: c.ReevaluateBlockedArgs) -> c.BlockedReevaluated:
        """Let go what is held back for a reason that is gone: blocked -> waiting."""
        ...


class RetentionPort(Protocol):
    """Deleting what is finished."""

    async def trim_executions(self, args: c.TrimExecutionsArgs) -> c.TrimExecutionsResult:
        """Delete finished executions with everything that belongs to them: terminal -> absent."""
        ...

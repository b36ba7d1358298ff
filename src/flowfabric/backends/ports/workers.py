"""Which workers are alive."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class WorkerPort(Protocol):
    """Which workers there are."""

    async def register_worker(self, args: c.RegisterWorkerArgs) -> c.RegisterWorkerResult:
        """Make a worker known, or what it offers now."""
        ...

    async def heartbeat_worker(self, args: c.HeartbeatWorkerArgs) -> c.HeartbeatWorkerResult:
        """Keep a worker alive."""
        ...

    async def mark_worker_dead(self, args: c.MarkWorkerDeadArgs) -> c.MarkWorkerDeadResult:
        """Take a worker off the list; what it runs is lost with its leases, not before."""
        ...

    async def list_workers(self, args: c.ListWorkersArgs) -> c.ListWorkersPage:
        """Live workers, by instance id."""
        ...

    async def expire_workers(self, *, limit: int = 100) -> int:
        """Forget workers that were silent for too long; how many."""
        ...

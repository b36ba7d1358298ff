"""Workers: register, heartbeat, list, expire."""

from __future__ import annotations

from typing import Protocol

from flowfabric.core import contracts as c


class WorkerPort(Protocol):
    """The registry of live workers."""

    async def register_worker(self, args: c.RegisterWorkerArgs) -> c.RegisterWorkerResult:
        """Register a worker, or update its capabilities and lanes."""
        ...

    async def heartbeat_worker(self, args: c.HeartbeatWorkerArgs) -> c.HeartbeatWorkerResult:
        """Record a heartbeat of a worker."""
        ...

    async def mark_worker_dead(self, args: c.MarkWorkerDeadArgs) -> c.MarkWorkerDeadResult:
        """Remove a worker from the registry. Its executions stay until their leases expire."""
        ...

    async def list_workers(self, args: c.ListWorkersArgs) -> c.ListWorkersPage:
        """List live workers by instance id."""
        ...

    async def list_tasks(self, args: c.ListTasksArgs) -> c.ListTasksPage:
        """List the tasks that workers have registered, with their options. They outlive their workers."""
        ...

    async def expire_workers(self, *, limit: int = 100) -> int:
        """Remove workers without a recent heartbeat. Returns how many were removed."""
        ...

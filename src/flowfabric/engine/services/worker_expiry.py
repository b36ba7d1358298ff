"""Remove workers whose heartbeat stopped. Their executions return when the leases expire."""

from __future__ import annotations

from flowfabric.engine.service import Service, Surroundings


class WorkerExpiry(Service):
    """Expires workers of the whole store; one replica runs it."""

    name = "worker_expiry"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.worker_expiry_ms)

    async def run_once(self) -> int:
        if not self.around.territory.has_duty(self.name):
            return 0
        limit, deadline, expired, more = self.around.settings.batch, self.deadline_ms(), 0, True
        while more:
            forgotten = await self.around.backend.expire_workers(limit=limit)
            expired += forgotten
            more = forgotten == limit and self.now_ms() < deadline
        self.passed_at_ms = self.now_ms()
        return expired

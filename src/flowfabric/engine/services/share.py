"""Living: saying so in the store, and learning who else does."""

from __future__ import annotations

import logging

from flowfabric.core import contracts as c
from flowfabric.engine.service import Service, Surroundings

_logger = logging.getLogger(__name__)


class ShareHolder(Service):
    """Holds this replica's share of the work. When the store cannot be asked, the last answer holds."""

    name = "share"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.share_ttl_ms // 3)

    async def run_once(self) -> int:
        await self._hold()
        self.passed_at_ms = self.now_ms()
        return 1

    async def leave(self) -> None:
        """Give the share up at once, so that nobody waits for it to run out."""
        await self._hold(leave=True)

    async def _hold(self, *, leave: bool = False) -> None:
        territory = self.around.territory
        shares = await self.around.backend.hold_share(
            c.HoldShareArgs(replica_id=territory.replica_id, ttl_ms=self.around.settings.share_ttl_ms, leave=leave)
        )
        if territory.hear(shares.replicas):
            _logger.info("%s: the engines are now %s", territory.replica_id, ", ".join(shares.replicas) or "none")

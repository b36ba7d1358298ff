"""Renew this replica's share in the store, and learn which other engines are alive."""

from __future__ import annotations

import logging

from flowfabric.core import contracts as c
from flowfabric.engine.service import Service, Surroundings

_logger = logging.getLogger(__name__)


class ShareHolder(Service):
    """Holds this replica's share of the work. While the store is unreachable, the last answer stays in force."""

    name = "share"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, around.settings.share_ttl_ms // 3)

    async def run_once(self) -> int:
        await self._hold()
        self.passed_at_ms = self.now_ms()
        return 1

    async def leave(self) -> None:
        """Release the share, so that other engines need not wait until it expires."""
        await self._hold(leave=True)

    async def _hold(self, *, leave: bool = False) -> None:
        territory = self.around.territory
        shares = await self.around.backend.hold_share(
            c.HoldShareArgs(replica_id=territory.replica_id, ttl_ms=self.around.settings.share_ttl_ms, leave=leave)
        )
        if territory.hear(shares.replicas):
            _logger.info("%s: live engines: %s", territory.replica_id, ", ".join(shares.replicas) or "none")

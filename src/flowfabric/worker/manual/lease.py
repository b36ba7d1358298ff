"""The lease of one attempt by hand: renewed on request, or in the background."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import Conflict, FlowFabricError, NotFound
from flowfabric.worker.attempts.attempt import UNHEALTHY_AFTER

_logger: Final = logging.getLogger("flowfabric.worker")


class ManualLease:
    """Renews one lease, and counts the renewals that failed in a row.

    It does not refer to the task that holds it: a background renewal must not keep a dropped task alive.
    """

    def __init__(
        self, backend: EngineBackend, execution_id: ExecutionId, attempt_index: int, fence: c.LeaseFence, ttl_ms: int
    ) -> None:
        self._backend = backend
        self._execution_id = execution_id
        self._args = c.RenewLeaseArgs(
            execution_id=execution_id, attempt_index=attempt_index, fence=fence, lease_ttl_ms=ttl_ms
        )
        self._renew_every_s = ttl_ms / 3000
        self._renewal: asyncio.Task[None] | None = None
        self._is_lost = False
        self.failures = 0  # renewals in a row

    @property
    def is_healthy(self) -> bool:
        return not self._is_lost and self.failures < UNHEALTHY_AFTER

    @property
    def is_renewed(self) -> bool:
        """Whether a background renewal is on."""
        return self._renewal is not None

    async def renew(self) -> c.RenewLeaseResult:
        try:
            result = await self._backend.renew_lease(self._args)
        except FlowFabricError as error:
            self.failures += 1
            self._is_lost = self._is_lost or isinstance(error, Conflict | NotFound)
            raise
        self.failures = 0
        return result

    def start_renewal(self) -> None:
        """Renew in the background, three times per lease lifetime, until `stop_renewal` or until the lease is lost."""
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew_repeatedly())

    def stop_renewal(self) -> None:
        if self._renewal is not None and not self._renewal.get_loop().is_closed():
            self._renewal.cancel()
        self._renewal = None

    async def _renew_repeatedly(self) -> None:
        while not self._is_lost:
            await asyncio.sleep(self._renew_every_s)
            try:
                await self.renew()
            except FlowFabricError as error:
                _logger.warning("could not renew the lease of %s: %s", self._execution_id.short, error)

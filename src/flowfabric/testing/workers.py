"""The workers of a test: started, stopped and killed by the test, on its clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.states import PublicState
from flowfabric.errors import Conflict, InvalidInput
from flowfabric.testing.clock import ManualClock
from flowfabric.testing.fault_proxy import Line
from flowfabric.testing.open_work import executions_in
from flowfabric.worker import Worker
from flowfabric.worker.loop.presence import Presence
from flowfabric.worker.reporting.requests import renewal

# A lease cannot be renewed for longer than a day.
_LONGEST_JUMP_MS: Final = limits.LEASE_TTL_MAX_MS // 2


class _StandingClock:
    """The store's time for a worker. A real worker adds the time since its last claim; here time stands still."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.now_ms

    def observe(self, store_ms: int) -> None:
        """The manual clock is exact."""


class Crew:
    """Live workers, each with its own line to the store."""

    def __init__(self, backend: EngineBackend, clock: ManualClock) -> None:
        self._backend = backend
        self._clock = clock
        self._lines: dict[Worker, Line] = {}
        self._dying: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._lines))

    async def start(self, worker: Worker) -> None:
        await self.bury()
        line = Line(self._backend)
        await worker.start(line.end, clock=_StandingClock(self._clock))
        self._lines[worker] = line

    async def stop(self, worker: Worker) -> None:
        """Drain the worker if it is alive: unfinished attempts are handed back."""
        if self._lines.pop(worker, None) is not None:
            await worker.stop(grace=0)

    async def kill(self, worker: Worker) -> None:
        line = self._lines.pop(worker, None)
        if line is None:
            problem = "is not running; start it with start_worker, or kill it from one of its handlers"
            raise InvalidInput("worker", worker.settings.worker_instance_id, problem)
        line.cut()
        # A handler that kills its own worker is cancelled by that; shield the rest of the shutdown.
        dying = asyncio.create_task(worker.kill())
        self._dying.add(dying)
        await asyncio.shield(dying)

    async def bury(self) -> None:
        """Wait until killed workers have shut down."""
        dying, self._dying = self._dying, set()
        await asyncio.gather(*dying)

    @asynccontextmanager
    async def at_work(self, workers: Collection[Worker]) -> AsyncIterator[None]:
        """Start these workers if they are not running, and stop them afterwards."""
        hired = [worker for worker in dict.fromkeys(workers) if worker not in self._lines]
        try:
            for worker in hired:
                await self.start(worker)
            yield
        finally:
            for worker in hired:
                await self.stop(worker)

    async def idle(self, timeout_s: float) -> bool:
        """Wait until all workers are idle. Returns False on timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(worker.idle() for worker in self))
        except TimeoutError:
            return False
        return not any(worker.running for worker in self)

    async def live_through(self, passing_ms: int) -> None:
        """Move the clock. Renew the leases and presence of live workers, as they would do meanwhile."""
        with ExitStack() as held:
            for line in self._lines.values():  # their own renewals would be too short now
                held.enter_context(line.held())
            while passing_ms:
                jump = min(passing_ms, _LONGEST_JUMP_MS)
                if not await self._renew_beyond(jump):
                    jump = passing_ms
                await self._clock.advance(jump)
                passing_ms -= jump
        for worker in self:
            await Presence(worker.settings).register(self._backend)

    async def _renew_beyond(self, jump_ms: int) -> int:
        """Renew the leases of live workers beyond the jump. Returns how many."""
        workers, renewed = {worker.settings.worker_instance_id: worker for worker in self}, 0
        if not workers:
            return 0
        async for each in executions_in(self._backend, PublicState.ACTIVE):
            snapshot = await self._backend.describe_execution(each.execution_id)
            if snapshot is None or snapshot.current_lease is None or snapshot.current_attempt is None:
                continue
            lease, attempt_id = snapshot.current_lease, snapshot.current_attempt.attempt_id
            if worker := workers.get(lease.worker_instance_id):
                fence = c.LeaseFence(lease_id=lease.lease_id, lease_epoch=lease.lease_epoch, attempt_id=attempt_id)
                ttl_ms = min(jump_ms + worker.settings.lease_ttl_ms, limits.LEASE_TTL_MAX_MS)
                with suppress(Conflict):  # already lost
                    await self._backend.renew_lease(renewal(each.execution_id, lease.attempt_index, fence, ttl_ms))
                    renewed += 1
        return renewed

    async def close(self) -> None:
        for worker in self:
            await self.stop(worker)
        await self.bury()

"""One run of a worker: start it, drain it, close it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.context.execution_log import capturing
from flowfabric.worker.executors.block_detector import BlockedLoopDetector
from flowfabric.worker.executors.exits import guard_tasks, unguard_tasks
from flowfabric.worker.loop.heartbeat import Keeper, Open, Renewals
from flowfabric.worker.loop.presence import Presence
from flowfabric.worker.loop.wiring import Connection, Parts, Program, build
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger("flowfabric.worker")

_SEND_THE_REST_S: Final = 10.0
_HURRY_S: Final = 1.0


class WorkerRun:
    """A worker at work on one store. `WorkerRun.start` makes one."""

    def __init__(
        self,
        parts: Parts,
        settings: WorkerSettings,
        backend: EngineBackend,
        open_keeper: Open | None,
        lifespan: AsyncExitStack,
        tasks: tuple[c.TaskEntry, ...] = (),
    ) -> None:
        self.parts = parts
        self._settings = settings
        self._backend = backend
        self._lifespan = lifespan
        self._loop = asyncio.get_running_loop()
        self._presence = Presence(settings, tasks)
        renewals = Renewals(parts.pool.held, settings, self._interrupt_from_keeper)
        self._keeper = Keeper((renewals, self._presence), open_keeper, backend)
        self._detector = BlockedLoopDetector(settings.blocking_threshold_ms, parts.pool.held)
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, program: Program, connection: Connection, open_keeper: Open | None, stats: WorkerStats
    ) -> WorkerRun:
        """Open the lifespan, start the parts, then begin to claim.

        `open_keeper` opens the heartbeat's own connection; None: it shares the worker's.
        """
        stack = AsyncExitStack()
        async with stack:
            if program.logs is not None:
                stack.enter_context(capturing(prints=program.logs.print, loggers=program.logs.loggers))
            state = None if program.lifespan is None else await stack.enter_async_context(program.lifespan())
            parts = build(program, connection, stats, state)
            lifespan = stack.pop_all()
        tasks = program.registry.entries
        run = cls(parts, program.settings, connection.backend, open_keeper, lifespan, tasks)
        await run._begin()
        return run

    async def _begin(self) -> None:
        guard_tasks(self._loop)
        try:
            await self._keeper.start()
            self._detector.start()
            await self._presence.register(self._backend)
        except BaseException:
            await self.close()
            raise
        self._listening = asyncio.create_task(self.parts.listener.run())

    @property
    def running(self) -> int:
        """How many handlers run."""
        return len(self.parts.pool.running)

    async def failed(self) -> None:
        """Wait until the worker can no longer receive work or renew its leases; then raise the reason."""
        assert self._listening is not None
        keeping = asyncio.ensure_future(self._keeper.failed())
        try:
            await asyncio.wait([self._listening, keeping], return_when=asyncio.FIRST_COMPLETED)
            await (keeping if keeping.done() else self._listening)
        finally:
            keeping.cancel()

    async def idle(self) -> None:
        """Wait until it has checked for work, no handler runs, nothing is left to send, and no work is known."""
        parts = self.parts
        await parts.turns.until(lambda: parts.listener.has_looked and not parts.pool.running and parts.all_sent)

    async def drain(self, grace_ms: int) -> None:
        """Claim no more; let handlers end within the grace period; then stop them and hand their attempts back."""
        await self._stop_claiming()
        self.parts.stopper.hand_back_backlog()
        await self._until_handlers_ended(grace_ms / 1000)
        await self._hand_back(self._settings.cancel_grace_ms / 1000, _SEND_THE_REST_S)
        await self._presence.leave(self._backend)

    async def hurry(self) -> None:
        """Hand everything back without waiting for handlers, or for a store that does not answer."""
        await self._stop_claiming()
        self.parts.stopper.hand_back_backlog()
        await self._hand_back(0, _HURRY_S)

    async def _hand_back(self, cancel_grace_s: float, send_s: float) -> None:
        parts = self.parts
        parts.stopper.stop_all()
        await self._until_handlers_ended(cancel_grace_s)
        parts.stopper.give_up_all()
        if not await parts.turns.until(lambda: parts.all_sent, send_s):
            _logger.warning("the store did not accept the last ends in time; the leases of those attempts will expire")

    async def _until_handlers_ended(self, timeout_s: float) -> None:
        await self.parts.turns.until(lambda: not self.parts.pool.running, timeout_s)

    async def close(self) -> None:
        """Close everything. Ends that are not sent by now are lost, and their leases expire."""
        parts = self.parts
        await self._stop_listening()
        self._detector.stop()
        parts.stopper.abandon_all()
        await parts.claim_loop.close()
        parts.logs.close()
        await parts.tasks.close()
        await self._keeper.stop()
        await parts.processes.close()
        parts.threads.close()
        unguard_tasks(self._loop)
        await self._lifespan.aclose()

    async def _stop_claiming(self) -> None:
        """Recall parked claims, and wait for claims that are out; after that no work comes."""
        parts = self.parts
        await self._stop_listening()
        parts.claim_loop.handover.recall_all()
        await parts.turns.until(lambda: not parts.claim_loop.expects_work, _HURRY_S)

    async def _stop_listening(self) -> None:
        self.parts.planner.claiming = False
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def _interrupt_from_keeper(self, attempt: Attempt) -> None:
        self._loop.call_soon_threadsafe(self.parts.stopper.interrupt, attempt)

"""One run of a worker: its parts put together, started, drained and taken apart again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, lane_partitions
from flowfabric.errors import FlowFabricError
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.pool import Attempts
from flowfabric.worker.executors.block_detector import BlockedLoopDetector
from flowfabric.worker.executors.dispatch import Middleware, make_handler
from flowfabric.worker.loop.claim_loop import Rounds
from flowfabric.worker.loop.heartbeat import Keeper, Open, Renewals
from flowfabric.worker.loop.presence import Presence
from flowfabric.worker.registry import Registry
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

_logger: Final = logging.getLogger("flowfabric.worker")

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]

_LISTEN_AGAIN_S: Final = 1.0
_SEND_THE_REST_S: Final = 10.0
_HURRY_S: Final = 1.0


@dataclass(frozen=True)
class Program:
    """What a worker runs."""

    settings: WorkerSettings
    registry: Registry
    middleware: Sequence[Middleware] = ()
    lifespan: Lifespan | None = None
    categories: Mapping[type[BaseException], str] = field(default_factory=dict)


class WorkerRun:
    """A worker at work on one store. `open_keeper` opens the keeper's own connection; None: it shares this one."""

    def __init__(
        self,
        program: Program,
        backend: EngineBackend,
        open_keeper: Open | None,
        stats: WorkerStats,
        callback_url: str,
    ) -> None:
        self._program = program
        self._settings = program.settings
        self._backend = backend
        self._loop = asyncio.get_running_loop()
        self._change = asyncio.Event()
        self._stack = AsyncExitStack()
        self._attempts = attempts = Attempts(backend, program.settings, stats, program.categories)
        attempts.callback_url = callback_url
        self._rounds = Rounds(
            backend,
            program.settings,
            stats,
            occupied=lambda: attempts.occupied,
            on_claimed=attempts.claimed,
            on_finished=attempts.answered,
            on_return=self._change.set,
        )
        attempts.finish = self._rounds.finish
        attempts.left = self._rounds.ask_without_ending
        attempts.changed = attempts.calls.changed = self._changed
        self._presence = Presence(program.settings)
        renewals = Renewals(attempts.held, program.settings, self._stop_from_keeper)
        self._keeper = Keeper((renewals, self._presence), open_keeper, backend)
        self._detector = BlockedLoopDetector(program.settings.blocking_threshold_ms, attempts.held)
        self._listening: asyncio.Task[None] | None = None
        self._has_looked = False

    @property
    def running(self) -> int:
        """How many handlers run."""
        return len(self._attempts.running)

    async def start(self) -> None:
        """Make everything ready, and then begin to claim."""
        try:
            await self._prepare()
        except BaseException:
            await self.close()
            raise
        self._listening = asyncio.create_task(self._listen())

    async def _prepare(self) -> None:
        program = self._program
        if program.lifespan is not None:
            self._attempts.state = await self._stack.enter_async_context(program.lifespan())
        for name, task in program.registry.tasks.items():
            handler = make_handler(task, self._attempts, program.middleware, cpu=name in program.registry.cpu)
            self._attempts.handlers[name] = handler
        await self._keeper.start()
        self._detector.start()
        await self._presence.register(self._backend)

    async def failed(self) -> None:
        """Return only by raising, when the worker cannot hear of work or keep its leases any more."""
        assert self._listening is not None
        keeping = asyncio.ensure_future(self._keeper.failed())
        try:
            await asyncio.wait([self._listening, keeping], return_when=asyncio.FIRST_COMPLETED)
            await (keeping if keeping.done() else self._listening)
        finally:
            keeping.cancel()

    async def idle(self) -> None:
        """Wait until it has looked for work, nothing runs, nothing is to be sent, and no work is known of."""
        await self._until(lambda: self._has_looked and not self._attempts.running and self._sent, None)

    async def drain(self, grace_ms: int) -> None:
        """Claim no more; let handlers end within the grace; then stop them and hand their attempts back."""
        await self._stop_claiming()
        self._attempts.hand_back_waiting()
        await self._until(lambda: not self._attempts.running, grace_ms / 1000)
        await self._hand_back(self._settings.cancel_grace_ms / 1000, _SEND_THE_REST_S)
        await self._presence.leave(self._backend)

    async def hurry(self) -> None:
        """Hand everything back and wait for nobody: neither for handlers nor for a store that does not answer."""
        await self._stop_claiming()
        self._attempts.hand_back_waiting()
        await self._hand_back(0, _HURRY_S)

    async def _hand_back(self, cancel_grace_s: float, send_s: float) -> None:
        self._attempts.stop_all()
        await self._until(lambda: not self._attempts.running, cancel_grace_s)
        self._attempts.give_up_all()
        if not await self._until(lambda: self._sent, send_s):
            _logger.warning("the store did not take the last ends in time; those attempts are lost with their leases")

    async def close(self) -> None:
        """Take everything apart: what is not sent by now is lost with its lease."""
        await self._stop_listening()
        self._detector.stop()
        self._attempts.abandon_all()
        await self._rounds.close()
        await self._attempts.calls.close()
        await self._keeper.stop()
        await self._attempts.processes.close()
        self._attempts.threads.close()
        await self._stack.aclose()

    @property
    def _sent(self) -> bool:
        return self._rounds.is_quiet and not self._attempts.calls

    async def _stop_claiming(self) -> None:
        """Nothing new comes from here on: claims that wait are recalled, and those that are out return first."""
        await self._stop_listening()
        self._rounds.recall()
        await self._until(lambda: not self._rounds.expects_work, _HURRY_S)

    async def _stop_listening(self) -> None:
        self._rounds.claiming = False
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _until(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            return condition()
        return True

    def _changed(self) -> None:
        """An attempt has left its slot, or a call has returned."""
        self._rounds.turn_soon()
        self._change.set()

    def _stop_from_keeper(self, attempt: Attempt) -> None:
        self._loop.call_soon_threadsafe(self._attempts.interrupt, attempt)

    # Hearing of work.

    async def _listen(self) -> None:
        settings = self._settings
        while True:
            try:
                async with self._backend.listen_for_work(
                    tuple(settings.lanes),
                    settings.capabilities,
                    worker_instance_id=settings.worker_instance_id,
                    on_handed=self._rounds.handed,
                ) as listener:
                    while True:
                        await self._hear(await listener.wait())
            except FlowFabricError as error:
                _logger.warning("the worker cannot hear of work, it tries again: %s", error)
                await asyncio.sleep(_LISTEN_AGAIN_S)

    async def _hear(self, where: Collection[tuple[LaneId, Partition]]) -> None:
        if where:
            self._rounds.lanes.hear(where)
            self._rounds.turn()  # at once: each round of the loop in between would delay the start
            return
        self._rounds.recall()  # what came for them may be lost
        lanes, partitions = self._settings.lanes, self._backend.partitions
        self._rounds.lanes.hear((lane, shard) for lane in lanes for shard in lane_partitions(lane, partitions))
        self._rounds.turn_soon()
        # Members of flows wait in the partitions of their flows, which may be any.
        in_use = await self._backend.partitions_in_use()
        self._rounds.lanes.hear((lane, partition) for lane in lanes for partition in in_use)
        self._has_looked = True
        self._changed()

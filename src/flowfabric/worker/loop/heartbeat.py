"""Renews leases and sends heartbeats in a thread with its own event loop and connection.

A handler that blocks the worker's event loop therefore loses no lease. When the store refuses a renewal, the attempt is
ordered to stop: it was cancelled, or its lease is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from flowfabric.backends.ports import EngineBackend
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import Conflict, FlowFabricError, NotFound
from flowfabric.worker.attempts.attempt import Attempt, Stop, stop_for
from flowfabric.worker.reporting.outbox import PER_CALL
from flowfabric.worker.reporting.requests import renewal
from flowfabric.worker.settings import WorkerSettings

_logger: Final = logging.getLogger("flowfabric.worker")

Open = Callable[[], Awaitable[EngineBackend]]
OnStop = Callable[[Attempt], None]


class Duty(Protocol):
    """A task that must run even while the worker's event loop is blocked."""

    async def run(self, backend: EngineBackend) -> None: ...


class Renewals:
    """Renews leases in batches, and orders attempts to stop when their lease is gone."""

    def __init__(self, held: set[Attempt], settings: WorkerSettings, on_stop: OnStop) -> None:
        self._held = held
        self._settings = settings
        self._on_stop = on_stop  # called in this thread after the order

    async def run(self, backend: EngineBackend) -> None:
        while True:
            await self.once(backend)
            await asyncio.sleep(self._settings.renew_every_ms / 2000)

    async def once(self, backend: EngineBackend) -> None:
        """Renew the leases that are due; a lease that could not be renewed before it expired is lost."""
        now = time.monotonic()
        by_partition: defaultdict[int, list[Attempt]] = defaultdict(list)
        for attempt in self._held.copy():  # atomic: the worker's thread changes the set
            if attempt.lease_until <= now:
                self._order(attempt, Stop.LEASE_LOST, "its lease expired before it could be renewed")
            elif attempt.renew_at <= now:
                by_partition[attempt.execution_id.partition_index].append(attempt)
        await asyncio.gather(
            *(
                self._renew(backend, Partition(PartitionFamily.FLOW, index), attempts[start : start + PER_CALL])
                for index, attempts in by_partition.items()
                for start in range(0, len(attempts), PER_CALL)
            )
        )

    async def _renew(self, backend: EngineBackend, partition: Partition, attempts: list[Attempt]) -> None:
        sent_at = time.monotonic()
        ttl_ms = self._settings.lease_ttl_ms
        renew = tuple(renewal(each.execution_id, each.attempt_index, each.fence, ttl_ms) for each in attempts)
        try:
            result = await backend.finish_executions(b.FinishExecutionsArgs(partition=partition, renew=renew))
        except FlowFabricError as error:
            _logger.warning("could not renew %d leases of %s: %s", len(attempts), partition.tag, error)
            self._note_failures(attempts)
            return
        for attempt, outcome in zip(attempts, result.renewed, strict=True):
            if isinstance(outcome, c.LeaseRenewed):
                attempt.failures = 0
                attempt.lease_until = sent_at + ttl_ms / 1000
                attempt.renew_at = sent_at + self._settings.renew_every_ms / 1000
            else:
                self._refused(attempt, outcome)

    def _note_failures(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            attempt.failures += 1

    def _refused(self, attempt: Attempt, error: FlowFabricError) -> None:
        if not isinstance(error, Conflict | NotFound):
            _logger.warning("could not renew the lease of %s: %s", attempt.execution_id.short, error)
            self._note_failures([attempt])
            return
        self._order(attempt, stop_for(error), str(error))

    def _order(self, attempt: Attempt, cause: Stop, why: str) -> None:
        self._held.discard(attempt)
        if attempt.settled or attempt.suspension or not attempt.order(cause):
            return  # its end or suspension is being sent, or it is already stopping
        _logger.warning("stopping %s attempt %d: %s", attempt.execution_id.short, attempt.attempt_index, why)
        self._on_stop(attempt)


class Keeper:
    """Runs duties in a thread, or on the caller's event loop if no second connection can be opened."""

    def __init__(self, duties: Iterable[Duty], open_: Open | None, shared: EngineBackend) -> None:
        self._duties = tuple(duties)
        self._open = open_
        self._shared = shared
        self._tasks: list[asyncio.Task[None]] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._enough: asyncio.Event | None = None
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._death.add_done_callback(_log_death)

    async def start(self) -> None:
        """Start the duties. With a thread, return when its connection is open."""
        if self._open is None:
            self._tasks = [asyncio.create_task(duty.run(self._shared)) for duty in self._duties]
            for task in self._tasks:
                task.add_done_callback(self._ended)
            return
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        target, loop = self._run, asyncio.get_running_loop()
        self._thread = threading.Thread(target=target, args=(started, loop), name="flowfabric-keeper", daemon=True)
        self._thread.start()
        await started

    async def failed(self) -> None:
        """Wait until a duty fails, then raise its error."""
        await asyncio.shield(self._death)

    async def stop(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            if self._loop is not None and self._enough is not None:
                with contextlib.suppress(RuntimeError):  # its loop is closed: the thread is ending
                    self._loop.call_soon_threadsafe(self._enough.set)
            await asyncio.to_thread(self._thread.join)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, started: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
        def tell(error: BaseException | None) -> None:
            if error is None:
                started.set_result(None)
            else:
                (self._death if started.done() else started).set_exception(error)

        try:
            asyncio.run(self._serve(lambda: loop.call_soon_threadsafe(tell, None)))
        except BaseException as error:  # `start` must not wait forever
            loop.call_soon_threadsafe(tell, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._death.done():
            self._death.set_exception(error)

    async def _serve(self, ready: Callable[[], object]) -> None:
        assert self._open is not None
        self._loop, self._enough = asyncio.get_running_loop(), asyncio.Event()
        backend = await self._open()
        try:
            tasks = [asyncio.create_task(duty.run(backend)) for duty in self._duties]
            ready()
            ending = asyncio.create_task(self._enough.wait())
            done, _ = await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, ending):
                task.cancel()
            for task in done - {ending}:
                task.result()  # duties do not return: raise the error
        finally:
            await backend.close()


def _log_death(death: asyncio.Future[None]) -> None:
    if not death.cancelled() and (error := death.exception()) is not None:
        _logger.error("the heartbeat thread failed; leases will expire", exc_info=error)

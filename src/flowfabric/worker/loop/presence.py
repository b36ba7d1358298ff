"""The worker's entry in the store's list of workers: register, heartbeat, remove."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from flowfabric.backends.ports import EngineBackend, WorkerPort
from flowfabric.core import contracts as c
from flowfabric.errors import FlowFabricError
from flowfabric.worker.settings import WorkerSettings

_logger: Final = logging.getLogger("flowfabric.worker")


class Presence:
    """Registers the worker and sends its heartbeats."""

    def __init__(self, settings: WorkerSettings, tasks: tuple[c.TaskEntry, ...] = ()) -> None:
        self._settings = settings
        self._tasks = tasks

    async def register(self, port: WorkerPort) -> None:
        settings = self._settings
        await port.register_worker(
            c.RegisterWorkerArgs(
                namespace=settings.namespace,
                worker_id=settings.worker_id,
                worker_instance_id=settings.worker_instance_id,
                lanes=tuple(settings.lanes),
                ttl_ms=settings.presence_ttl_ms,
                capabilities=settings.capabilities,
                version=settings.version,
                host=settings.host,
                slots=settings.concurrency,
                tasks=self._tasks,
            )
        )

    async def run(self, backend: EngineBackend) -> None:
        while True:
            await asyncio.sleep(self._settings.presence_ttl_ms / 3000)
            await self.beat(backend)

    async def beat(self, port: WorkerPort) -> None:
        """Send a heartbeat; register again if the store has removed the worker."""
        args = c.HeartbeatWorkerArgs(
            namespace=self._settings.namespace, worker_instance_id=self._settings.worker_instance_id
        )
        try:
            if isinstance(await port.heartbeat_worker(args), c.WorkerNotRegistered):
                await self.register(port)
        except FlowFabricError as error:
            _logger.warning("heartbeat failed: %s", error)

    async def leave(self, port: WorkerPort) -> None:
        args = c.MarkWorkerDeadArgs(
            namespace=self._settings.namespace,
            worker_instance_id=self._settings.worker_instance_id,
            reason="stopped",
        )
        try:
            await port.mark_worker_dead(args)
        except FlowFabricError as error:
            _logger.warning("could not remove the worker from the list of workers: %s", error)

"""The engine: run all services concurrently, restart the ones that crash, stop in order."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from types import TracebackType
from typing import Self
from uuid import uuid4

import msgspec

from flowfabric.backends.ports import EngineBackend
from flowfabric.core.partition import Partition
from flowfabric.engine.backoff import Backoff, described
from flowfabric.engine.ownership import Territory
from flowfabric.engine.service import Service, ServiceStatus, Surroundings
from flowfabric.engine.services.admissions import Admissions
from flowfabric.engine.services.blocked_work import BlockedWork
from flowfabric.engine.services.budgets import Budgets, OnBudgetNotice
from flowfabric.engine.services.due_work import DueWork
from flowfabric.engine.services.index_repair import IndexRepair
from flowfabric.engine.services.listening import BudgetListening, DueListening, Listening
from flowfabric.engine.services.partitions import PartitionFinder
from flowfabric.engine.services.rebroadcast import Rebroadcast
from flowfabric.engine.services.reconcile import Reconcile
from flowfabric.engine.services.retention import Retention
from flowfabric.engine.services.share import ShareHolder
from flowfabric.engine.services.watched_ends import WatchedEnds
from flowfabric.engine.services.worker_expiry import WorkerExpiry
from flowfabric.engine.settings import EngineSettings
from flowfabric.engine.slots import Slots
from flowfabric.engine.timing import Timer
from flowfabric.errors import FlowFabricError

_logger = logging.getLogger(__name__)

_RESTART = Backoff(100, 10_000)


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of an engine."""

    replica_id: str
    replicas: tuple[str, ...]
    running: bool
    partitions_in_use: int
    partitions_owned: int
    services: tuple[ServiceStatus, ...]

    def service(self, name: str) -> ServiceStatus:
        return next(each for each in self.services if each.name == name)


class Engine:
    """Applies expired leases, delays and timeouts in one replica's share of a store. `async with Engine(backend): ...`

    Any number of engines may run on a store. They divide the partitions among themselves, and when one dies the others
    take over its share. The caller keeps and closes the backend. `on_budget_notice` is called at least once for each
    budget limit that is passed.
    """

    def __init__(
        self,
        backend: EngineBackend,
        settings: EngineSettings | None = None,
        *,
        replica_id: str | None = None,
        timer: Timer | None = None,
        on_budget_notice: OnBudgetNotice | None = None,
    ) -> None:
        settings = settings or EngineSettings()
        self._around = Surroundings(
            backend=backend,
            settings=settings,
            territory=Territory(replica_id or _fresh_id()),
            timer=timer or Timer(),
            slots=Slots(settings.calls_at_once),
        )
        self._share = ShareHolder(self._around)
        admissions = Admissions(self._around)
        watched_ends = WatchedEnds(self._around)
        self._due_work = DueWork(self._around, admissions.expect, watched_ends.expect)
        self.services: tuple[Service, ...] = (
            self._share,
            PartitionFinder(self._around),
            self._due_work,
            Listening(self._around, self.hear),
            DueListening(self._around, self.expect),
            admissions,
            watched_ends,
            budgets := Budgets(self._around, on_budget_notice),
            BudgetListening(self._around, budgets.name, budgets.hear),
            BlockedWork(self._around),
            Rebroadcast(self._around),
            WorkerExpiry(self._around),
            Reconcile(self._around),
            Retention(self._around),
            IndexRepair(self._around),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Start every service. An engine can be started once."""
        if self._tasks or self._stopped.is_set():
            raise RuntimeError("this engine was already started; create a new Engine")
        self._tasks = [asyncio.create_task(self._keep_running(service)) for service in self.services]

    async def stop(self) -> None:
        """Let current runs end within the grace period, then release the share, so that other engines take over."""
        self._stopped.set()
        for service in self.services:
            service.stop()
        await self._end(self._tasks)
        for service in self.services:
            await service.close()
        if self._share.runs:
            await self._end([asyncio.create_task(self._leave())])

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for the tasks within the grace period, then cancel them."""
        try:
            await self._around.timer.wait_for_all(tasks, self._around.settings.stop_grace_ms)
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_once(self) -> dict[str, int]:
        """Run every service once, in order, and return the items done by each: for tests with a manual clock."""
        return {service.name: await service.turn(service.run_once) for service in self.services}

    def hear(self, partition: Partition) -> None:
        """Tell the engine that a partition has changed, so that it checks the partition sooner."""
        self._around.territory.add(partition)
        self._due_work.hear(partition)

    def expect(self, partition: Partition, in_ms: float) -> None:
        """Tell the engine that a timer of a partition is due in `in_ms`, so that it acts on time."""
        self._around.territory.add(partition)
        self._due_work.expect(partition, in_ms)

    def status(self) -> EngineStatus:
        territory = self._around.territory
        return EngineStatus(
            replica_id=territory.replica_id,
            replicas=territory.replicas,
            running=any(not task.done() for task in self._tasks),
            partitions_in_use=len(territory.in_use),
            partitions_owned=len(territory.own),
            services=tuple(service.status() for service in self.services),
        )

    async def _keep_running(self, service: Service) -> None:
        """Restart a service that crashes, with a backoff that grows until a run succeeds."""
        crashes, runs = 0, -1
        while not self._stopped.is_set():
            try:
                await service.run()
            except Exception as error:
                crashes = crashes + 1 if service.runs == runs else 1
                runs = service.runs
                service.restarts += 1
                service.note_error(error)
                wait = _RESTART.after(crashes)
                _logger.exception("%s crashed; restarting in %d ms: %s", service.name, wait, described(error))
                await self._around.timer.wait(self._stopped, wait)

    async def _leave(self) -> None:
        try:
            await self._share.leave()
        except FlowFabricError as error:
            _logger.warning("could not release the engine share; it expires by itself: %s", error)


def _fresh_id() -> str:
    """A unique id that shows the host and process."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{uuid4().hex[:12]}"

"""Builds the parts of a running worker; each gets the parts it uses from its constructor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.registered import RegisteredTasks
from flowfabric.worker.attempts.pool import AttemptPool
from flowfabric.worker.attempts.starter import Starter
from flowfabric.worker.attempts.stopper import Stopper
from flowfabric.worker.attempts.suspender import Suspender
from flowfabric.worker.clock import Clock
from flowfabric.worker.context.services import Services
from flowfabric.worker.executors.dispatch import Handler, Middleware, make_handler
from flowfabric.worker.executors.processes import Processes
from flowfabric.worker.executors.threads import Threads
from flowfabric.worker.log_settings import Logs
from flowfabric.worker.loop.claim_loop import ClaimLoop
from flowfabric.worker.loop.claim_planner import ClaimPlanner
from flowfabric.worker.loop.parked_claims import Parking
from flowfabric.worker.loop.turns import Turns
from flowfabric.worker.loop.work_listener import WorkListener
from flowfabric.worker.registry import Registry
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.reporting.frame_sender import FrameSender
from flowfabric.worker.reporting.log_sender import LogSender
from flowfabric.worker.reporting.outbox import Outbox
from flowfabric.worker.reporting.reporter import Reporter
from flowfabric.worker.reporting.single_calls import SingleCalls
from flowfabric.worker.settings import WorkerSettings
from flowfabric.worker.stats import WorkerStats

Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True)
class Program:
    """The tasks and settings of a worker."""

    settings: WorkerSettings
    registry: Registry
    middleware: Sequence[Middleware] = ()
    lifespan: Lifespan | None = None
    categories: Mapping[type[BaseException], str] = field(default_factory=dict)
    logs: Logs | None = None


@dataclass(frozen=True)
class Connection:
    """A worker's access to its store: the backend, the store's time, and the base of the links of waitpoints."""

    backend: EngineBackend
    clock: Clock
    callback_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts that a run of the worker starts, drains and closes."""

    turns: Turns
    pool: AttemptPool
    tasks: CallTasks
    stopper: Stopper
    starter: Starter
    planner: ClaimPlanner
    claim_loop: ClaimLoop
    listener: WorkListener
    threads: Threads
    processes: Processes
    logs: LogSender

    @property
    def all_sent(self) -> bool:
        return self.claim_loop.is_quiet and not self.tasks and self.logs.is_quiet


def build(program: Program, connection: Connection, stats: WorkerStats, state: Any) -> Parts:
    """`state`: the value of the program's lifespan."""
    settings, backend, clock = program.settings, connection.backend, connection.clock
    turns, pool, parking = Turns(), AttemptPool(settings), Parking(settings.concurrency)
    tasks, outbox = CallTasks(turns), Outbox(turns)
    kinds = program.registry.kinds
    planner = ClaimPlanner(settings, pool, parking, turns, kinds)
    calls = SingleCalls(backend, pool, tasks, stats)
    logs = LogSender(backend, tasks, clock, program.logs)
    reporter = Reporter(pool, outbox, calls, clock, stats, program.categories, turns, logs)
    stopper = Stopper(pool, reporter, settings)
    threads = Threads()
    services = Services(
        backend=backend,
        settings=settings,
        clock=clock,
        tasks=tasks,
        calls=calls,
        frames=FrameSender(backend, tasks, stopper),
        logs=logs,
        registered=RegisteredTasks(backend, settings.namespace),
        suspender=Suspender(backend, pool, tasks, planner, stats),
        stopper=stopper,
        threads=threads,
        processes=Processes(settings.processes, threads),
        state=state,
        callback_url=connection.callback_url,
        loop=asyncio.get_running_loop(),
        thread_id=threading.get_ident(),
    )
    handlers = _handlers(program, services, reporter)
    starter = Starter(handlers, backend, pool, stopper, calls, clock, settings, stats, turns)
    claim_loop = ClaimLoop(
        backend, pool, outbox, planner, parking, settings, stats, turns,
        on_claimed=starter.claimed, on_finished=reporter.answered,
    )  # fmt: skip
    return Parts(
        turns=turns,
        pool=pool,
        tasks=tasks,
        stopper=stopper,
        starter=starter,
        planner=planner,
        claim_loop=claim_loop,
        listener=WorkListener(backend, planner, claim_loop, settings, turns, kinds),
        threads=threads,
        processes=services.processes,
        logs=logs,
    )


def _handlers(program: Program, services: Services, reporter: Reporter) -> dict[str, Handler]:
    return {
        name: make_handler(task, services, reporter, program.middleware, cpu=name in program.registry.cpu)
        for name, task in program.registry.tasks.items()
    }

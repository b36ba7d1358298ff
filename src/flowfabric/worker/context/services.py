"""The parts of a worker that contexts and journals use."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.registered import RegisteredTasks
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.stopper import Stopper
from flowfabric.worker.attempts.suspender import Suspender
from flowfabric.worker.clock import Clock
from flowfabric.worker.context.bridge import WorkerLink
from flowfabric.worker.context.context import Context
from flowfabric.worker.executors.processes import Processes
from flowfabric.worker.executors.threads import Threads
from flowfabric.worker.reporting.call_tasks import CallTasks
from flowfabric.worker.reporting.frame_sender import FrameSender
from flowfabric.worker.reporting.log_sender import LogSender
from flowfabric.worker.reporting.single_calls import SingleCalls
from flowfabric.worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Shared by all attempts of a worker.

    state: the value of the worker's lifespan. callback_url: the base of waitpoint links. loop and thread_id: those of
    the worker itself, for handlers in threads.
    """

    backend: EngineBackend
    settings: WorkerSettings
    clock: Clock
    tasks: CallTasks
    calls: SingleCalls
    frames: FrameSender
    logs: LogSender
    registered: RegisteredTasks
    suspender: Suspender
    stopper: Stopper
    threads: Threads
    processes: Processes
    state: Any
    callback_url: str
    loop: asyncio.AbstractEventLoop
    thread_id: int

    def context_of(self, attempt: Attempt) -> Context:
        if attempt.context is None:
            attempt.context = Context(WorkerLink(attempt, self))
        return attempt.context

"""The child process that runs CPU handlers: one call after the other, over a pipe.

Messages are MessagePack, never pickle. The handler is found by its module and name, as in the parent.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias, TypeVar

import msgspec

from flowfabric import tracing
from flowfabric.client.tasks.task import Task
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.codec import to_msgpack
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.errors import InvalidInput
from flowfabric.worker.attempts.attempt import Stop
from flowfabric.worker.attempts.failure_details import detail_of
from flowfabric.worker.attempts.outcomes import Cancel, Fail, Outcome, Retry, Snooze, category_of, reason_of
from flowfabric.worker.context.awaited import check_awaited, explained
from flowfabric.worker.context.context import Context, calls_of
from flowfabric.worker.context.current import running
from flowfabric.worker.context.execution_log import begin_capture, capturing
from flowfabric.worker.context.flow import GrowingFlow
from flowfabric.worker.context.spending import Purse
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.executors.handler_codec import decoded, encoded
from flowfabric.worker.executors.process_spending import PipePurse, Spend, Spoken
from flowfabric.worker.reporting.outgoing_frames import SENT

T = TypeVar("T")


class Job(msgspec.Struct, array_like=True):
    """A call to make."""

    module: str
    qualname: str
    name: str
    execution_id: str
    attempt_index: int
    lane: str
    namespace: str
    deadline: datetime | None
    payload: bytes
    encoding: str | None
    trace: dict[str, str]  # identifies the parent span
    logs: tuple[int, bool, tuple[str, ...]]  # the level to keep, whether what is printed, and of which loggers


class Ready(msgspec.Struct, tag="ready", array_like=True):
    """The process has started."""


class Progress(msgspec.Struct, tag="progress", array_like=True):
    pct: int | None
    message: str | None


class Emitted(msgspec.Struct, tag="emitted", array_like=True):
    frame: c.Frame


class Logged(msgspec.Struct, tag="logged", array_like=True):
    level: int
    logger: str
    message: str


class Returned(msgspec.Struct, tag="returned", array_like=True):
    payload: bytes


class Raised(msgspec.Struct, tag="raised", array_like=True):
    """The exception of the handler; `kind` is the name of an outcome, or "" for any other exception."""

    kind: str
    reason: str
    names: list[str]  # of the classes of the exception, the nearest first
    category: str
    retryable: bool = True
    after_ms: int | None = None
    until_ms: int | None = None
    detail: c.FailureDetail | None = None


Said: TypeAlias = Progress | Emitted | Logged  # while it runs
Answer: TypeAlias = Ready | Said | Spend | Returned | Raised


class _ParentLink:
    """The context's connection to the worker."""

    def __init__(self, job: Job, pipe: Connection) -> None:
        self.execution_id = ExecutionId(job.execution_id)
        self.attempt_index = job.attempt_index
        self.task = job.name
        self.lane = LaneId(job.lane)
        self.namespace = Namespace(job.namespace)
        self.deadline = job.deadline
        self.state = None
        self.log_level = job.logs[0]
        self._pipe = pipe

    @property
    def stop(self) -> Stop | None:
        return None  # a process cannot be asked to stop; it is killed

    @property
    def is_lease_healthy(self) -> bool:
        return True

    def stopping(self) -> threading.Event:
        return threading.Event()

    def progress(self, pct: int | None, message: str | None) -> None:
        send(self._pipe, Progress(pct, message))

    def keep_log(self, level: int, logger: str, message: str) -> None:
        if level >= self.log_level:
            send(self._pipe, Logged(level, logger, message[: limits.LOG_MESSAGE_MAX_BYTES]))

    def emit(self, frame: c.Frame) -> Awaitable[None]:
        send(self._pipe, Emitted(frame))  # blocks while the pipe is full
        return SENT

    def check(self) -> None:
        """A process whose attempt is over is killed, so there is nothing to check."""

    async def describe(self) -> c.ExecutionSnapshot:
        raise self._no_connection()

    def journal(self) -> Journal:
        raise self._no_connection()

    def purse(self, records: Callable[[], Journal]) -> Purse:
        return PipePurse(self._pipe, lambda spend: send(self._pipe, spend))

    def flow(self, records: Callable[[], Journal]) -> GrowingFlow:
        raise self._no_connection()

    def _no_connection(self) -> InvalidInput:
        return InvalidInput("ctx", self.task, "a CPU handler has no connection; pass the values it needs as arguments")

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)


def serve(pipe: Connection) -> None:
    """Serve calls until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the parent handles it
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    send(pipe, Ready())
    while True:
        try:
            job = msgspec.msgpack.decode(pipe.recv_bytes(), type=Job)
        except EOFError:
            return
        send(pipe, _answer(job, pipe))


def _leave_with_the_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def send(pipe: Connection, message: Answer | Job | Spoken) -> None:
    pipe.send_bytes(to_msgpack(message))


def _answer(job: Job, pipe: Connection) -> Answer:
    context: Context | None = None
    try:
        task = find_task(job.module, job.qualname, job.name)
        args, kwargs = decoded(task, job.payload, job.encoding)
        link = _ParentLink(job, pipe)
        context = made = Context(link)
        running.set(lambda: made)
        if task.takes_context:
            args = (context, *args)
        with tracing.restored(job.trace), _captured(job, link):
            value = task.function(*args, **kwargs)
            check_awaited(calls_of(context))
            return Returned(encoded(task, value))
    except BaseException as error:  # no signal raises here: SIGINT is ignored, and SIGTERM ends the process
        return _raised(explained(calls_of(context), error))


@contextmanager
def _captured(job: Job, link: _ParentLink) -> Iterator[None]:
    _, prints, loggers = job.logs
    if not (prints or loggers):
        yield
        return
    with capturing(prints=prints, loggers=loggers):
        capture = begin_capture(link.keep_log)
        try:
            yield
        finally:
            capture.finish()


def find_task(module: str, qualname: str, name: str) -> Task[..., Any]:
    """The task of this name in a module, or a task made of the function."""
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found if isinstance(found, Task) else Task(found, name=name)


def _raised(error: BaseException) -> Raised:
    names = [kind.__qualname__ for kind in type(error).__mro__]
    raised = Raised(type(error).__name__ if isinstance(error, Outcome) else "", reason_of(error), names, "error")
    raised.detail = detail_of(error)
    match error:
        case Retry():
            raised.after_ms = error.after_ms
        case Snooze():
            raised.after_ms, raised.until_ms = error.for_ms, error.until_ms
        case Fail():
            raised.category, raised.retryable = error.category, error.retryable
        case Cancel():
            pass
        case _:
            raised.category = category_of(error, {})
    return raised

"""The context of a handler: facts about its attempt, and calls it can make while it runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol, TypeVar

from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.worker.attempts.attempt import Attempt, Stop
from flowfabric.worker.context.awaited import Calls, must_await
from flowfabric.worker.context.execution_log import ExecutionLog
from flowfabric.worker.context.flow import GrowingFlow
from flowfabric.worker.context.spending import Purse, SpendingContext
from flowfabric.worker.context.streaming import StreamingContext
from flowfabric.worker.durable.changed_steps import check_end
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.durable.operations import DurableContext

T = TypeVar("T")


class Link(Protocol):
    """The other end of a context: the worker, or the parent process."""

    @property
    def execution_id(self) -> ExecutionId: ...

    @property
    def attempt_index(self) -> int: ...

    @property
    def task(self) -> str: ...

    @property
    def lane(self) -> LaneId: ...

    @property
    def namespace(self) -> Namespace: ...

    @property
    def deadline(self) -> datetime | None: ...

    @property
    def state(self) -> Any: ...

    @property
    def stop(self) -> Stop | None: ...

    @property
    def is_lease_healthy(self) -> bool: ...

    def check(self) -> None: ...

    def stopping(self) -> threading.Event: ...

    def progress(self, pct: int | None, message: str | None) -> None: ...

    @property
    def log_level(self) -> int: ...

    def keep_log(self, level: int, logger: str, message: str) -> None: ...

    def emit(self, frame: c.Frame) -> Awaitable[None]: ...

    async def describe(self) -> c.ExecutionSnapshot: ...

    def journal(self) -> Journal: ...

    def purse(self, records: Callable[[], Journal]) -> Purse: ...

    def flow(self, records: Callable[[], Journal]) -> GrowingFlow: ...

    def wait(self, call: Coroutine[Any, Any, T]) -> T: ...


class Flag:
    """Whether the attempt must stop for certain reasons. Threads can wait for it."""

    __slots__ = ("_link", "_wanted")

    def __init__(self, link: Link, wanted: frozenset[Stop]) -> None:
        self._link = link
        self._wanted = wanted

    def is_set(self) -> bool:
        return self._link.stop in self._wanted

    __bool__ = is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the attempt must stop, at most `timeout` seconds. Returns whether this flag is set."""
        self._link.stopping().wait(timeout)
        return self.is_set()


class Context(StreamingContext, DurableContext, SpendingContext):
    """The first parameter of a handler, if it is annotated with `Context`.

    It is the same in async handlers, threads and processes. Once the attempt is over, `progress`, `emit` and `check`
    raise, so that a thread can stop; an async handler is cancelled.
    """

    __slots__ = ("_calls", "_flow", "_link", "_log", "_opened_purse", "_snapshot")

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self._calls: Calls | None = None  # made at the first async call
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self._snapshot: c.ExecutionSnapshot | None = None
        self._opened_purse: Purse | None = None
        self._flow: GrowingFlow | None = None

    def __repr__(self) -> str:
        return f"Context({self.task!r}, {self.execution_id.short!r}, attempt {self.attempt_index})"

    @property
    def execution_id(self) -> ExecutionId:
        return self._link.execution_id

    @property
    def attempt_index(self) -> int:
        """0 for the first try."""
        return self._link.attempt_index

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._link.task

    @property
    def lane(self) -> LaneId:
        return self._link.lane

    @property
    def namespace(self) -> Namespace:
        """The worker's namespace."""
        return self._link.namespace

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, by the store's clock; None without a timeout."""
        return self._link.deadline

    @property
    def state(self) -> Any:
        """The value of the worker's lifespan; None without a lifespan, and in a process."""
        return self._link.state

    @property
    def cancelled(self) -> Flag:
        """Set when the attempt must stop, for any reason."""
        return Flag(self._link, frozenset(Stop))

    @property
    def lease_lost(self) -> Flag:
        """Set when the lease is lost: another worker may run the execution, and this attempt no longer counts."""
        return Flag(self._link, frozenset({Stop.LEASE_LOST}))

    @property
    def is_lease_healthy(self) -> bool:
        """False once the lease is lost, or could not be renewed three times in a row."""
        return self._link.is_lease_healthy

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines name the execution; its records have execution_id, attempt_index, task and lane.

        The worker keeps them with the execution: `handle.logs()`, `flowfabric logs`.
        """
        if self._log is None:
            facts = {
                "execution_id": self.execution_id.short,
                "attempt_index": self.attempt_index,
                "task": self.task,
                "lane": self.lane,
            }
            self._log = ExecutionLog(facts, self._link.log_level, self._link.keep_log)
        return self._log

    def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Report progress: `pct` from 0 to 100, a message, or both. Sent soon; of several in a row, only the last."""
        self.check()
        self._link.progress(pct, message)

    def check(self) -> None:
        """Raise `Interrupted` if the attempt is over. For threads with long loops."""
        self._link.check()

    @must_await
    async def describe(self) -> c.ExecutionSnapshot:
        """Read the execution from the store."""
        self._snapshot = await self._link.describe()
        return self._snapshot

    @must_await
    async def tags(self) -> dict[str, str]:
        """The execution's tags, read from the store at the first call."""
        return (self._snapshot or await self.describe()).tags

    @property
    def flow(self) -> GrowingFlow:
        """The flow of this execution, to add nodes to: `ctx.flow.add(task, ...)`."""
        if self._flow is None:
            self._flow = self._link.flow(lambda: self._records)
            self._flow.note_calls(self._note)
        return self._flow

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """For handlers in threads: run an async call on the worker's loop, `tags = ctx.wait(ctx.tags())`."""
        try:
            self.check()
        except BaseException:
            call.close()
            raise
        return self._link.wait(call)

    def _open_journal(self) -> Journal:
        return self._link.journal()

    @property
    def _purse(self) -> Purse:
        if self._opened_purse is None:
            self._opened_purse = self._link.purse(lambda: self._records)
        return self._opened_purse


async def check_steps(context: Context, attempt: Attempt) -> None:
    """Raise if the handler completes without steps that earlier passes recorded."""
    await check_end(attempt, context._journal, lambda: context._records)


def calls_of(context: Context | None) -> Calls | None:
    """The async calls that a handler made."""
    return None if context is None else context._calls


async def send_additions(context: Context) -> None:
    """Send the nodes that the handler added to its flow; the worker does it before the attempt's end."""
    if context._flow is not None:
        await context._flow.send()


def purse_of(context: Context) -> Purse:
    """The purse of a context, for a handler that runs in a process of its own."""
    return context._purse

"""Sends log records of attempts: in the background, in few calls, and never at the expense of the handler.

The first record of an attempt starts a short timer, so that records travel together; the end of the handler sends the
rest. Records that come faster than the store takes them are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import secrets
import threading
from collections import deque
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.options import ms
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.log_levels import level_number
from flowfabric.errors import FlowFabricError, Unavailable
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.attempts.outcomes import bounded
from flowfabric.worker.clock import Clock
from flowfabric.worker.log_settings import Logs
from flowfabric.worker.reporting.call_tasks import CallTasks

_logger: Final = logging.getLogger("flowfabric.worker")

_FLUSH_S: Final = 0.2
_MOST_WAITING: Final = 1_000
_MOST_BYTES: Final = 262_144
_PAUSE_S: Final = 0.5  # after a call that failed; the client has already retried for a while
_TRIES: Final = 3
_OFF: Final = limits.MAX_LOG_LEVEL + 1


class AttemptLog:
    """The records of one attempt that the store has not taken yet."""

    __slots__ = (
        "attempt_id", "attempt_index", "dropped", "execution_id", "is_due", "is_sending", "number", "size", "waiting",
        "writer",
    )  # fmt: skip

    def __init__(self, attempt: Attempt) -> None:
        self.execution_id = attempt.execution_id
        self.attempt_index = attempt.attempt_index
        self.attempt_id = attempt.fence.attempt_id
        self.writer = secrets.token_hex(4)
        self.number = 0  # of the next record
        self.waiting: deque[c.LogEntry] = deque()
        self.size = 0  # bytes
        self.dropped = 0
        self.is_due = False  # a timer or a call will send it
        self.is_sending = False


class LogSender:
    """Keeps the log records of a worker's attempts; any thread may log."""

    def __init__(self, backend: EngineBackend, tasks: CallTasks, clock: Clock, logs: Logs | None) -> None:
        self._backend = backend
        self._tasks = tasks
        self._clock = clock
        self._logs = logs
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._open: set[AttemptLog] = set()  # with records that are not taken
        # Without the context variables of a handler: what sending logs is not a record of the attempt.
        self._context = contextvars.copy_context()
        self.level = _OFF if logs is None else level_number("logs.level", logs.level)
        self._closed = False
        self.captures = logs is not None and bool(logs.print or logs.loggers)

    @property
    def in_process(self) -> tuple[int, bool, tuple[str, ...]]:
        """What a child process needs to know: the level, whether to keep what is printed, and which loggers."""
        logs = self._logs
        return (self.level, False, ()) if logs is None else (self.level, logs.print, tuple(logs.loggers))

    @property
    def is_quiet(self) -> bool:
        """Whether every record was sent or dropped."""
        return not self._open

    def keep(self, attempt: Attempt, level: int, logger: str, message: str) -> None:
        """Keep a record. Returns at once, and never raises."""
        if level < self.level or self._closed:
            return
        entry = c.LogEntry(
            at_ms=max(0, self._clock.now_ms()),
            level=min(max(level, 0), limits.MAX_LOG_LEVEL),
            message=bounded(message, limits.LOG_MESSAGE_MAX_BYTES),
            logger=bounded(logger, limits.NAME_MAX_BYTES),
        )
        with self._lock:
            log = attempt.log
            if log is None:
                log = attempt.log = AttemptLog(attempt)
            if len(log.waiting) >= _MOST_WAITING or log.size >= _MOST_BYTES:
                log.dropped += 1
                return
            log.waiting.append(entry)
            log.size += len(entry.message)
            self._open.add(log)
            is_due, log.is_due = log.is_due, True
        if not is_due:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._send_later, log, context=self._context)

    def flush(self, attempt: Attempt) -> None:
        """Send what is left of an attempt whose handler has ended."""
        if attempt.log is not None and attempt.log.waiting:
            self._loop.call_soon(self._send_now, attempt.log, context=self._context)

    def close(self) -> None:
        """Send nothing more: the worker has ended."""
        self._closed = True

    def _send_later(self, log: AttemptLog) -> None:
        self._loop.call_later(_FLUSH_S, self._send_now, log)

    def _send_now(self, log: AttemptLog) -> None:
        if log in self._open and not log.is_sending and not self._closed:
            log.is_sending = True
            self._tasks.start(self._send(log))

    async def _send(self, log: AttemptLog) -> None:
        try:
            while entries := self._taken(log):
                await self._append(log, entries)
                log.number += len(entries)
        finally:
            log.is_sending = False

    def _taken(self, log: AttemptLog) -> tuple[c.LogEntry, ...]:
        """The next records; when there are none, the next record starts a timer again."""
        with self._lock:
            most = min(len(log.waiting), limits.BATCH_MAX_ITEMS - 1)
            entries = [log.waiting.popleft() for _ in range(most)]
            log.size -= sum(len(each.message) for each in entries)
            if log.dropped and not log.waiting:
                entries.append(self._told(log.dropped))
                log.dropped = 0
            if not entries:
                log.is_due = False
                self._open.discard(log)
        return tuple(entries)

    def _told(self, dropped: int) -> c.LogEntry:
        text = f"{dropped} log records were dropped, because they came faster than the store takes them"
        return c.LogEntry(at_ms=max(0, self._clock.now_ms()), level=logging.WARNING, message=text, logger="flowfabric")

    async def _append(self, log: AttemptLog, entries: tuple[c.LogEntry, ...]) -> None:
        assert self._logs is not None
        args = c.AppendLogsArgs(
            execution_id=log.execution_id,
            attempt_index=log.attempt_index,
            attempt_id=log.attempt_id,
            writer=log.writer,
            first_number=log.number,
            entries=entries,
            max_records=self._logs.records,
            max_bytes=self._logs.bytes,
            max_age_ms=ms("logs.age", self._logs.age),
        )
        for left in reversed(range(_TRIES)):
            try:
                await self._backend.append_logs(args)
            except Unavailable as error:
                if left:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                _logger.warning("dropped %d log records of %s: %s", len(entries), args.execution_id.short, error)
            except FlowFabricError as error:  # the execution is gone, or the token may not append
                _logger.info("log records of %s were refused: %s", args.execution_id.short, error)
            return

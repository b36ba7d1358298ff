"""Detects a handler that blocks the event loop, and logs its stack."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from types import CodeType, FrameType
from typing import Final

from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.executors.dispatch import Handler

_logger: Final = logging.getLogger("flowfabric.worker")

_RUN: Final[CodeType] = Handler.run.__code__


class BlockedLoopDetector:
    """A thread that pings the worker's event loop while attempts run.

    If the loop does not answer within the threshold, the stack of its thread shows which handler blocks it.
    """

    def __init__(self, threshold_ms: int, held: set[Attempt]) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._threshold_s = threshold_ms / 1000
        self._held = held
        self._enough = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="flowfabric-detector", daemon=True)
        self._warned: set[str] = set()  # tasks

    def start(self) -> None:
        self._watcher.start()

    def stop(self) -> None:
        self._enough.set()

    def _watch(self) -> None:
        while not self._enough.wait(self._threshold_s):
            if self._held:
                self._ask()

    def _ask(self) -> None:
        answered, asked_at = threading.Event(), time.monotonic()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return  # the loop is closed
        while not answered.wait(self._threshold_s) and not self._enough.is_set():
            self._look(time.monotonic() - asked_at)

    def _look(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._thread_id)
        attempt = _attempt_in(frame)
        if frame is None or attempt is None or attempt.handler.name in self._warned:
            return
        self._warned.add(attempt.handler.name)
        _logger.warning(
            "task %r has blocked the event loop for %.1f s and all other handlers with it; make it a plain function "
            "to run it in a thread, or use cpu=True to run it in a process. Stack:\n%s",
            attempt.handler.name,
            seconds,
            "".join(traceback.format_stack(frame, limit=10)),
        )


def _attempt_in(frame: FrameType | None) -> Attempt | None:
    """The attempt whose handler is on this stack."""
    while frame is not None:
        if frame.f_code is _RUN:
            found = frame.f_locals.get("attempt")
            return found if isinstance(found, Attempt) else None
        frame = frame.f_back
    return None

"""Retry commands where that is safe, within a time budget.

A command is retried only if it was not sent, if the server said that it did not execute it, or if the caller
declared it repeatable. The budget starts with the first failure and covers all retries.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from flowfabric.backends.valkey.wire.connection import AccessRefused, ServerReplyError
from flowfabric.errors import BackendTimeout, BackendUnavailable

T = TypeVar("T")

REDIRECTIONS: Final = frozenset({"MOVED", "ASK"})
# Refused before execution, for a transient reason.
NOT_EXECUTED: Final = REDIRECTIONS | frozenset(
    {"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS"}
)
# Refused before execution, for a permanent reason.
NOT_ALLOWED: Final = frozenset({"NOPERM", "NOAUTH"})

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0


class SingleFlight(Generic[T]):
    """One running attempt whose outcome all callers share; cancelling one caller does not cancel it."""

    def __init__(self, action: Callable[[], Awaitable[T]]) -> None:
        self._action = action
        self._task: asyncio.Task[T] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    async def run(self) -> T:
        if self._task is None:
            self._task = asyncio.create_task(self._perform())
        task = self._task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and not (
                caller and caller.cancelling()
            ):  # by cancel(), not because the caller was cancelled
                raise BackendUnavailable("the client is closed", sent=False) from None
            raise

    async def _perform(self) -> T:
        try:
            return await self._action()
        finally:
            self._task = None

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class Retry:
    """The retries of one command: decides whether to retry, and waits before it."""

    def __init__(self, peer: str, budget_ms: int, *, repeatable: bool) -> None:
        self._peer = peer
        self._repeatable = repeatable
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self._deadline = self._started + budget_ms / 1000
        self._pause = _FIRST_PAUSE_S
        self._tries = 0
        self._hops = 0
        self._sent = False

    def hop(self) -> int:
        """Count a redirection; return how many came in a row."""
        self._hops += 1
        return self._hops

    async def after(self, error: Exception) -> None:
        """Wait before the next retry; raise if there must be none."""
        self._note(error)
        left = self._deadline - self._clock()
        if left <= 0:
            raise self._exhausted(error) from error
        # Jitter, so that the clients of a restarted server do not all reconnect together.
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)
        await asyncio.sleep(min(pause, left))

    def _note(self, error: Exception) -> None:
        self._tries += 1
        self._hops = 0
        if isinstance(error, ServerReplyError):
            if error.prefix in NOT_ALLOWED:
                raise AccessRefused(f"{self._peer}: {error.text}", sent=False) from error
            safe = error.prefix in NOT_EXECUTED
        elif isinstance(error, BackendUnavailable):
            sent = bool(error.details.get("sent"))
            self._sent = self._sent or sent
            safe = not isinstance(error, AccessRefused) and (self._repeatable or not sent)
        else:
            safe = False
        if not safe:
            raise error

    def _exhausted(self, last: Exception) -> BackendUnavailable:
        kind = BackendTimeout if isinstance(last, BackendTimeout) else BackendUnavailable
        reason = last.message if isinstance(last, BackendUnavailable) else str(last)
        elapsed = self._clock() - self._started
        tries = f"{self._tries} {'try' if self._tries == 1 else 'tries'}"
        return kind(f"{self._peer}: gave up after {tries} in {elapsed:.1f} s; last: {reason}", sent=self._sent)

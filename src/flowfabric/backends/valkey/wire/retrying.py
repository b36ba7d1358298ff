"""Trying again, where that is safe and for as long as the budget lasts.

A command is repeated only when it has not left yet, when the server said that it did not execute it, or when
the caller declared it repeatable. The budget counts from the first failure and bounds all tries together.
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
# The server refused before it ran anything, for a reason that passes.
NOT_EXECUTED: Final = REDIRECTIONS | frozenset(
    {"LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS"}
)
# The server refused before it ran anything, and its answer will not change.
NOT_ALLOWED: Final = frozenset({"NOPERM", "NOAUTH"})

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0


class SingleFlight(Generic[T]):
    """One running attempt whose outcome all callers share; a caller that is cancelled does not end it."""

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
            if task.cancelled() and not (caller and caller.cancelling()):  # by cancel(), not with our caller
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
    """The tries of one command: decides whether there is another one, and waits before it."""

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
        """Count a redirection; the answer is how many there were in a row."""
        self._hops += 1
        return self._hops

    async def after(self, error: Exception) -> None:
        """Wait for the next try; raise when there must be none."""
        self._note(error)
        left = self._deadline - self._clock()
        if left <= 0:
            raise self._exhausted(error) from error
        # Spread out, so that the clients of a server that comes back do not all arrive at once.
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

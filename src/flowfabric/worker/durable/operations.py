"""What a handler does once, however often it is run again, and how it waits: the durable part of its context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from types import UnionType
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, overload

from flowfabric.client.tasks.options import Duration
from flowfabric.client.tasks.task import TaskContext
from flowfabric.core.conditions import ResumeCondition
from flowfabric.worker.durable import signal_waits, steps, values
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.durable.signal_waits import WaitOptions
from flowfabric.worker.durable.signals import Signal, Waitpoint

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DAY_S: Final = 86_400


class DurableContext(TaskContext, ABC):
    """A wait ends the pass: the execution is suspended, no worker is held, and the handler is run again from its top.

    What it has done by then it finds again by name: the n-th step, or wait, of a name in one pass is the n-th of it in
    every pass. In threads these calls are made with `ctx.wait(...)`.
    """

    __slots__ = ("_journal",)

    def __init__(self) -> None:
        self._journal: Journal | None = None  # made at the first use: most handlers have none

    @overload
    def step(
        self, name: str, fn: Callable[[*Ts], object], *args: *Ts, returns: type[T], was: str | None = None
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, fn: Callable[[*Ts], Awaitable[T]], *args: *Ts, was: str | None = None
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(self, name: str, fn: Callable[[*Ts], T], *args: *Ts, was: str | None = None) -> Coroutine[Any, Any, T]: ...
    def step(  # type: ignore[misc]  # to the type checker nothing accepts *Ts but *Ts
        self, name: str, fn: Any, *args: Any, returns: Any = None, was: str | None = None
    ) -> Any:
        """Call `fn`, in a thread unless it is async, and record what it returns; later passes get the record.

        `returns` is the type of the result where `fn` does not say it, `was` the name under which earlier versions
        recorded the step. What `fn` raises is recorded, too, when the handler goes on from it; see StepFailed.
        """
        return steps.begin(self._records, name, fn, args, returns, was)

    async def now(self) -> datetime:
        """The store's time, as well as the worker knows it; the same on every pass."""
        return await values.now(self._records)

    async def random(self) -> float:
        """A number from 0 to 1, without 1; the same on every pass."""
        return await values.chance(self._records)

    async def sleep(self, duration: Duration) -> None:
        """Wait so long; an operator can end it."""
        await signal_waits.sleep(self._records, duration)

    async def waitpoint(self, key: str | None = None, *, expires_in: Duration = _DAY_S) -> Waitpoint:
        """A place for signals, ahead of the wait for them: its link can be given away, and what comes early is kept.

        It is good for one wait, which must begin within `expires_in`; another one of the same key can be made after it.
        """
        return await values.waitpoint(self._records, key, expires_in)

    @overload
    async def wait_for_signal(
        self, name: str, *, at: Waitpoint | None = None, **options: Unpack[WaitOptions]
    ) -> Signal[Any]: ...
    @overload
    async def wait_for_signal(
        self, name: str, *, type: type[T], at: Waitpoint | None = None, **options: Unpack[WaitOptions]
    ) -> Signal[T]: ...
    @overload
    async def wait_for_signal(
        self, name: str, *, type: UnionType, at: Waitpoint | None = None, **options: Unpack[WaitOptions]
    ) -> Signal[Any]: ...
    async def wait_for_signal(
        self,
        name: str,
        *,
        type: Any = Any,  # noqa: A002
        at: Waitpoint | None = None,
        **options: Unpack[WaitOptions],
    ) -> Signal[Any]:
        """A signal of this name, its payload as `type`; at a waitpoint of its own, or at one that was made before.

        Options: `timeout`, `on_timeout` and `reason`. A time-out raises SignalTimeout unless `on_timeout` has something
        else happen to the execution. ResumedWithoutSignal: an operator ended the wait.
        """
        return await signal_waits.wait_for_signal(self._records, name, type, at, options)

    @overload
    async def wait_for(self, condition: ResumeCondition, **options: Unpack[WaitOptions]) -> tuple[Signal[Any], ...]: ...
    @overload
    async def wait_for(
        self, condition: ResumeCondition, *, type: type[T], **options: Unpack[WaitOptions]
    ) -> tuple[Signal[T], ...]: ...
    @overload
    async def wait_for(
        self, condition: ResumeCondition, *, type: UnionType, **options: Unpack[WaitOptions]
    ) -> tuple[Signal[Any], ...]: ...
    async def wait_for(
        self,
        condition: ResumeCondition,
        *,
        type: Any = Any,  # noqa: A002
        **options: Unpack[WaitOptions],
    ) -> tuple[Signal[Any], ...]:
        """The signals that meet the condition, as they came; none when an operator ended the wait.

        Waitpoints that `waitpoint` made are found by their keys; for other keys of the condition there are new ones.
        """
        return await signal_waits.wait_for(self._records, condition, type, options)

    @abstractmethod
    def _open_journal(self) -> Journal: ...

    @property
    def _records(self) -> Journal:
        if self._journal is None:
            self._journal = self._open_journal()
        return self._journal

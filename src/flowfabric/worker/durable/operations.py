"""Steps and waits: the durable part of the context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from types import UnionType
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from flowfabric.client.tasks.options import Duration
from flowfabric.client.tasks.task import Task, TaskContext
from flowfabric.core.conditions import ResumeCondition
from flowfabric.worker.context.awaited import AwaitedCalls, must_await
from flowfabric.worker.durable import children, signal_waits, steps, values
from flowfabric.worker.durable.children import ChildHandle
from flowfabric.worker.durable.code_names import caller_key
from flowfabric.worker.durable.journal import Journal
from flowfabric.worker.durable.signal_waits import WaitOptions
from flowfabric.worker.durable.signals import Signal, Waitpoint

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DAY_S: Final = 86_400


class DurableContext(AwaitedCalls, TaskContext, ABC):
    """A wait ends the pass: the execution is suspended, holds no worker, and the handler is run again from its top.

    Steps and waits are found again by name: the n-th step or wait of a name in one pass is the n-th of that name in
    every pass. In threads, make these calls with `ctx.wait(...)`.
    """

    __slots__ = ("_journal",)

    def __init__(self) -> None:
        self._journal: Journal | None = None  # made at the first use: most handlers need none

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
    @must_await  # type: ignore[misc]  # to the type checker nothing accepts *Ts but *Ts
    def step(self, name: str, fn: Any, *args: Any, returns: Any = None, was: str | None = None) -> Any:
        """Call `fn`, in a thread unless it is async, and record its result; later passes get the record.

        `returns` is the type of the result if `fn` has no annotation, `was` the name under which earlier versions
        recorded the step. An exception of `fn` is recorded too if the handler recovers from it; see StepFailed.
        """
        return steps.begin(self._records, name, fn, args, returns, was, caller_key())

    @overload
    def submit(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, ChildHandle[R]]: ...
    @overload
    def submit(self, task: str, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, ChildHandle[Any]]: ...
    @must_await
    def submit(self, task: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit another execution, with the arguments and options of `fabric.submit`; it is recorded like a step.

        However often the handler is run again, it is submitted once. Waiting for its handle suspends this execution:
        `result = await (await ctx.submit(task, 1))`. It runs on when this execution fails or is cancelled.
        """
        return children.begin(self._records, task, args, kwargs)

    @must_await
    async def now(self) -> datetime:
        """The store's time, as the worker estimates it; the same on every pass."""
        return await values.now(self._records)

    @must_await
    async def random(self) -> float:
        """A random number in [0, 1); the same on every pass."""
        return await values.chance(self._records)

    @must_await
    async def sleep(self, duration: Duration) -> None:
        """Suspend for `duration`; an operator can end it early."""
        await signal_waits.sleep(self._records, duration)

    @must_await
    async def waitpoint(self, key: str | None = None, *, expires_in: Duration = _DAY_S) -> Waitpoint:
        """Make a waitpoint before the wait: share its link; signals that come before the wait are kept.

        It is good for one wait, which must begin within `expires_in`. After that wait the key can be used again.
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
    @must_await
    async def wait_for_signal(
        self,
        name: str,
        *,
        type: Any = Any,  # noqa: A002
        at: Waitpoint | None = None,
        **options: Unpack[WaitOptions],
    ) -> Signal[Any]:
        """Wait for a signal of this name, its payload as `type`, on a new waitpoint or on `at`.

        A payload that does not fit is refused where it is sent, or rejected here; the wait continues then.

        Options: `timeout`, `on_timeout`, `reason` and `question`. A timeout raises SignalTimeout, unless `on_timeout`
        chooses something else. Raises ResumedWithoutSignal if an operator ended the wait.
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
    @must_await
    async def wait_for(
        self,
        condition: ResumeCondition,
        *,
        type: Any = Any,  # noqa: A002
        **options: Unpack[WaitOptions],
    ) -> tuple[Signal[Any], ...]:
        """Wait for signals that meet the condition; returned in order, empty if an operator ended the wait.

        Waitpoints from `waitpoint` are found by their keys; other keys of the condition get new waitpoints.
        """
        return await signal_waits.wait_for(self._records, condition, type, options)

    @abstractmethod
    def _open_journal(self) -> Journal: ...

    @property
    def _records(self) -> Journal:
        if self._journal is None:
            self._journal = self._open_journal()
        return self._journal

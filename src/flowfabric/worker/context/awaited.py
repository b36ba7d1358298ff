"""Finds async calls of a context that the handler forgot to await: they did nothing, or `emit` did not wait for room.

Python only warns about them, in a log, after the attempt has completed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from inspect import CO_COROUTINE
from types import CodeType, CoroutineType, FrameType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from flowfabric.worker.attempts.outcomes import NOT_AWAITED, Fail, reason_of

F = TypeVar("F", bound=Callable[..., Any])

_ENOUGH: Final = 64
_DONE: Final = cast("Generator[Any, Any, None]", iter(()))  # exhausted, so all may share it


class _Place(NamedTuple):
    """The instruction that made a call."""

    name: str
    code: CodeType
    at: int

    def problem(self, more: int) -> str:
        line = next((each[0] for i, each in enumerate(self.code.co_positions()) if 2 * i == self.at), None)
        call = f"ctx.{self.name}(...)"
        remedy = f"await {call}" if self.code.co_flags & CO_COROUTINE else f"ctx.wait({call})"
        effect = "did not wait for room" if self.name == "emit" else "did nothing"
        others = f" (and {more} more)" if more else ""
        return f"{self.code.co_filename}:{line}: {call} was not awaited, so it {effect}; write `{remedy}`{others}"


class _Made(NamedTuple):
    """A call, and where it was made."""

    call: CoroutineType[Any, Any, Any]
    place: _Place

    @property
    def has_started(self) -> bool:
        return self.call.cr_frame is None or self.call.cr_suspended or self.call.cr_running


class Emits:
    """The emits of one context.

    A handler may emit thousands of frames, so what `emit` returns is used again once it was awaited. What is dropped
    without an await knows the line that drops it.
    """

    __slots__ = ("_dropped", "count", "spare")

    def __init__(self) -> None:
        self.spare: _Emitted | None = None
        self.count = 0  # not awaited
        self._dropped: _Place | None = None

    def made(self) -> _Emitted:
        """Something to await: nothing is left to wait for."""
        emitted = self.spare
        if emitted is None:
            emitted = _Emitted(self)
        self.spare = None
        emitted.is_due = True
        return emitted

    def dropped(self, frame: FrameType) -> None:
        self.count += 1
        self._dropped = self._dropped or _Place("emit", frame.f_code, frame.f_lasti)

    @property
    def place(self) -> _Place:
        assert self._dropped is not None, "one was dropped"
        return self._dropped


class _Emitted:
    __slots__ = ("_emits", "is_due")

    def __init__(self, emits: Emits) -> None:
        self._emits = emits
        self.is_due = False

    def __await__(self) -> Generator[Any, Any, None]:
        self.is_due = False
        self._emits.spare = self
        return _DONE

    def __del__(self) -> None:
        if self.is_due:
            self._emits.dropped(sys._getframe(1))


class Calls:
    """The async calls of one context, until they have started."""

    __slots__ = ("_made", "_prune_at", "emits")

    def __init__(self) -> None:
        self._made: list[_Made] = []
        self._prune_at = _ENOUGH
        self.emits = Emits()

    def note(self, call: Any, name: str, frame: FrameType) -> None:
        if len(self._made) >= self._prune_at:
            self._made = self._unstarted()
            self._prune_at = 2 * len(self._made) + _ENOUGH
        self._made.append(_Made(call, _Place(name, frame.f_code, frame.f_lasti)))

    def forgotten(self) -> str:
        """Which calls never started; "" if all did."""
        self.emits.spare = None  # it refers to them
        made, emitted = self._unstarted(), self.emits.count
        if not made and not emitted:
            return ""
        place = made[0].place if made else self.emits.place
        return place.problem(len(made) + emitted - 1)

    def close(self) -> None:
        """Close the calls that never started, about which Python would warn, too."""
        for each in self._unstarted():
            each.call.close()

    def _unstarted(self) -> list[_Made]:
        return [each for each in self._made if not each.has_started]


Note: TypeAlias = Callable[[Coroutine[Any, Any, Any], str, FrameType], None]


class Notes(Protocol):
    """What has methods that must be awaited."""

    def _note(self, call: Coroutine[Any, Any, Any], name: str, frame: FrameType) -> None: ...


class AwaitedCalls:
    """The part of a context that knows its calls."""

    __slots__ = ()

    _calls: Calls | None

    def _note(self, call: Coroutine[Any, Any, Any], name: str, frame: FrameType) -> None:
        self._noted().note(call, name, frame)

    def _noted(self) -> Calls:
        if self._calls is None:
            self._calls = Calls()  # type: ignore[misc]  # the slot is in Context
        return self._calls


def must_await(method: F) -> F:
    """For a method of a context that returns a coroutine: it must be awaited."""
    name = method.__name__

    @wraps(method)
    def call(self: Notes, *args: Any, **kwargs: Any) -> Any:
        coroutine = method(self, *args, **kwargs)
        self._note(coroutine, name, sys._getframe(1))
        return coroutine

    return call  # type: ignore[return-value]


def check_awaited(calls: Calls | None) -> None:
    """At the return of a handler: fail if a call never started."""
    if calls is not None and (problem := calls.forgotten()):
        calls.close()
        raise Fail(problem, category=NOT_AWAITED, retryable=False)


def explained(calls: Calls | None, error: BaseException) -> BaseException:
    """What to report for an error of a handler: the forgotten await, if the error is about a coroutine."""
    if calls is None or not isinstance(error, Exception) or not (problem := calls.forgotten()):
        return error
    if isinstance(error, TypeError | AttributeError) and "coroutine" in (reason := reason_of(error)):
        calls.close()
        failure = Fail(f"{problem} ({reason})", category=NOT_AWAITED, retryable=False)
        failure.__cause__ = error
        return failure
    error.add_note(problem)
    return error

"""Exceptions that end a program elsewhere, and here only the attempt of the handler that raised them.

`sys.exit()` in a handler ends its attempt, not the worker and the attempts beside it. The same exceptions from outside,
of a signal handler or of a closed event loop, still end the worker.
"""

from __future__ import annotations

import asyncio
import dis
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from traceback import walk_tb
from types import CodeType, TracebackType
from typing import Any, Final
from weakref import WeakKeyDictionary

from flowfabric.worker.attempts.outcomes import TaskExited
from flowfabric.worker.context.current import running

_RAISE: Final = dis.opmap["RAISE_VARARGS"]


def ends_the_worker(error: BaseException, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an exception out of a handler on this loop is not the handler's own."""
    if isinstance(error, Exception):
        return False
    if isinstance(error, GeneratorExit):
        return _running_loop() is not loop  # its coroutine is closed because its loop is gone
    return isinstance(error, KeyboardInterrupt | SystemExit) and _came_from_a_signal(error)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _came_from_a_signal(error: BaseException) -> bool:
    """Python runs signal handlers in the main thread, between any two instructions of any function."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = {_code_of(signal.getsignal(each)) for each in signal.valid_signals()} - {None}
    if any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__)):
        return True
    # Python's own handler of Ctrl-C leaves no frame, but no `raise` statement either.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return is_default and isinstance(error, KeyboardInterrupt) and not _was_raised_by_code(error.__traceback__)


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)


def _was_raised_by_code(trace: TracebackType | None) -> bool:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


# How many workers run on a loop, and the task factory that the loop had before.
_guarded: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[int, Any]] = WeakKeyDictionary()


def guard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on no task that a handler starts stops the loop."""
    count, before = _guarded.get(loop, (0, None))
    if count == 0:
        before = loop.get_task_factory()
        loop.set_task_factory(_make_task)
    _guarded[loop] = (count + 1, before)


def unguard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """A worker has ended; the last one gives the loop back its own task factory."""
    count, before = _guarded.pop(loop, (1, None))
    if count > 1:
        _guarded[loop] = (count - 1, before)
    elif loop.get_task_factory() is _make_task:
        loop.set_task_factory(before)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
    if running.get() is not None and asyncio.iscoroutine(coroutine):
        coroutine = _Contained(coroutine)
    _, before = _guarded.get(loop, (0, None))
    return (before or _plain_task)(loop, coroutine, **options)


def _plain_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(coroutine, loop=loop, **options)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine whose exits do not leave it. An async function around it would not close it if cancelled first."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # names and frames, for tools that show tasks

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        return _contained(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return _contained(self._inner.throw, *error)

    def close(self) -> None:
        self._inner.close()


def _contained(step: Callable[..., Any], *args: Any) -> Any:
    try:
        return step(*args)
    except (KeyboardInterrupt, SystemExit) as error:
        if _came_from_a_signal(error):
            raise
        raise TaskExited(error) from error

"""Which functions can be tasks. A task returns one result, so generators are refused where the task is made.

Async functions, plain functions, callable objects and `functools.partial` of them are fine. A plain function may return
an awaitable, which the worker awaits. A lambda is refused: one that calls an async function would run in a thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from flowfabric.errors import InvalidInput

_EMIT: Final = "report each value with `await ctx.emit(value)` and return the result"


def check_function(function: Any, name: str | None) -> None:
    """Refuse what cannot be the function of a task, with the remedy."""
    if inspect.iscoroutine(function):
        function.close()
        raise InvalidInput(
            "task", name or function.__qualname__, "is a coroutine; pass the function without calling it"
        )
    if not callable(function):
        raise InvalidInput("task", function, "must be a function")
    shown = name or getattr(function, "__qualname__", function)
    inner = _unwrapped(function)
    if inspect.isasyncgenfunction(inner):
        raise InvalidInput("task", shown, f"is an async generator, and a task has one result; {_EMIT}")
    if inspect.isgeneratorfunction(inner):
        raise InvalidInput("task", shown, f"is a generator, and a task has one result; return a list, or {_EMIT}")
    if getattr(inner, "__name__", "") == "<lambda>":
        problem = "is a lambda, which may hide an async function; write `def` or `async def`, which has types as well"
        raise InvalidInput("task", shown, problem)


def _unwrapped(function: Callable[..., Any]) -> Any:
    """The function that runs: of a partial and of a callable object."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__

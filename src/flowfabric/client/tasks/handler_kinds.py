"""Which functions can be tasks. A task returns one result, so generators are refused where the task is made.

Async functions, plain functions, callable objects and `functools.partial` of them are fine. A plain function may return
an awaitable, which the worker awaits; a lambda that only calls an async function is refused, because it hides from the
worker that the function belongs on the event loop.
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, Final

from flowfabric.errors import InvalidInput

_EMIT: Final = "report each value with `await ctx.emit(value)` and return the result"

# Instructions without an effect on which function a lambda calls.
_SILENT: Final = frozenset({"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"})


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
    called = _called_by_lambda(inner)
    if called is not None and inspect.iscoroutinefunction(inspect.unwrap(called)):
        what = getattr(called, "__qualname__", called)
        problem = (
            f"is a lambda that returns the coroutine of {what}; pass {what} itself, a partial of it, or an async def"
        )
        raise InvalidInput("task", shown, problem)


def _unwrapped(function: Callable[..., Any]) -> Any:
    """The function that runs: of a partial and of a callable object."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def _called_by_lambda(function: Any) -> Any:
    """The function whose result a lambda returns, as far as it can be known before the lambda is called."""
    if not (isinstance(function, FunctionType) and function.__name__ == "<lambda>"):
        return None
    code = [each for each in dis.get_instructions(function) if each.opname not in _SILENT]
    if len(code) < 3 or code[-1].opname != "RETURN_VALUE" or not code[-2].opname.startswith("CALL"):
        return None
    if any("JUMP" in each.opname for each in code):
        return None
    return _first_loaded(function, iter(code))  # Python evaluates what it calls before the arguments


def _first_loaded(function: FunctionType, code: Iterator[dis.Instruction]) -> Any:
    first = next(code)
    found = _names_of(function).get(first.argval) if first.opname in ("LOAD_GLOBAL", "LOAD_DEREF") else None
    for each in code:
        if found is None or each.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            break
        found = inspect.getattr_static(found, each.argval, None)
    return found


def _names_of(function: FunctionType) -> dict[str, Any]:
    held = inspect.getclosurevars(function)
    return {**vars(builtins), **function.__globals__, **held.nonlocals}

"""The names of steps in the code of a handler: is a recorded name still there, or has it gone?

This looks at compiled code, because the source may have changed since it was loaded. A name can be written in the call,
`ctx.step("charge", ...)`, or be made there, `ctx.step(f"page {n}", ...)`; then its pieces are in the code.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from inspect import unwrap
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from flowfabric.client.tasks.task import Task

_STEP: Final = "step"
_GETS: Final = ("LOAD_METHOD", "LOAD_ATTR")
_SKIPPED: Final = ("CACHE", "NOP", "PUSH_NULL")
_MOST: Final = 2_000  # functions that are looked at
_KEY_LENGTH: Final = 16
_PIECE_MIN: Final = 2  # shorter text is no evidence
_NOT_USERS: Final = frozenset({"flowfabric", *sys.stdlib_module_names})


class CodeNames(NamedTuple):
    """What the code says about the names of its steps."""

    callers: frozenset[str]  # keys of the functions that were looked at
    written: frozenset[str]  # names in calls of step
    texts: frozenset[str]  # all other text
    is_made: bool  # some names are made of pieces, or come from elsewhere

    def has_gone(self, name: str, asked: Iterable[str]) -> bool:
        """Whether no code asks for this name any more. asked: names that are in use, so that they are no pieces."""
        if name in self.written:
            return False
        return not self.is_made or not any(_may_make(text, name) for text in (self.texts | self.written) - {*asked})


_NOTHING: Final = CodeNames(frozenset(), frozenset(), frozenset(), is_made=False)


def _may_make(text: str, name: str) -> bool:
    return text == name or (len(text) >= _PIECE_MIN and (name.startswith(text) or name.endswith(text)))


def names_in(function: Any) -> CodeNames:
    """The names in a function and in all that it can call by a name that is known before it runs."""
    found = _plain(function)
    return _NOTHING if found is None else _names_in(found)


def caller_key() -> str:
    """Identifies the user's function that is calling, in every version of the code that has it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return "" if frame is None else _key(frame.f_globals.get("__name__", ""), frame.f_code.co_qualname)


@lru_cache(maxsize=4096)
def _key(module: str, qualname: str) -> str:
    return hashlib.sha256(f"{module}:{qualname}".encode()).hexdigest()[:_KEY_LENGTH]


@lru_cache(maxsize=256)
def _names_in(function: FunctionType) -> CodeNames:
    callers: set[str] = set()
    written: set[str] = set()
    texts: set[str] = set()
    is_made = False
    for module, code in _codes(function, texts):
        callers.add(_key(module, code.co_qualname))
        is_made = _look(code, written, texts) or is_made
    return CodeNames(frozenset(callers), frozenset(written), frozenset(texts), is_made)


def _look(code: CodeType, written: set[str], texts: set[str]) -> bool:
    """Collect the text of one function. Returns whether it makes a name of a step.

    The first argument is loaded right after the method.
    """
    is_made, is_next = False, False
    for each in dis.get_instructions(code):
        if is_next and each.opname not in _SKIPPED:
            is_next = False
            if each.opname == "LOAD_CONST" and isinstance(each.argval, str):
                written.add(each.argval)
            else:
                is_made = True
        is_next = is_next or (each.opname in _GETS and each.argval == _STEP)
        is_made = is_made or each.opname == "BUILD_STRING"
    texts.update(_text_in(code.co_consts))
    return is_made


def _text_in(values: Iterable[object]) -> Iterator[str]:
    for each in values:
        if isinstance(each, str):
            yield each
        elif isinstance(each, tuple | frozenset | list | set | dict):
            yield from _text_in(each)


def _codes(function: FunctionType, texts: set[str]) -> Iterator[tuple[str, CodeType]]:
    """The code of the function and of those that it names, each once, with its module."""
    seen: set[CodeType] = set()
    left: list[Any] = [function]
    while left and len(seen) < _MOST:
        found = _plain(left.pop())
        if found is None or found.__code__ in seen:
            continue
        seen.add(found.__code__)
        for code in _nested(found.__code__):
            yield found.__globals__.get("__name__", ""), code
            left += _named(found, code, texts)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)


def _plain(value: Any) -> FunctionType | None:
    """The user's function behind a task, a method or a partial; None for anything else."""
    while isinstance(value, partial | Task | MethodType):
        if isinstance(value, partial):
            value = value.func
        else:
            value = value.function if isinstance(value, Task) else value.__func__
    value = unwrap(value) if isinstance(value, FunctionType) else value
    return value if isinstance(value, FunctionType) and _is_users(value.__module__) else None


def _is_users(module: str | None) -> bool:
    return (module or "").partition(".")[0] not in _NOT_USERS


def _named(function: FunctionType, code: CodeType, texts: set[str]) -> Iterator[Any]:
    """Functions that the code can reach by its global names and its closure; text found there is collected."""
    held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    known = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    for value in (*held, *known):
        texts.update(_text_in([value]))
        if isinstance(value, ModuleType):
            yield from (found for name in code.co_names if (found := getattr(value, name, None)) is not None)
        elif isinstance(value, FunctionType | MethodType | partial | Task):
            yield value
        else:
            kind = value if isinstance(value, type) else type(value)
            if _is_users(kind.__module__):
                yield from vars(kind).values()


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

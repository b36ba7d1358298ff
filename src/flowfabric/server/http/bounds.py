"""Bounds of one request: levels of JSON, items of a list, members of a query or a form.

Each limit is checked before decoding, so that refusing an oversized request is cheap.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Any, Final, TypeVar, overload
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from flowfabric.core import limits
from flowfabric.core.codec import from_json
from flowfabric.errors import InvalidInput

T = TypeVar("T")

_LISTS: Final = (inspect.VarTupleType, inspect.ListType)
_BRACKETS: Final = b"[{]}"
_OTHERS: Final = bytes(each for each in range(256) if each not in _BRACKETS)
_STEPS: Final = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")  # one level down, or up, as signed bytes


@overload
def read_json(kind: type[T], data: bytes | str, *, root: str = ...) -> T: ...
@overload
def read_json(kind: object, data: bytes | str, *, root: str = ...) -> Any: ...
def read_json(kind: object, data: bytes | str, *, root: str = "") -> Any:
    """Decode the body of a caller; the nesting is bounded for all readers of the value."""
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    most = limits.JSON_MAX_DEPTH
    if len(text) > most and text.count(b"[") + text.count(b"{") > most and not _is_within(text, most):
        raise InvalidInput(root or "json", f"{len(text)} bytes", f"must not be nested deeper than {most} levels")
    return from_json(kind, data, root=root)


def _is_within(text: bytes, most: int) -> bool:
    """Whether it has at most this many levels. Invalid JSON may be counted wrongly; it is refused either way."""
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = b"".join(unescaped.split(b'"')[::2]).translate(_STEPS, _OTHERS)  # everything outside of strings
    if len(steps) <= most or b"\x01" * (most + 1) in steps:
        return len(steps) <= most
    return max(accumulate(memoryview(steps).cast("b"))) <= most


def check_items(kind: type[msgspec.Struct], data: bytes) -> None:
    """Refuse lists of too many items before decoding the first."""
    most = item_fields(kind)
    if not most or data.count(b"{") <= min(most.values()):
        return
    for name, value in read_json(dict[str, msgspec.Raw], data).items():
        if name in most and (count := len(from_json(list[msgspec.Raw], bytes(value), root=name))) > most[name]:
            raise InvalidInput(name, f"{count} items", f"must hold at most {most[name]}; send several calls")


def items_of(args: Any) -> int:
    """How many items a request brings; one that has no lists of them is one itself."""
    kind: type[msgspec.Struct] = type(args)
    return max(1, sum([len(getattr(args, name)) for name in item_fields(kind)]))


@cache
def item_fields(kind: type[msgspec.Struct]) -> dict[str, int]:
    """The lists of structs that it has, each item of which is as good as a call, and how many there may be."""
    found = {}
    for each in msgspec.structs.fields(kind):
        info = inspect.type_info(each.type)
        if isinstance(info, _LISTS) and _is_struct(info.item_type):
            found[each.name] = info.max_length or limits.REQUEST_MAX_ITEMS
    return found


def _is_struct(info: inspect.Type) -> bool:
    options = info.types if isinstance(info, inspect.UnionType) else (info,)
    return all(isinstance(each, inspect.StructType) for each in options)


def members(text: bytes, most: int, *, field: str = "query") -> list[tuple[str, str]]:
    """The members of a query or a form, in order."""
    check_members(text, most, field)
    return parse_qsl(text.decode("utf-8", "replace"), keep_blank_values=True)


def check_members(text: bytes, most: int, field: str = "query") -> None:
    if text.count(b"&") >= most:
        raise InvalidInput(field, f"{text.count(b'&') + 1} members", f"must have at most {most}")

"""Requests made from the types of the operations: every place that holds an id, and a valid request around it."""

from __future__ import annotations

import base64
import copy
import enum
import json
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union

import msgspec
from msgspec import structs

from flowfabric.core import ids
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.partition import Partition

# A place in a request: names of members, numbers in lists, and the keys of mappings.
Path = tuple[str | int, ...]
KEY = "<key>"

# Names that every namespace of a store shares, and so belong to none.
SHARED = (ids.LaneId, ids.WorkerId, ids.WaitpointKey, ids.SecretText)
# Places whose type is plain text.
TEXTS = {
    "cursor": "cursor",
    "after": "cursor",
    "namespace": "Namespace",
    "limit_id": "BudgetId",
    "scope_id": "Namespace",
}


class Place(NamedTuple):
    """Where an id stands, and of what kind it is."""

    path: Path
    kind: str


class Unbuildable(AssertionError):
    """The generator knows no value for a type: teach it one here."""


def places(kind: Any, path: Path = (), inside: tuple[Any, ...] = ()) -> Iterator[Place]:
    """Every place of a type that holds an id or a cursor; of a type within itself, the outer one."""
    kind = bare(kind)
    if isinstance(kind, type) and issubclass(kind, ids.TextId):
        if not issubclass(kind, SHARED):
            yield Place(path, kind.__name__)
    elif kind is str and path and path[-1] in TEXTS:
        yield Place(path, TEXTS[str(path[-1])])
    elif kind not in inside:
        for step, part in _parts(kind):
            yield from places(part, (*path, *step), (*inside, kind) if is_struct(kind) else inside)


def _parts(kind: Any) -> Iterator[tuple[Path, Any]]:
    """What a type is made of, and the steps that lead there."""
    if is_struct(kind):
        yield from (((name,), part) for name, part in hints(kind).items())
    elif is_union(kind):
        several = has_structs(kind)
        for at, option in enumerate(typing.get_args(kind)):
            yield ((f"|{at}",) if several else ()), option
    elif typing.get_origin(kind) is tuple:
        yield (0,), typing.get_args(kind)[0]
    elif typing.get_origin(kind) is dict:
        key, value = typing.get_args(kind)
        yield (KEY, "key"), key
        yield (KEY, "value"), value


class Maker:
    """Makes values of types. `value` knows ids: by the kind of the id and the name of the member."""

    def __init__(self, value: Callable[[str, str], str], said: dict[str, Any]) -> None:
        self._value = value
        self._said = said  # by the name of the member

    def make(self, kind: Any, path: Path = (), name: str = "") -> Any:
        """A value that has something at the path, and no more than it must besides."""
        kind = bare(kind)
        if not path and name in self._said:
            return copy.deepcopy(self._said[name])
        if isinstance(kind, type) and issubclass(kind, ids.TextId):
            return self._value(kind.__name__, name)
        if is_struct(kind):
            return self._struct(kind, path)
        if is_union(kind):
            return self._union(kind, path, name)
        if typing.get_origin(kind) is tuple:
            return [self.make(typing.get_args(kind)[0], path[1:], name)] if path else []
        if typing.get_origin(kind) is dict:
            key, value = typing.get_args(kind)
            return {self.make(key, name=f"{name}.key"): self.make(value, name=f"{name}.value")}
        return self._plain(kind, name)

    def _struct(self, kind: Any, path: Path) -> dict[str, Any]:
        config = kind.__struct_config__
        out = {config.tag_field: config.tag} if config.tag_field else {}
        for field in structs.fields(kind):
            wanted = path[1:] if path and path[0] == field.name else None
            if field.required or wanted is not None:
                out[field.encode_name] = self.make(hints(kind)[field.name], wanted or (), field.name)
        return out

    def _union(self, kind: Any, path: Path, name: str) -> Any:
        options = [each for each in typing.get_args(kind) if each is not type(None)]
        if path and str(path[0]).startswith("|"):
            return self.make(typing.get_args(kind)[int(str(path[0])[1:])], path[1:], name)
        return self.make(options[0], path, name)

    def _plain(self, kind: Any, name: str) -> Any:
        if kind is str and name in TEXTS:
            return self._value(TEXTS[name], name)
        if kind is StreamCursor or kind is Partition:
            return "0-0" if kind is StreamCursor else "{fp:7}"
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return next(iter(kind)).value
        if typing.get_origin(kind) is Literal:
            return typing.get_args(kind)[0]
        samples = {int: 1, float: 1.0, str: "text", bytes: base64.b64encode(b"x").decode(), bool: False}
        if kind in samples:
            return samples[kind]
        raise Unbuildable(f"no value for {name}: {kind}")


def place_name(path: Path) -> str:
    return ".".join(map(str, path))


def put(request: Any, path: Path, value: str) -> Any:
    """The request with a value at a place."""
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(head, str) and head.startswith("|"):
        return put(request, rest, value)
    if head == KEY:
        ((key, held),) = request.items()
        return {value: held} if rest == ("key",) else {key: value}
    request = copy.copy(request)
    request[head] = put(request[head], rest, value)
    return request


def sent(method: str, address: str, request: dict[str, Any], parameters: tuple[str, ...]) -> dict[str, Any]:
    """The call: path first, then the query of a GET or the body of the others."""
    path = address.format_map({name: request[name] for name in parameters})
    rest = {name: value for name, value in request.items() if name not in parameters and value is not None}
    if method != "GET":
        return {"method": method, "url": path, "json": rest}
    query = {name: json.dumps(each) if isinstance(each, dict | list) else each for name, each in rest.items()}
    return {"method": method, "url": path, "params": query}


def bare(kind: Any) -> Any:
    while typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    return kind


def hints(kind: Any) -> dict[str, Any]:
    found = typing.get_type_hints(kind, include_extras=True)
    return {field.name: found[field.name] for field in structs.fields(kind)}


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not Partition


def is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (Union, types.UnionType)


def has_structs(kind: Any) -> bool:
    return sum(is_struct(bare(each)) for each in typing.get_args(kind)) > 1

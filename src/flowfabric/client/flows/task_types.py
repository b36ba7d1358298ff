"""Types for `flow.add`: where a parameter takes a T, a node that returns a T is accepted."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Final, Literal, NewType, Optional, Protocol, TypeVar, Union, get_args, get_origin

import msgspec

from flowfabric.client.flows.nodes import Given, Join, Upstream
from flowfabric.client.tasks import payloads
from flowfabric.client.tasks.task import Call
from flowfabric.core.rules.flows.graph import DependencyKind

A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Takes0(Protocol[R_co]):
    def call(self, /) -> Call[R_co]: ...


class Takes1(Protocol[A_contra, R_co]):
    def call(self, a: A_contra, /) -> Call[R_co]: ...


class Takes2(Protocol[A_contra, B_contra, R_co]):
    def call(self, a: A_contra, b: B_contra, /) -> Call[R_co]: ...


class Takes3(Protocol[A_contra, B_contra, C_contra, R_co]):
    def call(self, a: A_contra, b: B_contra, c: C_contra, /) -> Call[R_co]: ...


class Takes4(Protocol[A_contra, B_contra, C_contra, D_contra, R_co]):
    def call(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /) -> Call[R_co]: ...


# Kinds of JSON values; a result of one kind can never be decoded as another.
_KINDS: Final[dict[Any, str]] = {
    int: "number",
    float: "number",
    str: "text",
    bool: "truth",
    type(None): "nothing",
    list: "list",
    tuple: "list",
    set: "list",
    frozenset: "list",
    dict: "object",
}


def misfits(given: Given[Any], wanted: Any) -> list[Any]:
    """The given types that certainly cannot be decoded as the wanted type; empty if all may fit."""
    types = [_type_of(each) for each in given.upstreams]
    if isinstance(given, Join):
        types = [list[each] for each in types]  # type: ignore[valid-type]
    wrong = [each for each in types if clash(each, wanted)]
    is_certain = len(wrong) == len(types) or (isinstance(given, Join) and given.needed is None)
    return wrong if is_certain else []


def _type_of(upstream: Upstream) -> Any:
    node, kind = upstream
    gives = node.task.result_type
    return Optional[gives] if kind is DependencyKind.ANY_TERMINAL else gives  # noqa: UP045 - `gives` may not be a class


def clash(result: Any, wanted: Any) -> bool:
    """Whether a result of one type certainly cannot be decoded as the other; the worker judges unclear cases."""
    wants = _members(wanted)
    if len(wants) > 1 and payloads.mentions_model(wanted):
        return False  # pydantic decodes it, and may read a number from text
    return all(_differ(given, taken) for given in _members(result) for taken in wants)


def _members(kind: Any) -> list[Any]:
    """The members of a union, or the type itself."""
    origin = get_origin(kind)
    if origin is Annotated:
        base, *notes = get_args(kind)
        return _members(base) if all(isinstance(note, str | msgspec.Meta) for note in notes) else [Any]
    if origin is Literal:
        return [type(value) for value in get_args(kind)]
    if isinstance(kind, NewType):
        return _members(kind.__supertype__)
    if origin in (Union, UnionType):
        return [each for part in get_args(kind) for each in _members(part)]
    return [kind]


def _differ(given: Any, taken: Any) -> bool:
    from_kind, to_kind = _kind(given), _kind(taken)
    if from_kind is None or to_kind is None:
        return False
    if from_kind != to_kind or (given, taken) == (float, int):
        return True
    inner = _inner(given), _inner(taken)
    return None not in inner and clash(*inner)


def _kind(kind: Any) -> str | None:
    """The kind of its JSON form; None if it has several forms or an unknown one."""
    origin = get_origin(kind) or kind
    return _KINDS.get(origin) or ("object" if payloads.is_record(origin) else None)


def _inner(kind: Any) -> Any:
    """The element type of a list, or the value type of a dict; None without one."""
    match get_origin(kind), get_args(kind):
        case (origin, (inner,)) if origin in (list, set, frozenset):
            return inner
        case (origin, (inner, end)) if origin is tuple and end is ...:
            return inner
        case (origin, (_, inner)) if origin is dict:
            return inner
    return None

"""Tasks as a flow takes them, for type checkers: where a parameter wants a T, a node that gives a T will do."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from flowfabric.client.tasks import Call

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


# JSON has these kinds of values; a result of one kind is never an argument of another.
_KINDS: dict[Any, str] = {
    int: "number",
    float: "number",
    str: "text",
    bool: "truth",
    type(None): "nothing",
    list: "list",
    tuple: "list",
    set: "list",
    frozenset: "list",
}


def clash(result: Any, wanted: Any) -> bool:
    """Whether a result of the one type can surely not be read as the other; what is not plain is left to the worker."""
    from_kind, to_kind = (_KINDS.get(getattr(each, "__origin__", each)) for each in (result, wanted))
    return from_kind is not None and to_kind is not None and (from_kind != to_kind or (result, wanted) == (float, int))

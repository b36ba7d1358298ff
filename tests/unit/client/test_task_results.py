"""A result that a client could not decode is refused where it is made, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from flowfabric.client.tasks.task import Task
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import InvalidInput

T = TypeVar("T")


@dataclass
class Item:
    name: str
    count: int = 1


@dataclass
class Special(Item):
    extra: str = ""


class Color(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Row(TypedDict):
    name: str
    counts: list[int]


class Box(msgspec.Struct, Generic[T]):
    value: T


class Model(BaseModel):
    name: str
    at: datetime | None = None


class Text(str):
    __slots__ = ()


Number = NewType("Number", int)
ID = ExecutionId("{fp:1}:11111111-1111-4111-8111-111111111111")

FIT: list[tuple[Any, Any]] = [
    (None, None), (str, "x"), (str, Text("x")), (int, 7), (int, 2**70), (float, 1.5), (float, 1),
    (bool, False), (bytes, b"\xff"), (list, [1, "x"]), (dict, {1: [2]}), (Any, object), (Any, 7), (object, 7),
    (list[object], [7, {}]), (list[int], [1, 2]), (list[int], (1, 2)), (set[str], {"a"}), (tuple[int, str], (1, "a")),
    (dict[str, int], {"a": 1}),
    (dict[int, int], {1: 1}), (int | None, None), (int | str, "x"), (Literal["a", 1], 1), (Item, Item("a")),
    (Item, {"name": "a"}), (Item, Special("a", 1, "b")), (list[Item], [Item("a")]), (Row, {"name": "a", "counts": [1]}),
    (Color, Color.RED), (Color, "red"), (Point, Point(1, 2)), (Box[int], Box(1)), (Model, Model(name="a")),
    (Model | None, None), (list[Model], [Model(name="a")]), (Model, {"name": "a"}),
    (datetime, datetime.now(UTC)), (UUID, UUID(int=1)), (Decimal, Decimal("1.10")), (ExecutionId, ID),
    (Annotated[int, msgspec.Meta(ge=0)], 1), (Number, Number(1)), (T, 7),
]  # fmt: skip

MISFITS: list[tuple[Any, Any, str]] = [
    (None, 5, r"result of x: Expected `null`, got `int`"),
    (str, 5, r"result of x: Expected `str`, got `int`"),
    (int, "5", r"result of x: Expected `int`, got `str`"),
    (int, None, r"result of x: Expected `int`, got `null`"),
    (float, float("nan"), r"result of x: Expected `float`, got `null`"),
    (int, True, r"result of x: Expected `int`, got `bool`"),
    (bool, 1, r"result of x: Expected `bool`, got `int`"),
    (list, {"a": 1}, r"result of x: Expected `array`, got `object`"),
    (list[int], [1, "a"], r"result of x\[1\]: Expected `int`, got `str`"),
    (dict[str, int], {"a": None}, r"result of x\[...\]: Expected `int`, got `null`"),
    (tuple[int, str], (1,), r"result of x: Expected `array` of length 2"),
    (int | None, "x", r"result of x: Expected `int \| null`, got `str`"),
    (Literal["a", "b"], "c", r"result of x: Invalid enum value 'c'"),
    (Item, {"count": 1}, r"result of x: Object missing required field `name`"),
    (Item, Item(name=3), r"result of x\.name: Expected `str`, got `int`"),  # type: ignore[arg-type]
    (list[Item], [Item("a"), Item("b", "c")], r"result of x\[1\]\.count: Expected `int`, got `str`"),  # type: ignore[arg-type]
    (Row, {"name": "a", "counts": ["b"]}, r"result of x\.counts\[0\]: Expected `int`, got `str`"),
    (Color, "blue", r"result of x: Invalid enum value 'blue'"),
    (Box[int], Box("a"), r"result of x\.value: Expected `int`, got `str`"),
    (Model, {"at": None}, r"result of x: (?s:.)*name\n.*Field required"),
    (Annotated[int, msgspec.Meta(ge=0)], -1, r"result of x: Expected `int` >= 0"),
    (set[int], 5, r"result of x: Expected `array`, got `int`"),
]  # fmt: skip


def _task(kind: Any) -> Task[..., Any]:
    def returns() -> None: ...

    returns.__annotations__["return"] = kind
    return Task(returns, name="x")


@pytest.mark.parametrize(("kind", "value"), FIT, ids=lambda each: repr(each)[:40])
def test_what_a_client_can_decode_passes(kind: Any, value: Any) -> None:
    if value is object:
        value = {"any": ["thing"]}
    made = _task(kind)
    made.decode_result(made.encode_result(value))


@pytest.mark.parametrize(("kind", "value", "problem"), MISFITS, ids=lambda each: repr(each)[:40])
def test_what_it_cannot_decode_is_refused_with_the_field(kind: Any, value: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        _task(kind).encode_result(value)


def test_without_an_annotation_every_result_with_a_json_form_passes() -> None:
    def returns():  # type: ignore[no-untyped-def]
        ...

    made: Task[..., Any] = Task(returns)
    assert made.encode_result([1, {"a": None}]) == b'[1,{"a":null}]'


@pytest.mark.parametrize(("kind", "value"), [(None, None), (str, "x"), (int, 7), (bool, True), (Any, [1]), (dict, {})])
def test_a_value_of_exactly_the_annotated_class_is_not_decoded(
    kind: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the price of every task: the check must cost next to nothing for plain results."""
    made = _task(kind)
    made.encode_result(value)
    decoded: list[bytes] = []
    monkeypatch.setattr("flowfabric.client.tasks.payloads.decode", _noting(decoded))
    made.encode_result(value)
    assert decoded == []


def _noting(decoded: list[bytes]) -> Callable[..., None]:
    def decode(data: bytes, *_: object) -> None:
        decoded.append(data)

    return decode

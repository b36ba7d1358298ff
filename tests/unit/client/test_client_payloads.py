"""Values on their way through JSON, and what is refused."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from flowfabric.client.tasks import payloads
from flowfabric.core import limits
from flowfabric.core.ids import ExecutionId
from flowfabric.errors import InvalidInput

T = TypeVar("T")


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


class Shape(msgspec.Struct):
    name: str
    points: tuple[Point, ...]


class Pair(NamedTuple):
    left: int
    right: str


class Movie(TypedDict):
    title: str


class Person(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str = Field(alias="fullName")
    born: datetime
    score: Decimal = Decimal("1.10")


class Box(BaseModel, Generic[T]):
    content: T


class Cat(BaseModel):
    meow: int


class Dog(BaseModel):
    bark: str


NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
ADA = Person(fullName="Ada", born=NOON)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 2**80),
        (float, 0.1),
        (str, "tides \N{WATER WAVE}"),
        (bool, True),
        (type(None), None),
        (bytes, b"\x00\xff"),
        (datetime, NOON),
        (date, date(2030, 1, 2)),
        (timedelta, timedelta(days=1, microseconds=5)),
        (UUID, UUID(int=7)),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Point, Point(1)),
        (Shape, Shape("line", (Point(1), Point(2)))),
        (Pair, Pair(1, "a")),
        (Movie, {"title": "x"}),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (dict[str, list[Point]], {"a": [Point(1)]}),
        (int | str | None, "a"),
        (ExecutionId, ExecutionId("{fp:7}:6edff33e-6e57-40ab-9beb-4d4d39716745")),
        (Any, {"a": [1, None]}),
        (Person, ADA),
        (Person | None, None),
        (list[Person], [ADA, ADA]),
        (Box[Point], Box[Point](content=Point(3))),
        (Cat | Dog, Dog(bark="loud")),
        (dict[str, Cat | int], {"a": Cat(meow=1), "b": 3}),
    ],
)
def test_a_value_comes_back_as_it_went(kind: Any, value: object) -> None:
    data = payloads.encode(value, "value")
    back = payloads.decode(data, payloads.decoder(kind, "value"), "value")
    assert back == value
    assert type(back) is type(value)


def test_models_travel_under_the_names_they_show_the_world() -> None:
    assert msgspec.json.decode(payloads.encode(ADA, "value")) == {
        "fullName": "Ada",
        "born": "2030-01-02T12:00:00Z",
        "score": "1.10",
    }


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        (int, b'"1"', "value"),
        (Point, b'{"x":"no"}', "value.x"),
        (list[Point], b'[{"x":1},{"x":[]}]', "value[1].x"),
        (Person, b'{"born":"2030-01-02T12:00:00Z"}', "value"),
        (list[Person], b'[{"fullName":1,"born":"2030-01-02T12:00:00Z"}]', "value[0]"),
        (Cat | Dog, b"{}", "value"),
        (ExecutionId, b'"{fp:7}"', "value"),
        (Colour, b'"blue"', "value"),
        (int, b"not json", "value"),
        (int, b"\xff", "value"),
        (int, b"", "value"),
        (Any, b"[" * 100_000, "value"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(kind: Any, data: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        payloads.decode(data, payloads.decoder(kind, "value"), "value")
    assert caught.value.field == field
    assert caught.value.__cause__ is not None


def test_an_object_that_is_refused_does_not_show_what_it_holds() -> None:
    with pytest.raises(InvalidInput) as caught:
        payloads.decode(b'{"x":"no","password":"hunter2"}', payloads.decoder(Point, "value"), "value")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("value", [object(), lambda: None, {"a": open}, float, 1j])
def test_what_has_no_json_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="value: has no JSON form"):
        payloads.encode(value, "value")


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="has no JSON form"):
        payloads.encode(endless, "value")


def test_a_type_that_cannot_be_told_from_json_is_refused() -> None:
    with pytest.raises(InvalidInput, match="value: is no type of a payload"):
        payloads.decoder(Point | Shape, "value")


def test_an_ordinary_class_is_refused_when_it_is_decoded() -> None:
    class Ordinary:
        pass

    with pytest.raises(InvalidInput, match="neither a plain type, a dataclass, a struct nor a pydantic model"):
        payloads.decode(b"{}", payloads.decoder(Ordinary, "value"), "value")


def test_a_payload_over_the_limit_is_refused_with_limit_and_size() -> None:
    payloads.encode("x" * (limits.PAYLOAD_MAX_BYTES - 2), "value")
    with pytest.raises(InvalidInput, match="at most 1048576 bytes long, it has 1048577") as caught:
        payloads.encode("x" * (limits.PAYLOAD_MAX_BYTES - 1), "value")
    assert caught.value.code == "payload_too_large"


def test_pydantic_is_not_imported_by_us() -> None:
    code = (
        "import sys\n"
        "from flowfabric.client import sync\n"
        "from flowfabric.client.tasks import payloads\n"
        "assert payloads.decode(payloads.encode([1], 'v'), payloads.decoder(list[int], 'v'), 'v') == [1]\n"
        "print('pydantic' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "False"

"""The rule that judges answers: it names the field, and refuses nothing that the worker would decode."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.client.tasks import payloads
from flowfabric.core.forms import WaitForm
from flowfabric.core.rules.waits.answers import check, misfit
from flowfabric.errors import InvalidAnswer


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Decision:
    """Whether it goes out."""

    publish: bool
    level: Literal["low", "high"] = "low"
    reason: str | None = None


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    how_many: Annotated[int, msgspec.Meta(ge=1, lt=10)]
    names: list[str] = []


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str = "b"


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Keyed(TypedDict, total=False):
    a: int
    b: list[int]


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)
    pet: Cat | Dog | None = None


KINDS: list[Any] = [
    bool, int, float, str, bytes, type(None), int | None, Decimal, datetime, timedelta, uuid.UUID,
    Level, Size, Level | int, Literal["a", 1, None], list[int], set[int], tuple[int, str], tuple[int, ...],
    dict[str, int], dict[int, bool], Decision, Strict, Row, Point, Keyed, Cat, Cat | Dog, Tree, list[Decision | None],
    Annotated[str, msgspec.Meta(min_length=1, max_length=3)], Annotated[str, msgspec.Meta(pattern="^a+b?$")],
    Annotated[float, msgspec.Meta(ge=0.5, le=2)], Annotated[set[int], msgspec.Meta(min_length=1, max_length=2)],
    Annotated[bytes, msgspec.Meta(max_length=4)], Annotated[int, msgspec.Meta(gt=-3, multiple_of=2)],
]  # fmt: skip

_NAMES = "publish level reason howMany how_many names a b x y value children pet type lives name"
_names = st.sampled_from(_NAMES.split())
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-12, 12), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5), st.sampled_from(["low", "high", "cat", "dog", "a", "aab", "1", "YQ=="]),
    st.sampled_from([1.0, 2.0, 0.5, str(uuid.UUID(int=7)), "P1D", "1.5", "2026-11-18T00:00:00Z"]),
)  # fmt: skip
JSON = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names | st.text(max_size=2), inner, max_size=5),
    max_leaves=12,
)


@given(kind=st.sampled_from(KINDS), value=JSON)
def test_what_the_rule_refuses_the_decoder_refuses(kind: Any, value: Any) -> None:
    schema = payloads.schema(kind)
    assert schema is not None
    found = misfit(schema, value)
    if found is not None:
        with pytest.raises((msgspec.DecodeError, ValueError)):
            payloads.decoder(kind, "type")(msgspec.json.encode(value))


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(ge=1)


class Order(pydantic.BaseModel):
    urgent: bool
    level: Level = Level.LOW
    size: Size | None = None
    where: Address | None = None
    lines: list[Annotated[str, pydantic.StringConstraints(strip_whitespace=True, max_length=3)]] = []
    due: datetime | None = None


@given(value=JSON | st.fixed_dictionaries(
    {"urgent": JSON},
    optional={"level": JSON, "size": JSON, "where": st.fixed_dictionaries({"street": JSON, "number": JSON}) | JSON,
              "lines": JSON, "due": JSON},
))  # fmt: skip
def test_what_the_rule_refuses_a_model_refuses(value: Any) -> None:
    schema = payloads.schema(Order)
    assert schema is not None
    if misfit(schema, value, converts=True) is not None:
        with pytest.raises(ValueError, match="validation error"):
            Order.model_validate_json(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("kind", "value", "where", "problem", "given"),
    [
        (Decision, {"publish": "yes"}, "payload.publish", "must be true or false", "'yes'"),
        (Decision, {}, "payload.publish", "must be true or false", "nothing"),
        (Decision, {"publish": True, "level": "mid"}, "payload.level", "must be one of 'high', 'low'", "'mid'"),
        (Decision, {"publish": True, "reason": 7}, "payload.reason", "must be text or null", "7"),
        (Decision, [1], "payload", "must be an object", "a list"),
        (bool, None, "payload", "must be true or false", "null"),
        (bool, {"approved": True}, "payload", "must be true or false", "an object"),
        (Strict, {"howMany": 12}, "payload.howMany", "must be less than 10", "12"),
        (Strict, {"howMany": 2, "how_many": 2}, "payload.how_many", "is not a field of the answer", "2"),
        (Strict, {"howMany": 2, "names": ["a", 3]}, "payload.names[1]", "must be text", "3"),
        (list[int], [1, 2.5], "payload[1]", "must be a whole number", "2.5"),
        (Cat | Dog, {"type": "cat", "lives": "9"}, "payload.lives", "must be a whole number", "'9'"),
        (Level, "mid", "payload", "must be one of 'high', 'low'", "'mid'"),
        (KINDS[30], "abcd", "payload", "must have at most 3 characters", "'abcd'"),
        (KINDS[31], "b", "payload", "must match ^a+b?$", "'b'"),
    ],
)  # fmt: skip
def test_a_misfit_names_the_field_and_the_expected_type(
    kind: Any, value: Any, where: str, problem: str, given: str
) -> None:
    schema = payloads.schema(kind)
    assert schema is not None
    assert misfit(schema, value) == (where, problem, given)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Decision, {"publish": True, "more": 1}),
        (Tree, {"value": 1, "children": [{"value": 2, "pet": {"type": "dog", "name": "rex"}}]}),
        (float, 1),
        (Decimal, 1.5),
        (Cat, {"lives": 9}),
        (Any, {"anything": [1]}),
    ],
)
def test_what_fits_is_accepted(kind: Any, value: Any) -> None:
    schema = payloads.schema(kind)
    assert schema is not None
    assert misfit(schema, value) is None


def test_a_slow_pattern_and_an_endless_union_are_left_to_the_worker() -> None:
    assert misfit({"type": "string", "pattern": "^(a+)+$"}, "a" * 40 + "b") is None
    looped = {"anyOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}
    node = {"type": "object", "properties": {"n": looped, "end": {"type": "string"}}}
    value: dict[str, Any] = {"end": 1}
    for _ in range(40):
        value = {"n": value}
    assert misfit({**looped, "$defs": {"n": node}}, value) is None
    assert misfit({"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}, 1) is None


class Lenient(enum.Enum):
    YES = "yes"

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.YES


@dataclass
class WithLenient:
    answer: list[Lenient]


class Trimmed(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> str:
        return str(value)


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    how_many: int = pydantic.Field(alias="howMany")


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (Decision, "strict"),
        (Tree, "strict"),
        (Level, "strict"),
        (Lenient, "own"),
        (WithLenient, "own"),
        (Order, "converting"),
        (list[Address] | None, "converting"),
        (Trimmed, "own"),
        (list[Trimmed], "own"),
        (Aliased, "own"),
    ],
)
def test_only_types_whose_schema_tells_all_are_judged_before_the_worker(kind: Any, how: str) -> None:
    assert payloads.decoder_kind(kind) == how


def test_what_is_no_json_fits_only_a_wait_for_bytes() -> None:
    form = WaitForm(schema=payloads.schema(int))
    for payload, encoding in ((b"1", "protobuf"), (b"{", "json"), (b"{", None), (None, None)):
        with pytest.raises(InvalidAnswer):
            check(form, payload, encoding)
    check(form, b"1", None)
    check(WaitForm(schema=payloads.schema(bytes)), b"\xff", "protobuf")
    check(WaitForm(schema=payloads.schema(int), decoder="own"), b'"one"', "json")
    check(WaitForm(question="Well?"), b"anything", None)

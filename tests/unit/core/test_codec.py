from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from flowfabric.core import codec
from flowfabric.core.ids import ExecutionId, LaneId, LeaseId, WaitpointToken
from flowfabric.core.partition import PartitionKey
from flowfabric.errors import InvalidInput

UUID = "550e8400-e29b-41d4-a716-446655440000"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lease_id: LeaseId
    colour: Colour = Colour.RED


class Left(msgspec.Struct, frozen=True, tag_field="side", tag="left"):
    n: int = 0


class Right(msgspec.Struct, frozen=True, tag_field="side", tag="right"):
    n: int = 0


class Outer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    execution_id: ExecutionId
    partition_key: PartitionKey | None = None
    waitpoint_token: WaitpointToken | None = None
    inner: Inner | None = None
    lanes: tuple[LaneId, ...] = ()
    by_name: dict[str, LaneId] = {}
    payload: bytes = b""
    side: Left | Right | None = None
    colours: list[Colour] = []


OUTER = Outer(
    execution_id=ExecutionId(f"{{fp:1}}:{UUID}"),
    partition_key=PartitionKey("{fp:1}"),
    waitpoint_token=WaitpointToken("k1:beef"),
    inner=Inner(lease_id=LeaseId(UUID)),
    lanes=(LaneId("a"), LaneId("b")),
    by_name={"x": LaneId("c")},
    payload=b"\x00\xff",
    side=Right(n=2),
)


def test_ids_travel_as_plain_strings_and_come_back_as_ids() -> None:
    back = codec.from_json(Outer, codec.to_json(OUTER))
    assert back == OUTER
    assert type(back.execution_id) is ExecutionId
    assert type(back.lanes[0]) is LaneId
    assert type(back.by_name["x"]) is LaneId
    assert type(back.partition_key) is PartitionKey


def test_a_token_is_redacted_in_messages_but_not_on_the_wire() -> None:
    assert b'"k1:beef"' in codec.to_json(OUTER)
    assert "beef" not in repr(OUTER)


def test_payloads_are_base64_so_that_any_byte_survives() -> None:
    assert b'"payload":"AP8="' in codec.to_json(OUTER)


def _with(**members: Any) -> bytes:
    return codec.to_json({"execution_id": f"{{fp:1}}:{UUID}", **members})


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        (b"{}", "execution_id", "is missing"),
        (_with(execution_id="nope"), "execution_id", "{fp:N}"),
        (_with(execution_id=5), "execution_id", "{fp:N}"),
        (_with(now=1), "now", "not a known field"),
        (_with(inner={"lease_id": "x"}), "inner.lease_id", "UUID"),
        (_with(inner={}), "inner.lease_id", "is missing"),
        (_with(inner={"lease_id": UUID, "extra": 1}), "inner.extra", "not a known field"),
        (_with(inner={"lease_id": UUID, "colour": "green"}), "inner.colour", "one of red, blue"),
        (_with(colours=["red", "green"]), "colours[1]", "one of red, blue"),
        (_with(side={"side": "up"}), "side.side", "one of left, right"),
        (_with(lanes=["a", "\t"]), "lanes[1]", "printable ASCII"),
        (_with(by_name={"k": ""}), "by_name[...]", "1 to 64 bytes"),
        (_with(partition_key="fp:1"), "partition_key", "braces"),
        (_with(payload="!"), "payload", "base64"),
        (_with(side={"side": "left", "n": "1"}), "side.n", "expected `int`"),
        (b"[]", "json", "expected `object`"),
        (b"", "json", "truncated"),
        (b'{"execution_id"', "json", "truncated"),
        (b'{"by_name":{"k":"\xff"}}', "json", "UTF-8"),
        ('{"by_name":{"k":"\ud800"}}', "json", "UTF-8"),
        (b"[" * 100_000, "json", "object"),
        (5, "json", "text or bytes"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(data: bytes, path: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        codec.from_json(Outer, data)
    assert caught.value.field == caught.value.details["field"] == path
    assert problem in caught.value.message


def test_deep_nesting_is_refused_and_not_followed() -> None:
    with pytest.raises(InvalidInput, match="nested so deeply"):
        codec.from_json(dict[str, Any], b'{"a":' + b"[" * 100_000)


def test_a_refusal_quotes_the_value_but_never_a_secret_or_a_whole_object() -> None:
    with pytest.raises(InvalidInput, match="got 'green'"):
        codec.from_json(Outer, _with(inner={"lease_id": UUID, "colour": "green"}))
    with pytest.raises(InvalidInput) as caught:
        codec.from_json(Outer, _with(waitpoint_token=["k1:beef"]))
    assert "beef" not in str(caught.value)
    with pytest.raises(InvalidInput) as caught:
        codec.from_json(Inner, codec.to_json([{"token": "k1:beef"}]))
    assert "beef" not in str(caught.value)
    with pytest.raises(InvalidInput) as caught:
        codec.from_json(Outer, b'{"waitpoint_token":"k1:beef"')
    assert "beef" not in str(caught.value)


def test_unions_are_told_apart_by_their_tag() -> None:
    assert codec.from_json(Left | Right, b'{"side":"right","n":3}') == Right(n=3)
    with pytest.raises(InvalidInput, match="one of left, right") as caught:
        codec.from_json(Left | Right, b'{"side":"up"}')
    assert caught.value.field == "side"


def test_a_value_without_a_json_form_is_a_bug_and_says_so() -> None:
    with pytest.raises(NotImplementedError, match="object has no JSON form"):
        codec.to_json(object())

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import codec
from flowfabric.core.cursor import CursorProblem, StreamCursor, StreamCursorParseError

U64 = st.integers(0, 2**64 - 1)


@given(U64, st.none() | U64)
def test_an_entry_id_is_kept_as_it_is(ms: int, seq: int | None) -> None:
    text = str(ms) if seq is None else f"{ms}-{seq}"
    cursor = StreamCursor(text)
    assert (str(cursor), cursor.to_wire(), cursor.is_concrete) == (text, text, True)


@pytest.mark.parametrize(("text", "wire"), [("start", "-"), ("end", "+")])
def test_open_ends_have_names_outside_and_markers_inside(text: str, wire: str) -> None:
    cursor = StreamCursor(text)
    assert (str(cursor), cursor.to_wire(), cursor.is_concrete) == (text, wire, False)


def test_constructors_say_where() -> None:
    assert StreamCursor.start() == "start"
    assert StreamCursor.end() == "end"
    assert StreamCursor.from_beginning() == "0-0"
    assert StreamCursor.from_beginning().is_concrete


@pytest.mark.parametrize("text", ["-", "+"])
def test_the_stores_own_markers_are_refused(text: str) -> None:
    with pytest.raises(StreamCursorParseError, match="'start' or 'end'") as caught:
        StreamCursor(text)
    assert caught.value.reason is CursorProblem.BARE_MARKER


def test_empty_text_is_refused() -> None:
    with pytest.raises(StreamCursorParseError) as caught:
        StreamCursor("")
    assert caught.value.reason is CursorProblem.EMPTY


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "-1",
        "1-",
        "-1-2",
        "1-2-3",
        "1.2",
        "1 2",
        "Start",
        "END",
        "1\u20132",
        "1-*",
        "$",
        ">",
        " 1",
        "1\n",
        5,
        None,
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    with pytest.raises(StreamCursorParseError) as caught:
        StreamCursor(text)
    assert caught.value.reason is CursorProblem.MALFORMED


@pytest.mark.parametrize("text", [str(2**64), f"1-{2**64}", "9" * 21, "\u0663-1"])
def test_numbers_no_store_can_hold_are_malformed(text: str) -> None:
    with pytest.raises(StreamCursorParseError) as caught:
        StreamCursor(text)
    assert caught.value.reason is CursorProblem.MALFORMED


def test_a_refused_cursor_has_the_code_of_offsets() -> None:
    with pytest.raises(StreamCursorParseError) as caught:
        StreamCursor("x")
    assert (caught.value.code, caught.value.field) == ("invalid_offset", "cursor")


class Page(msgspec.Struct, frozen=True):
    after: StreamCursor = StreamCursor.from_beginning()


@pytest.mark.parametrize("text", ["start", "end", "0-0", "1713100800150-0"])
def test_a_cursor_travels_as_a_bare_string(text: str) -> None:
    assert codec.to_json(StreamCursor(text)) == f'"{text}"'.encode()
    assert codec.from_json(StreamCursor, f'"{text}"') == StreamCursor(text)
    assert codec.from_json(Page, f'{{"after":"{text}"}}').after.to_wire() == StreamCursor(text).to_wire()


@pytest.mark.parametrize("text", ["-", "+", "", "1-"])
def test_a_bad_cursor_in_json_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(StreamCursorParseError) as caught:
        codec.from_json(Page, f'{{"after":"{text}"}}')
    assert caught.value.field == "after"
    assert caught.value.details["field"] == "after"

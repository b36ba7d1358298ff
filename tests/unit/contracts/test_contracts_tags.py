from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.tags import tag_key, tag_map
from flowfabric.errors import InvalidInput


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=32))
def test_a_name_is_any_short_line_of_text(key: str) -> None:
    assert tag_key(key) == key


@pytest.mark.parametrize("key", ["team.key", "Customer", "ticket-id", "größe", "a b", "a=b", "a:b", "%", "{x}", "注文"])
def test_names_that_people_use_are_taken(key: str) -> None:
    assert tag_key(key) == key


@pytest.mark.parametrize("key", ["", "a\nb", "a\tb", "\0", "\x7f", "\x85", "\ud800", "k" * 129, "ü" * 65, 5, None])
def test_other_names_are_refused(key: object) -> None:
    with pytest.raises(InvalidInput, match="printable text of 1 to 128 bytes") as caught:
        tag_key(key)
    assert (caught.value.code, caught.value.field) == ("invalid_tag_key", "tags")


def test_a_name_has_a_maximum_length() -> None:
    assert tag_key("k" * 128)
    assert tag_key("ü" * 64)


def test_equal_tags_are_kept_in_equal_order() -> None:
    assert list(tag_map({"b.x": "1", "a.x": "2"})) == ["a.x", "b.x"]


def test_values_are_bounded_text() -> None:
    assert tag_map({"a.x": ""}) == {"a.x": ""}
    for bad in ("x" * 1025, "nul\0", "\ud800", 5, None):
        with pytest.raises(InvalidInput) as caught:
            tag_map({"a.x": bad})
        assert caught.value.field == "tags[a.x]"


def test_there_is_a_maximum_number_of_tags() -> None:
    assert len(tag_map({f"a.t{n}": "" for n in range(64)})) == 64
    with pytest.raises(InvalidInput, match="at most 64 tags"):
        tag_map({f"a.t{n}": "" for n in range(65)})


@pytest.mark.parametrize("tags", [None, "a.x=1", [("a.x", "1")]])
def test_tags_are_a_mapping(tags: object) -> None:
    with pytest.raises(InvalidInput, match="must map"):
        tag_map(tags)

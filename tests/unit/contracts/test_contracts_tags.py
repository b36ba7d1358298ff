from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.tags import tag_key, tag_map
from flowfabric.errors import InvalidInput


@given(st.from_regex(r"[a-z][a-z0-9_]{0,20}\.[a-z0-9_][a-z0-9_.]{0,20}", fullmatch=True))
def test_a_key_has_a_prefix_and_a_name(key: str) -> None:
    assert tag_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "team",
        "team.",
        ".key",
        "team..key",
        "Team.key",
        "team.Key",
        "1team.key",
        "team.key ",
        "te-am.key",
        "team.key\n",
        5,
    ],
)
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(InvalidInput, match=r"team\.key") as caught:
        tag_key(key)
    assert (caught.value.code, caught.value.field) == ("invalid_tag_key", "tags")


def test_a_key_has_a_maximum_length() -> None:
    assert tag_key("t." + "k" * 126)
    with pytest.raises(InvalidInput, match="at most 128 bytes"):
        tag_key("t." + "k" * 127)


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

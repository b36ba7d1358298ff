from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.capability import capability_set, from_csv, missing, to_csv
from flowfabric.errors import InvalidCapabilities

TOKENS = st.frozensets(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=","), min_size=1, max_size=8),
    max_size=20,
)


@given(TOKENS)
def test_a_set_survives_the_trip_through_csv(tokens: frozenset[str]) -> None:
    assert set(from_csv(to_csv(tokens))) == tokens


@given(TOKENS)
def test_sets_are_sorted_by_bytes_whatever_order_they_came_in(tokens: frozenset[str]) -> None:
    once = capability_set(tokens)
    assert capability_set(reversed(once)) == once
    assert [token.encode() for token in once] == sorted(token.encode() for token in tokens)


def test_repeats_count_once() -> None:
    assert capability_set(["gpu", "cpu", "gpu"]) == ("cpu", "gpu")


def test_nothing_is_the_empty_text() -> None:
    assert to_csv([]) == ""
    assert from_csv("") == ()


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("", "empty token"),
        ("a,b", "comma"),
        ("a b", "whitespace"),
        ("a\tb", "whitespace"),
        ("a\u00a0b", "whitespace"),
        ("a\u2028b", "whitespace"),
        ("\x7f", "control"),
        ("\x85", "whitespace or control"),
        ("\ud800", "control"),
        (5, "text tokens"),
    ],
)
def test_a_token_that_breaks_the_grammar_is_refused(token: str, problem: str) -> None:
    with pytest.raises(InvalidCapabilities, match=problem) as caught:
        capability_set(["ok", token], field="worker_capabilities")
    assert caught.value.field == "worker_capabilities"
    assert caught.value.code == "invalid_capabilities"


@pytest.mark.parametrize("value", ["gpu", b"gpu", 5, None])
def test_a_lone_string_is_not_a_set_of_letters(value: str) -> None:
    with pytest.raises(InvalidCapabilities, match="set of tokens"):
        capability_set(value)


def test_at_most_256_tokens() -> None:
    assert len(capability_set(f"t{n}" for n in range(256))) == 256
    with pytest.raises(InvalidCapabilities, match="at most 256 tokens"):
        capability_set(f"t{n}" for n in range(257))


def test_at_most_4096_bytes_of_csv() -> None:
    assert len(to_csv(["a" * 2047, "b" * 2048])) == 4096
    with pytest.raises(InvalidCapabilities, match="4096 bytes"):
        capability_set(["a" * 2048, "b" * 2048])


def test_an_empty_place_in_csv_is_refused() -> None:
    with pytest.raises(InvalidCapabilities, match="empty token"):
        from_csv("a,,b")


@given(TOKENS, TOKENS)
def test_what_is_missing_is_required_and_not_offered(required: frozenset[str], offered: frozenset[str]) -> None:
    lacking = missing(required, offered)
    assert set(lacking) == required - offered
    assert list(lacking) == sorted(lacking, key=str.encode)


def test_matching_is_case_sensitive() -> None:
    assert missing(["GPU"], ["gpu"]) == ("GPU",)

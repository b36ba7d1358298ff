"""Durations, moments, tags and JSON as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flowfabric.cli import parsing
from flowfabric.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("250ms", 0.25), ("1.5h", 5_400), ("5m", 300), ("7d", 604_800), (" 2w ", 1_209_600), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parsing.duration("--delay", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1y", "1 s", "s", "1e3"])
def test_what_is_no_duration_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsing.duration("--delay", text)
    assert caught.value.field == "--delay"


def test_moments() -> None:
    assert parsing.moment("--since", None) is None
    assert parsing.moment("--since", "2030-01-31T12:00+00:00") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    local = parsing.moment("--since", "2030-01-31T12:00")
    assert local == datetime(2030, 1, 31, 12).astimezone()
    ago = parsing.moment("--since", "2h")
    assert ago is not None
    assert timedelta(hours=2) <= datetime.now(UTC) - ago < timedelta(hours=3)


def test_tags_keep_what_follows_the_first_equals_sign() -> None:
    assert parsing.tags("--tag", ["team.a=x=y", "team.b="]) == {"team.a": "x=y", "team.b": ""}


def test_text_that_is_no_json_is_refused_with_a_hint() -> None:
    assert parsing.json_list("JSON", ["1", '"a"', "[null]"]) == [1, "a", [None]]
    with pytest.raises(InvalidInput, match="its own quotes") as caught:
        parsing.json_list("JSON", ["1", "tides"])
    assert caught.value.field == "JSON[1]"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0.5, "0.50ms"),
        (42, "42ms"),
        (1_500, "1.5s"),
        (59_000, "59s"),
        (90_000, "1.5m"),
        (864e5 * 12, "12d"),
    ],
)
def test_spans_for_people(ms: float | None, text: str) -> None:
    assert parsing.span_text(ms) == text


def test_times_for_people_are_utc() -> None:
    assert parsing.time_text(1_893_456_000_123) == "2030-01-01 00:00:00.123Z"

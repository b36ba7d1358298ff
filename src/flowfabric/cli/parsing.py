"""Parse and format durations, times, tags and JSON. An error names the option."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from getpass import getpass
from typing import Any, Final

import msgspec

from flowfabric.errors import InvalidInput

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)?")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def duration(option: str, text: str) -> float:
    """Seconds: `30`, `250ms`, `1.5h`, `7d`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(option, text, "must be a duration like 30s, 250ms, 5m, 1.5h or 7d")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def optional_duration(option: str, text: str | None) -> float | None:
    return None if text is None else duration(option, text)


def moment(option: str, text: str | None) -> datetime | None:
    """A time like `2030-01-31T12:00`, local unless it has a zone, or a duration that means that long ago."""
    if text is None:
        return None
    if _DURATION.fullmatch(text.strip()):
        return datetime.now(UTC) - timedelta(seconds=duration(option, text))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        problem = "must be a time like 2030-01-31T12:00, or a duration like 2h for two hours ago"
        raise InvalidInput(option, text, problem) from None
    return found.astimezone() if found.tzinfo is None else found


def tags(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`key=value` each, or a JSON object, for names that contain `=`."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if text.startswith("{"):
            found |= json_object(option, text)
        elif equals:
            found[key] = value
        else:
            raise InvalidInput(option, text, 'must look like key=value, or be a JSON object like {"key": "value"}')
    return found


def amounts(option: str, texts: Sequence[str]) -> dict[str, int]:
    """`tokens=1000` each."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            raise InvalidInput(option, text, "must look like tokens=1000")
        found[name] = int(number)
    return found


def json_list(option: str, texts: Sequence[str]) -> list[Any]:
    """One JSON value each."""
    return [json_value(f"{option}[{at}]", text) for at, text in enumerate(texts)]


def json_object(option: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    found = json_value(option, text)
    if not isinstance(found, dict):
        raise InvalidInput(option, text, 'must be a JSON object, like {"name": "value"}')
    return found


def json_payload(option: str, text: str | None) -> bytes | None:
    """The text unchanged, after checking that it is JSON."""
    if text is None:
        return None
    json_value(option, text)
    return text.encode()


def hidden_line(name: str) -> str:
    """Read a secret line from stdin; a terminal prompts for it without echo."""
    return getpass(f"{name}: ").strip() if sys.stdin.isatty() else sys.stdin.readline().strip()


def json_value(field: str, text: str) -> Any:
    """A JSON value."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        problem = f"is not JSON: {error}; text needs its own quotes, like '\"tides\"'"
        raise InvalidInput(field, text, problem) from None


def time_text(at_ms: int | None) -> str:
    """A time for people; always UTC, so that output of different machines can be compared."""
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def span_text(ms: float | None) -> str:
    """A duration for people, in its largest unit; small numbers have one decimal."""
    if ms is None:
        return "-"
    for unit, size in _UNITS:
        if ms >= size:
            return f"{ms / size:.0f}{unit}" if ms >= 10 * size else f"{ms / size:.1f}{unit}"
    return f"{ms:.0f}ms" if ms >= 10 else f"{ms:.2f}ms"


def age_text(at_ms: int | None) -> str:
    """How long ago."""
    return "-" if at_ms is None else span_text(max(0, time.time() * 1000 - at_ms))

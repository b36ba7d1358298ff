"""Log lines as JSON: one object a line, with the execution they are about."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from flowfabric.cli.logs import JsonLines, configure_logging
from flowfabric.errors import InvalidInput


def record(message: str, **extra: object) -> logging.LogRecord:
    found = logging.LogRecord("flowfabric.task", logging.WARNING, "x.py", 1, message, ("ada",), None)
    for name, value in extra.items():
        setattr(found, name, value)
    return found


def test_a_line_names_its_execution() -> None:
    line = JsonLines().format(record("hello %s\nagain", execution_id="{fp:1}:a", attempt_index=0, lane="default"))
    assert "\n" not in line
    told = json.loads(line)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "warning", "logger": "flowfabric.task", "message": "hello ada\nagain", "execution_id": "{fp:1}:a",
        "attempt_index": 0, "lane": "default",
    }  # fmt: skip


def test_an_error_has_its_traceback() -> None:
    try:
        raise ValueError("on purpose")
    except ValueError:
        found = record("failed: %s")
        found.exc_info = sys.exc_info()
    assert "ValueError: on purpose" in json.loads(JsonLines().format(found))["error"]


def test_another_format_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"--log-format.*text, json"):
        configure_logging("info", "xml")

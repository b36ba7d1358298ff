"""Logging of long-running commands, to stderr."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

from flowfabric.core.codec import to_json
from flowfabric.errors import InvalidInput

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS: Final = ("debug", "info", "warning", "error")
_FORMATS: Final = ("text", "json")
# Attributes of a record that say which execution, request or operator it is about.
_FACTS: Final = ("execution_id", "attempt_index", "task", "lane", "request_id", "trace_id", "span_id", "audit")

# These loggers write the URL of every request, which may contain a token.
_TALKATIVE: Final = ("httpx", "httpcore")


class _Stderr(logging.Handler):
    """Looks up sys.stderr for each line, because a live table replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and which execution it is about."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _FACTS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value if isinstance(value, dict | int) else str(value)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return to_json(line).decode()


def configure_logging(level: str, style: str = "text") -> None:
    if style not in _FORMATS:
        raise InvalidInput("--log-format", style, f"must be one of {', '.join(_FORMATS)}")
    if level.lower() not in _LEVELS:
        raise InvalidInput("--log-level", level, f"must be one of {', '.join(_LEVELS)}")
    handler = _Stderr()
    handler.setFormatter(JsonLines() if style == "json" else logging.Formatter(_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)

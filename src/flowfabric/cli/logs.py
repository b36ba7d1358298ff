"""Log lines of commands that go on, on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Final

from flowfabric.errors import InvalidInput

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS: Final = ("debug", "info", "warning", "error")


class _Stderr(logging.Handler):
    """Writes to what stderr is at the moment: a live table puts itself in between."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


def configure_logging(level: str) -> None:
    if level.lower() not in _LEVELS:
        raise InvalidInput("--log-level", level, f"must be one of {', '.join(_LEVELS)}")
    handler = _Stderr()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

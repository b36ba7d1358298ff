"""Log levels by name; the numbers are those of `logging`."""

from __future__ import annotations

from typing import Final

from flowfabric.errors import InvalidInput

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


def level_number(field: str, level: str) -> int:
    if not isinstance(level, str) or level.lower() not in LEVELS:
        raise InvalidInput(field, level, f"must be one of {', '.join(LEVELS)}")
    return LEVELS[level.lower()]


def level_name(number: int) -> str:
    """The name of a level; of one in between, the next lower name."""
    return next((name for name, least in reversed(LEVELS.items()) if least <= number), "debug")

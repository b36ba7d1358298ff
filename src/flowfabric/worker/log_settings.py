"""Which log records of handlers a worker keeps with their executions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowfabric.client.tasks.options import Duration, ms
from flowfabric.config import given_in_env
from flowfabric.core import limits
from flowfabric.core.log_levels import level_number
from flowfabric.errors import InvalidInput

_OFF: Final = "off"


@dataclass(frozen=True)
class Logs:
    """What is kept of the logs of handlers: records of `ctx.log`, and of more if it is asked for.

    level: records below it are not kept: debug, info, warning, error or critical.
    print: also keep what handlers print. loggers: also keep records that handlers make with these loggers and those
    below them; "" is the root of all. A logger that is not enabled for a level makes no records of it.
    records, bytes, age: bounds of one execution; beyond them the oldest records go.
    """

    level: str = "info"
    print: bool = False
    loggers: Sequence[str] = ()
    records: int = limits.DEFAULT_LOG_RECORDS
    bytes: int = limits.DEFAULT_LOG_BYTES
    age: Duration = limits.DEFAULT_LOG_AGE_MS / 1000

    def __post_init__(self) -> None:
        level_number("logs.level", self.level)
        limits.whole("logs.records", self.records, 1, limits.MAX_LOG_RECORDS)
        limits.whole("logs.bytes", self.bytes, limits.MIN_LOG_BYTES, limits.MAX_LOG_BYTES)
        ms("logs.age", self.age, low=1)
        if isinstance(self.loggers, str):
            raise InvalidInput("logs.loggers", self.loggers, "must be a list of logger names")


def chosen_logs(given: Logs | str | None) -> Logs | None:
    """What a worker was given; FLOWFABRIC_WORKER_LOGS overrides the level, and "off" switches it off."""
    logs = Logs(level=given) if isinstance(given, str) and given != _OFF else given
    if logs is None or isinstance(logs, str):
        return None
    level = given_in_env("WORKER", {"logs": str}).get("logs")
    if level is None:
        return logs
    if level == _OFF:
        return None
    level_number("FLOWFABRIC_WORKER_LOGS", level)
    return Logs(level, logs.print, tuple(logs.loggers), logs.records, logs.bytes, logs.age)

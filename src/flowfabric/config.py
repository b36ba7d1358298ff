"""Settings: what a process is told from outside. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from flowfabric.errors import InvalidInput

_PREFIX: Final = "FLOWFABRIC_"
_HOUR_MS: Final = 3_600_000
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})

_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "connect_timeout_ms": (1, _HOUR_MS),
    "command_timeout_ms": (1, _HOUR_MS),
    "retry_budget_ms": (0, _HOUR_MS),
    "num_flow_partitions": (1, 65_535),
    "num_budget_partitions": (1, 65_535),
    "num_quota_partitions": (1, 65_535),
    "lane_shards": (0, 1_024),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the store, how long to wait for it, and how it is partitioned.

    The partition counts and lane_shards are written into the store by its first user and cannot change afterwards.
    """

    # The URL may hold a password, so it stays out of repr, logs and tracebacks.
    url: str = field(default="embedded://", repr=False)
    connect_timeout_ms: int = 5_000
    command_timeout_ms: int = 10_000
    retry_budget_ms: int = 15_000
    num_flow_partitions: int = 256
    num_budget_partitions: int = 32
    num_quota_partitions: int = 32
    lane_shards: int = 0  # 0: what the store has; the first user sets up 1 on one server and 8 in a cluster
    force_library_load: bool = False

    def __post_init__(self) -> None:
        for name in _BOUNDS:
            _check_bounds(name, name, getattr(self, name))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """The settings named by FLOWFABRIC_URL, FLOWFABRIC_RETRY_BUDGET_MS and so on; defaults elsewhere."""
        source = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
        given: dict[str, Any] = {}
        for setting in fields(cls):
            variable = _PREFIX + setting.name.upper()
            if variable in source:
                given[setting.name] = _parse(variable, setting.name, source[variable], type(setting.default))
        return cls(**given)


def _parse(variable: str, name: str, text: str, kind: type) -> str | int | bool:
    if kind is bool:
        return _parse_bool(variable, text)
    if kind is int:
        return _parse_int(variable, name, text)
    if not text:
        raise InvalidInput(variable, text, "is set but empty")
    return text


def _parse_bool(variable: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in _TRUE | _FALSE:
        raise InvalidInput(variable, text, "must be true or false")
    return lowered in _TRUE


def _parse_int(variable: str, name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InvalidInput(variable, text, "must be a whole number") from None
    _check_bounds(variable, name, value)
    return value


def _check_bounds(shown_as: str, name: str, value: object) -> None:
    low, high = _BOUNDS[name]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInput(shown_as, value, f"must be a whole number from {low} to {high}")

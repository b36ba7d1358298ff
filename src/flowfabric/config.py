"""Settings from the environment. No other module reads the environment."""

from __future__ import annotations

import os
import re
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

# The grammar of text settings; core/tokens.py repeats the rules for a secret and its name, one layer above.
_TEXTS: Final[dict[str, tuple[re.Pattern[str], str]]] = {
    "waitpoint_kid": (
        re.compile(r"[\x21-\x39\x3b-\x7e]{1,64}"),
        "must be 1 to 64 printable ASCII characters without space and colon",
    ),
    "waitpoint_secret": (
        re.compile(r"(?:(?:[0-9a-fA-F]{2}){16,512})?"),
        "must be 16 to 512 bytes in hex, two digits each; `openssl rand -hex 32` makes one",
    ),
    "callback_url": (re.compile(r"https?://[^\s?#]+"), "must be an http:// or https:// address without query"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the store and how long to wait for it, how it is partitioned, its waitpoint tokens and links.

    The partition counts and lane_shards are written by the first client of the store and cannot change afterwards.
    """

    # The URL may hold a password, so it stays out of repr, logs and tracebacks; so do the secret and the token.
    url: str = field(default="embedded://", repr=False)
    connect_timeout_ms: int = 5_000
    command_timeout_ms: int = 10_000
    retry_budget_ms: int = 15_000
    num_flow_partitions: int = 256
    num_budget_partitions: int = 32
    num_quota_partitions: int = 32
    lane_shards: int = 0  # 0: as stored; the first client sets up 1 on one server and 8 in a cluster
    force_library_load: bool = False
    waitpoint_kid: str = "k1"  # the name of the secret
    waitpoint_secret: str = field(default="", repr=False)  # empty: another process seeds the store
    waitpoint_token: str = field(default="", repr=False)  # sent by `flowfabric signal`
    token: str = field(default="", repr=False)  # sent to an https:// server
    callback_url: str = "http://127.0.0.1:9090"  # the base address of waitpoint links

    def __post_init__(self) -> None:
        for name in _BOUNDS:
            _check_bounds(name, name, getattr(self, name))
        for name in _TEXTS:
            _check_text(name, name, getattr(self, name))

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


def given_in_env(prefix: str, kinds: Mapping[str, type], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Settings of these types from the variables FLOWFABRIC_<prefix>_<name>."""
    source = os.environ if environ is None else environ  # noqa: TID251 - this is the one place
    found = {name: f"{_PREFIX}{prefix}_{name.upper()}" for name in kinds}
    return {
        name: parse(variable, source[variable], kinds[name]) for name, variable in found.items() if variable in source
    }


def parse(shown_as: str, text: str, kind: type) -> str | int | bool | tuple[str, ...]:
    """One setting from text; a list is written with commas."""
    if kind is tuple:
        return tuple(each.strip() for each in text.split(",") if each.strip())
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(shown_as, text, "must be a whole number") from None
    return _parse_bool(shown_as, text) if kind is bool else text


def _parse(variable: str, name: str, text: str, kind: type) -> str | int | bool:
    if kind is bool:
        return _parse_bool(variable, text)
    if kind is int:
        return _parse_int(variable, name, text)
    if not text:
        raise InvalidInput(variable, text, "is set but empty")
    if name in _TEXTS:
        _check_text(variable, name, text)
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


def _check_text(shown_as: str, name: str, value: object) -> None:
    pattern, problem = _TEXTS[name]
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidInput(shown_as, "<redacted>" if name == "waitpoint_secret" else value, problem)


def _check_bounds(shown_as: str, name: str, value: object) -> None:
    low, high = _BOUNDS[name]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInput(shown_as, value, f"must be a whole number from {low} to {high}")

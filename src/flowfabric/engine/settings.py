"""Engine settings: intervals, batch sizes, retention and backoff."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from flowfabric.core import limits
from flowfabric.errors import InvalidInput

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000

_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "share_ttl_ms": (300, _MINUTE_MS),
    "look_ms": (50, _MINUTE_MS),
    "quick_look_ms": (1, _MINUTE_MS),
    "announce_ms": (100, _MINUTE_MS),
    "blocked_ms": (100, _HOUR_MS),
    "repair_ms": (10, _HOUR_MS),
    "retention_ms": (100, _HOUR_MS),
    "worker_expiry_ms": (100, _HOUR_MS),
    "reconcile_ms": (100, _HOUR_MS),
    "budgets_ms": (100, _HOUR_MS),
    "retain_ms": (0, limits.MAX_DURATION_MS),
    "keep_last": (0, limits.MAX_U32),
    "batch": (1, limits.BATCH_MAX_ITEMS),
    "budget_ms": (1, _MINUTE_MS),
    "calls_at_once": (1, 256),
    "jitter_pct": (0, 50),
    "set_aside_ms": (1, _HOUR_MS),
    "set_aside_most_ms": (1, _HOUR_MS),
    "stop_grace_ms": (0, _HOUR_MS),
}
_MAY_BE_NONE: Final = frozenset({"retain_ms", "keep_last"})


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Engine settings; docs/reference/engine.md explains each. Times are in milliseconds."""

    share_ttl_ms: int = 3_000
    look_ms: int = 2_000
    quick_look_ms: int = 250
    announce_ms: int = 1_000
    blocked_ms: int = 5_000
    repair_ms: int = 1_000
    retention_ms: int = 60_000
    worker_expiry_ms: int = 5_000
    reconcile_ms: int = 20_000
    budgets_ms: int = 300_000
    retain_ms: int | None = None
    keep_last: int | None = None
    batch: int = 100
    budget_ms: int = 200
    calls_at_once: int = 4
    jitter_pct: int = 10
    set_aside_ms: int = 1_000
    set_aside_most_ms: int = 60_000
    stop_grace_ms: int = 5_000

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is not None or setting.name not in _MAY_BE_NONE:
                limits.whole(setting.name, value, *_BOUNDS[setting.name])
        self._check_order("quick_look_ms", "look_ms")
        self._check_order("set_aside_ms", "set_aside_most_ms")
        if self.retain_ms is not None and self.keep_last is not None:
            raise InvalidInput("keep_last", self.keep_last, "must not be combined with retain_ms")

    def _check_order(self, lower: str, upper: str) -> None:
        value, most = getattr(self, lower), getattr(self, upper)
        if value > most:
            raise InvalidInput(lower, value, f"must be at most {upper}, which is {most}")

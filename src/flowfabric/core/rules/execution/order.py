"""Queue order within a lane: higher priority first, and older first within one priority."""

from __future__ import annotations

from flowfabric.core.limits import PRIORITY_MAX, PRIORITY_MIN

# Larger than any age, so that priority is strict in a lane without ageing.
STRICT_MS_PER_PRIORITY = 1_000_000_000_000


def clamp_priority(priority: int) -> int:
    """The public wire clamps priorities that our own ports refuse (D17)."""
    return min(max(priority, PRIORITY_MIN), PRIORITY_MAX)


def score(created_at: int, priority: int, ageing_ms_per_priority: int | None = None) -> int:
    """The lowest score is claimed first. With ageing, one step of priority equals this many milliseconds of waiting."""
    return created_at - priority * (ageing_ms_per_priority or STRICT_MS_PER_PRIORITY)

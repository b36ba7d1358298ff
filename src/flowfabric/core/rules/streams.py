"""Streams: which attempts may append, which frames are new, and how many are kept.

`lib/stream/stream_guard.lua`, `lib/stream/frames.lua` and `lib/stream/ephemeral_frames.lua` state the same rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from flowfabric.core import limits
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.states import AttemptState, TerminalOutcome

MAX_DELTAS = 64  # summary patches that a late reader can still read one by one
_SAFETY = 2  # best-effort frames are kept for twice their time to live

_BY_STATE = {
    "ended_success": "attempt_success", "ended_failure": "attempt_failure", "ended_cancelled": "attempt_cancelled",
    "interrupted_reclaimed": "lease_expired",
}  # fmt: skip
_BY_OUTCOME = {
    TerminalOutcome.SUCCESS: "attempt_success", TerminalOutcome.CANCELLED: "attempt_cancelled",
    TerminalOutcome.EXPIRED: "expired",
}  # fmt: skip


def check_sizes(sizes: Iterable[int], most: int) -> Refusal | None:
    """Refuse frames that are too large; the store's own cap always applies."""
    allowed = min(most, limits.MAX_FRAME_PAYLOAD_BYTES)
    if any(size > allowed for size in sizes):
        return Refusal("retention_limit_exceeded", {"most": allowed})
    return None


class Numbered(NamedTuple):
    """How many frames were numbered under one lease."""

    epoch: int
    frames: int


def known_frames(numbered: Numbered | None, epoch: int, first: int, count: int) -> int | Refusal:
    """How many of these frames are already in the stream.

    Frames of a batch are numbered from 0 under each lease: a repeated call adds none twice, and a call that overtook
    another one is refused.
    """
    have = numbered.frames if numbered and numbered.epoch == epoch else 0
    if first > have or first + count < have:
        return Refusal("frames_out_of_order", {"have": have})
    return have - first


class BestEffort(NamedTuple):
    """How many best-effort frames of a stream are kept: bounds, and how fast the measured rate adapts."""

    ttl_ms: int = 0
    floor: int = 64
    ceiling: int = 16_384
    alpha: float = 0.2


class Rate(NamedTuple):
    """Smoothed frames per second, and the time of the measurement."""

    hz: float
    at_ms: int


def best_effort_cap(rate: Rate | None, bounds: BestEffort, count: int, now: int) -> tuple[int, Rate]:
    """How many best-effort frames are kept after `count` more, and the new rate. The newest is always kept."""
    window = bounds.ttl_ms if bounds.ttl_ms > 0 else 1
    if rate is None:
        hz = bounds.floor * 1000 / (_SAFETY * window)
    else:
        old = (1 - bounds.alpha) ** count
        hz = old * rate.hz + (1 - old) * count * 1000 / max(1, now - rate.at_ms)
    most = math.ceil(hz * window * _SAFETY / 1000)
    return max(1, bounds.floor, min(most, max(bounds.ceiling, bounds.floor))), Rate(hz, now)


class Kept(NamedTuple):
    """Which durable frames are kept: the newest `most`, exactly or about, and none older than `age_ms` (0: any age)."""

    most: int
    is_exact: bool
    age_ms: int = 0


def kept_frames(asked: int, of_policy: int, age_ms: int = 0, void: int = 0) -> Kept:
    """The caller's cap overrides the policy's; without either there is a default.

    Void frames do not displace others: up to the cap they are kept beside it.
    """
    most = asked or of_policy or limits.DEFAULT_RETENTION_MAXLEN
    return Kept(most + min(void, most), asked > 0, age_ms)


def void_frames(before: Iterable[bool]) -> int:
    """How many frames a pass makes void that begins after these. Each value says whether a step emitted the frame.

    `lib/stream/passes.lua` states the same rule.
    """
    return sum(not is_of_step for is_of_step in before)


def next_time(last_ms: int, now: int) -> int:
    """Entry ids follow the store's clock and never go back, even if the clock does after a failover."""
    return max(last_ms, now)


class Ended(NamedTuple):
    """Facts about an attempt without a stream, from its own record and its execution's."""

    exists: bool  # the attempt was started
    archived_state: str | None = None  # how it ended, if its execution continued
    attempt_state: AttemptState = AttemptState.NONE
    outcome: TerminalOutcome = TerminalOutcome.NONE
    is_terminal: bool = False
    lease_expired: bool = False
    lease_revoked: bool = False


def closed_reason(facts: Ended) -> str | None:
    """Why an attempt without frames may no longer emit; None while it may."""
    if not facts.exists:
        return "never_started" if facts.is_terminal else None
    if facts.archived_state is not None:
        return _BY_STATE.get(facts.archived_state, "attempt_failure")
    if facts.attempt_state is AttemptState.ATTEMPT_TERMINAL:
        return _BY_OUTCOME.get(facts.outcome, "attempt_failure")
    if facts.lease_expired:
        return "lease_expired"
    return "lease_revoked" if facts.lease_revoked else None

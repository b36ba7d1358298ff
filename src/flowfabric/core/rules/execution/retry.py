"""Whether and when a failed attempt is retried.

`lib/lease/retry.lua` repeats these rules; both use whole milliseconds, so they agree exactly.
"""

from __future__ import annotations

import hashlib
import math

from flowfabric.core import limits
from flowfabric.core.policy import Backoff, FixedBackoff, RetryPolicy
from flowfabric.errors import InvalidInput


def should_retry(policy: RetryPolicy | None, retry_count: int, category: str) -> bool:
    """Whether a failure of `category`, after `retry_count` retries, is retried."""
    limits.whole("retry_count", retry_count, 0, limits.MAX_SAFE_INTEGER)
    if policy is None or retry_count >= policy.max_retries:
        return False
    return not policy.retryable_categories or category in policy.retryable_categories


def retry_delay_ms(
    policy: RetryPolicy,
    retry_count: int,
    requested_delay_ms: int | None = None,
    jitter_fraction: float | None = None,
) -> int:
    """The pause before the next attempt; a pause requested by the handler overrides the policy, up to a day."""
    if requested_delay_ms is None:
        return backoff_delay_ms(policy.backoff, retry_count, jitter_fraction)
    limits.whole("requested_delay_ms", requested_delay_ms, 0, limits.MAX_SAFE_INTEGER)
    return min(requested_delay_ms, limits.MAX_REQUESTED_RETRY_DELAY_MS)


def backoff_delay_ms(backoff: Backoff, retry_count: int, jitter_fraction: float | None = None) -> int:
    """The policy's own pause after `retry_count` retries, jittered if the policy asks for it."""
    limits.whole("retry_count", retry_count, 0, limits.MAX_SAFE_INTEGER)
    if isinstance(backoff, FixedBackoff):
        return backoff.delay_ms
    delay = _grown(backoff.initial_delay_ms, backoff.multiplier, retry_count, backoff.max_delay_ms)
    if not backoff.jitter or jitter_fraction is None:
        return delay
    if not 0 <= jitter_fraction < 1:
        raise InvalidInput("jitter_fraction", jitter_fraction, "must be from 0 up to, not including, 1")
    half = delay // 2
    return half + math.floor(jitter_fraction * (delay - half))


def jitter_fraction(seed: str) -> float:
    """A number in [0, 1) that depends only on `seed`, so that a repeated call gives the same delay."""
    digest = hashlib.sha1(seed.encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) / 2**32


def _grown(initial: int, multiplier: float, retry_count: int, ceiling: int) -> int:
    if initial == 0:
        return 0  # zero times infinity is no delay either
    try:
        delay = initial * float(multiplier) ** retry_count
    except OverflowError:
        return ceiling
    return math.floor(min(delay, ceiling))

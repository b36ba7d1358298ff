from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.policy import ExponentialBackoff, FixedBackoff, RetryPolicy
from flowfabric.core.rules.execution.retry import backoff_delay_ms, jitter_fraction, retry_delay_ms, should_retry
from flowfabric.errors import InvalidInput

DAY = 86_400_000
BACKOFFS = st.builds(
    lambda initial, extra, multiplier: ExponentialBackoff(
        initial_delay_ms=initial, max_delay_ms=initial + extra, multiplier=multiplier
    ),
    st.integers(0, 100_000),
    st.integers(0, 10_000_000),
    st.floats(1, 1000),
)
COUNTS = st.integers(0, 10_000)
FRACTIONS = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("count", "delay"), [(0, 1000), (1, 2000), (2, 4000), (5, 32_000), (6, 60_000), (99, 60_000)])
def test_the_default_backoff_doubles_up_to_a_minute(count: int, delay: int) -> None:
    assert backoff_delay_ms(ExponentialBackoff(), count) == delay


def test_a_fraction_of_a_millisecond_is_dropped() -> None:
    assert backoff_delay_ms(ExponentialBackoff(initial_delay_ms=333, multiplier=1.5), 1) == 499


@given(BACKOFFS, COUNTS)
def test_delays_grow_and_stay_within_their_bounds(backoff: ExponentialBackoff, count: int) -> None:
    delay = backoff_delay_ms(backoff, count)
    assert type(delay) is int
    assert backoff.initial_delay_ms <= delay <= backoff.max_delay_ms or backoff.initial_delay_ms == delay == 0
    assert delay <= backoff_delay_ms(backoff, count + 1)


@pytest.mark.parametrize("count", [2_000, 2**53 - 1])
def test_a_huge_retry_count_reaches_the_ceiling_without_overflowing(count: int) -> None:
    assert backoff_delay_ms(ExponentialBackoff(), count) == 60_000
    assert backoff_delay_ms(ExponentialBackoff(initial_delay_ms=0), count) == 0
    assert backoff_delay_ms(ExponentialBackoff(multiplier=1.0), count) == 1_000


@given(COUNTS)
def test_a_fixed_backoff_never_changes(count: int) -> None:
    assert backoff_delay_ms(FixedBackoff(delay_ms=250), count, 0.5) == 250


@given(st.integers(0, 31_536_000_000), FRACTIONS)
def test_jitter_takes_away_at_most_half(delay: int, fraction: float) -> None:
    backoff = ExponentialBackoff(initial_delay_ms=delay, max_delay_ms=delay, jitter=True)
    jittered = backoff_delay_ms(backoff, 0, fraction)
    assert type(jittered) is int
    assert delay // 2 <= jittered <= delay


def test_jitter_is_half_the_delay_plus_a_share_of_the_rest() -> None:
    backoff = ExponentialBackoff(initial_delay_ms=1001, jitter=True)
    assert [backoff_delay_ms(backoff, 0, fraction) for fraction in (0, 0.5, 0.999)] == [500, 750, 1000]


def test_no_jitter_unless_the_policy_asks_for_it_and_a_fraction_is_given() -> None:
    assert backoff_delay_ms(ExponentialBackoff(), 0, 0.1) == 1000
    assert backoff_delay_ms(ExponentialBackoff(jitter=True), 0) == 1000


@pytest.mark.parametrize("fraction", [1.0, -0.1, float("nan")])
def test_a_fraction_outside_its_range_is_refused(fraction: float) -> None:
    with pytest.raises(InvalidInput, match="jitter_fraction"):
        backoff_delay_ms(ExponentialBackoff(jitter=True), 0, fraction)


@given(st.text())
def test_a_seed_always_gives_the_same_fraction(seed: str) -> None:
    fraction = jitter_fraction(seed)
    assert 0 <= fraction < 1
    assert fraction == int(hashlib.sha1(seed.encode()).hexdigest()[:8], 16) / 2**32


def test_a_known_seed_gives_a_known_fraction() -> None:
    assert jitter_fraction("abc") == 0xA9993E36 / 2**32


@pytest.mark.parametrize(("count", "allowed"), [(0, True), (2, True), (3, False), (100, False)])
def test_retries_are_counted_against_the_policy(count: int, allowed: bool) -> None:
    assert should_retry(RetryPolicy(max_retries=3), count, "transient") is allowed


def test_without_a_policy_there_is_no_retry() -> None:
    assert not should_retry(None, 0, "transient")
    assert not should_retry(RetryPolicy(max_retries=0), 0, "transient")


def test_a_list_of_categories_limits_what_is_retried() -> None:
    policy = RetryPolicy(retryable_categories=("transient", "timeout"))
    assert should_retry(policy, 0, "timeout")
    assert not should_retry(policy, 0, "permanent")
    assert not should_retry(policy, 3, "timeout")


def test_a_requested_delay_wins_over_the_policy_up_to_a_day() -> None:
    policy = RetryPolicy(backoff=FixedBackoff(delay_ms=10))
    assert retry_delay_ms(policy, 0) == 10
    assert retry_delay_ms(policy, 0, 0) == 0
    assert retry_delay_ms(policy, 0, 5_000) == 5_000
    assert retry_delay_ms(policy, 0, DAY) == DAY
    assert retry_delay_ms(policy, 0, DAY + 1) == DAY


def test_a_requested_delay_is_not_jittered() -> None:
    assert retry_delay_ms(RetryPolicy(backoff=ExponentialBackoff(jitter=True)), 0, 500, 0.0) == 500
    assert retry_delay_ms(RetryPolicy(backoff=ExponentialBackoff(jitter=True)), 0, None, 0.0) == 500


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_counts_and_delays_are_whole_numbers_from_zero(value: int) -> None:
    with pytest.raises(InvalidInput, match="retry_count"):
        backoff_delay_ms(ExponentialBackoff(), value)
    with pytest.raises(InvalidInput, match="retry_count"):
        should_retry(RetryPolicy(), value, "")
    with pytest.raises(InvalidInput, match="requested_delay_ms"):
        retry_delay_ms(RetryPolicy(), 0, value)

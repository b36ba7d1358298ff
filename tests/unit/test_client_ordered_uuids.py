"""Ids in the order of submission."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.client.ordered_uuids import OrderedUuids


def clock(times: Iterable[int]) -> OrderedUuids:
    each = iter(times)
    return OrderedUuids(lambda: next(each))


@given(st.lists(st.integers(1, 2**48 - 10), min_size=2, max_size=50))
def test_each_is_greater_than_the_one_before_even_if_the_clock_goes_back(times: list[int]) -> None:
    uuids = clock(times)
    made = [uuids.next() for _ in times]
    assert made == sorted(set(made))


def test_they_are_uuids_of_version_seven_that_tell_their_time() -> None:
    made = uuid.UUID(clock([1_794_794_441_137]).next())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == 1_794_794_441_137


def test_thousands_of_one_millisecond_stay_in_order() -> None:
    uuids = clock([5] * 10_000)
    made = [uuids.next() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_two_makers_do_not_meet() -> None:
    first, second = clock([7] * 2_000), clock([7] * 2_000)
    assert not {first.next() for _ in range(2_000)} & {second.next() for _ in range(2_000)}


@pytest.mark.parametrize("count", [1, 500])
def test_the_real_clock_serves(count: int) -> None:
    uuids = OrderedUuids()
    made = [uuids.next() for _ in range(count)]
    assert made == sorted(set(made))

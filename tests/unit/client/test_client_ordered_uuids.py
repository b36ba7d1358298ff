"""Ids in the order of submission that cannot be predicted."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.client.ordered_uuids import OrderedUuids

MS = 1_000_000
FIXED = (1 << 128) - (1 << 68) | 0b11 << 62  # time, version, part of the millisecond; variant
RANDOM_BITS = [bit for bit in range(128) if not FIXED >> bit & 1]


def clock(times_ms: Iterable[int]) -> OrderedUuids:
    each = iter(times_ms)
    return OrderedUuids(lambda: next(each) * MS)


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


def test_makers_of_one_machine_take_turns_within_a_millisecond() -> None:
    first, second = OrderedUuids(lambda: 7 * MS + 100_000), OrderedUuids(lambda: 7 * MS + 900_000)
    assert first.next() < second.next() < OrderedUuids(lambda: 8 * MS).next()


def test_two_makers_do_not_meet() -> None:
    first, second = clock([7] * 2_000), clock([7] * 2_000)
    assert not {first.next() for _ in range(2_000)} & {second.next() for _ in range(2_000)}


@pytest.mark.parametrize("count", [1, 500])
def test_the_real_clock_serves(count: int) -> None:
    uuids = OrderedUuids()
    made = [uuids.next() for _ in range(count)]
    assert made == sorted(set(made))


def test_each_has_at_least_64_random_bits_of_its_own() -> None:
    """Every such bit is set in about half of the ids, and changes from one id to the next in about half of the cases.

    A counter or a part that is drawn once fails either; 8 000 draws miss 44 to 56 % less than once in 10^26.
    """
    uuids, count = clock([9] * 8_000), 8_000
    made = [uuid.UUID(uuids.next()).int for _ in range(count)]
    changes = [one ^ other for one, other in pairwise(made)]
    assert len(RANDOM_BITS) >= 64
    for values in (made, changes):
        often = Counter(bit for value in values for bit in RANDOM_BITS if value >> bit & 1)
        assert [bit for bit in RANDOM_BITS if not 0.44 < often[bit] / count < 0.56] == []


def test_the_random_bits_of_an_id_come_with_no_other() -> None:
    uuids = clock([9] * 8_000)
    drawn = [uuid.UUID(uuids.next()).int & ~FIXED for _ in range(8_000)]
    assert len(set(drawn)) == len(drawn)
    assert len({value & (1 << 48) - 1 for value in drawn}) == len(drawn), "of the last 48 bits alone"


def test_a_forked_process_makes_other_ids() -> None:
    """Both go on with the same clock, and what was drawn before the fork is the parent's alone."""
    uuids = OrderedUuids(lambda: 5 * MS)
    uuids.next()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, "\n".join(uuids.next() for _ in range(50)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = pipe.read().split("\n")
    ours = [uuids.next() for _ in range(50)]
    assert len(theirs) == 50
    assert not {each[-16:] for each in ours} & {each[-16:] for each in theirs}


def test_threads_never_get_the_same_random_bits() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def make(into: list[str]) -> None:
        uuids = OrderedUuids(lambda: 5 * MS)
        into += [uuids.next() for _ in range(5_000)]

    threads = [Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends = [each[-16:] for into in made for each in into]
    assert len(set(ends)) == len(ends)

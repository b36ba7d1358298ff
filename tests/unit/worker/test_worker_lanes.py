"""Fair sharing between lanes, and what a worker remembers of announced work."""

from __future__ import annotations

from collections import Counter

from flowfabric.core.ids import LaneId
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.worker.loop.lanes import Ask, Lanes

A, B = LaneId("a"), LaneId("b")


def part(index: int) -> Partition:
    return Partition(PartitionFamily.FLOW, index)


def served(lanes: Lanes, rounds: int, free: int, full: set[LaneId]) -> Counter[str]:
    """Claim again and again; lanes in `full` always have work."""
    counts: Counter[str] = Counter()
    for _ in range(rounds):
        asks: list[Ask] = []
        left = free
        while left > 0 and (ask := lanes.next(left)) is not None:
            left -= ask.count
            asks.append(ask)
        for ask in asks:
            lane = ask.place.lane.lane_id
            got = ask.count if lane in full else 0
            counts[lane] += got
            lanes.answered(ask, got)
    return counts


def test_nothing_is_asked_for_before_work_was_heard_of() -> None:
    assert Lanes({A: 1}, largest=10).next(5) is None


def test_a_claim_asks_for_the_free_slots_and_no_more_than_one_call_takes() -> None:
    lanes = Lanes({A: 1}, largest=10)
    lanes.hear([(A, part(1))])
    ask = lanes.next(64)
    assert ask is not None
    assert (ask.count, ask.place.partition) == (10, part(1))


def test_a_place_is_forgotten_when_a_claim_comes_back_with_less() -> None:
    lanes = Lanes({A: 1}, largest=10)
    lanes.hear([(A, part(1))])
    ask = lanes.next(4)
    assert ask is not None
    lanes.answered(ask, 3)
    assert lanes.next(4) is None
    assert not lanes.have_work


def test_work_announced_while_a_claim_was_out_is_not_forgotten() -> None:
    lanes = Lanes({A: 1}, largest=10)
    lanes.hear([(A, part(1))])
    ask = lanes.next(4)
    assert ask is not None
    lanes.hear([(A, part(1))])
    lanes.answered(ask, 0)
    assert lanes.next(4) is not None


def test_a_second_claim_goes_out_only_where_the_last_one_was_answered_in_full() -> None:
    lanes = Lanes({A: 1}, largest=4)
    lanes.hear([(A, part(1))])
    first = lanes.next(8)
    assert first is not None
    assert lanes.next(4) is None
    lanes.answered(first, 4)
    assert lanes.next(8) is not None
    assert lanes.next(4) is not None
    assert lanes.next(4) is None


def test_the_partitions_of_a_lane_take_turns() -> None:
    lanes = Lanes({A: 1}, largest=4)
    lanes.hear([(A, part(1)), (A, part(2)), (A, part(3))])
    asked = []
    for _ in range(6):
        ask = lanes.next(4)
        assert ask is not None
        asked.append(ask.place.partition.index)
        lanes.answered(ask, 4)
    assert asked == [1, 2, 3, 1, 2, 3]


def test_lanes_share_by_weight() -> None:
    lanes = Lanes({A: 3, B: 1}, largest=10)
    lanes.hear([(A, part(1)), (B, part(2))])
    counts = served(lanes, rounds=200, free=8, full={A, B})
    assert 2.8 < counts[A] / counts[B] < 3.2


def test_one_free_slot_at_a_time_is_shared_too() -> None:
    lanes = Lanes({A: 3, B: 1}, largest=10)
    lanes.hear([(A, part(1)), (B, part(2))])
    counts = served(lanes, rounds=400, free=1, full={A, B})
    assert 2.8 < counts[A] / counts[B] < 3.2


def test_a_lane_without_work_leaves_its_share_to_the_others() -> None:
    lanes = Lanes({A: 1, B: 100}, largest=10)
    lanes.hear([(A, part(1))])
    assert served(lanes, rounds=10, free=10, full={A}) == {"a": 100}


def test_what_a_lane_did_not_use_is_not_saved_up() -> None:
    lanes = Lanes({A: 1, B: 1}, largest=10)
    lanes.hear([(A, part(1))])
    served(lanes, rounds=100, free=10, full={A})
    lanes.hear([(B, part(2))])
    counts = served(lanes, rounds=10, free=10, full={A, B})
    assert abs(counts[A] - counts[B]) <= 20


def test_asking_in_vain_costs_a_lane_nothing() -> None:
    lanes = Lanes({A: 1, B: 1}, largest=10)
    for _ in range(50):
        lanes.hear([(B, part(2))])
        served(lanes, rounds=1, free=10, full=set())
    lanes.hear([(A, part(1)), (B, part(2))])
    counts = served(lanes, rounds=10, free=10, full={A, B})
    assert counts[B] >= 40


def test_a_lane_whose_claim_is_out_is_not_overtaken_for_long() -> None:
    lanes = Lanes({A: 1, B: 1}, largest=4)
    lanes.hear([(A, part(1)), (B, part(2))])
    slow = lanes.next(4)
    assert slow is not None
    other = B if slow.place.lane.lane_id == A else A
    given = 0
    while (ask := lanes.next(4)) is not None:
        assert ask.place.lane.lane_id == other
        given += ask.count
        lanes.answered(ask, ask.count)
    assert given <= 12


def test_a_place_whose_claim_failed_is_left_alone_until_it_is_resumed() -> None:
    lanes = Lanes({A: 1}, largest=4)
    lanes.hear([(A, part(1))])
    ask = lanes.next(4)
    assert ask is not None
    lanes.failed(ask)
    assert lanes.next(4) is None
    lanes.resume(ask.place)
    assert lanes.next(4) is not None


def test_announcements_of_other_lanes_are_ignored() -> None:
    lanes = Lanes({A: 1}, largest=4)
    lanes.hear([(B, part(1))])
    assert lanes.next(4) is None

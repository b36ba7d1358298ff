"""What the benchmarks calculate from their samples."""

from __future__ import annotations

import pytest

from benchmarks.figures import NOTHING, Sample, Spread, dearer, faster, in_turn


def sample(lives: int = 100, cpu_us: float = 1000.0, seconds: float = 1.0) -> Sample:
    return Sample(lives, cpu_us, seconds, wire_bytes=50.0 * lives)


def test_samples_add_up() -> None:
    both = NOTHING + sample(100, 1000.0, 0.5) + sample(300, 1000.0, 1.5)
    assert both == Sample(400, 2000.0, 2.0, 20_000.0)
    assert (both.cpu_per_life, both.lives_per_second, both.bytes_per_life) == (5.0, 200.0, 50.0)


def test_a_ratio_is_that_of_the_sums_and_not_the_mean_of_the_ratios() -> None:
    mine = sample(cpu_us=100.0) + sample(cpu_us=1000.0)
    theirs = sample(cpu_us=100.0) + sample(cpu_us=400.0)
    assert dearer([mine], [theirs]).median == pytest.approx(2.2)


def test_repetitions_give_a_median_and_a_spread() -> None:
    mine = [sample(cpu_us=us) for us in (3000.0, 1000.0, 2000.0)]
    assert dearer(mine, [sample()] * 3) == Spread(2.0, 1.0, 3.0)


def test_a_repetition_is_compared_with_the_same_repetition() -> None:
    slow_then_quick = [sample(cpu_us=2000.0), sample(cpu_us=1000.0)]
    assert dearer(slow_then_quick, slow_then_quick) == Spread(1.0, 1.0, 1.0)


def test_faster_is_more_lives_in_the_same_time_whatever_the_number_of_lives() -> None:
    assert faster([sample(200, seconds=1.0)], [sample(100, seconds=2.0)]).median == 4.0


def test_repetitions_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        dearer([sample()], [sample(), sample()])


def test_a_spread_is_shown_with_its_ends() -> None:
    assert str(Spread(1.0, 0.9, 1.25)) == "1.00 (0.90-1.25)"


def test_everybody_begins_equally_often() -> None:
    orders = [in_turn("abc", turn) for turn in range(6)]
    assert orders[:3] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert orders[3:] == orders[:3]

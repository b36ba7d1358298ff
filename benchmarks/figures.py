"""Sums, ratios and spreads.

A neighbour can halve a machine for seconds, so whatever is compared takes short turns, and only sums over the same
turns are divided by each other: one ratio a repetition, shown as the median of the repetitions and their spread.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """What some lives took."""

    lives: int
    cpu_us: float
    seconds: float
    wire_bytes: float

    def __add__(self, other: Sample) -> Sample:
        return Sample(
            self.lives + other.lives,
            self.cpu_us + other.cpu_us,
            self.seconds + other.seconds,
            self.wire_bytes + other.wire_bytes,
        )

    @property
    def cpu_per_life(self) -> float:
        return self.cpu_us / self.lives

    @property
    def lives_per_second(self) -> float:
        return self.lives / self.seconds

    @property
    def bytes_per_life(self) -> float:
        return self.wire_bytes / self.lives


NOTHING = Sample(0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Run:
    """What some tasks of one system took: time, processor time of its program and of the server."""

    tasks: int
    seconds: float
    cpu_us: float
    server_us: float
    latencies_us: tuple[float, ...] = ()

    @classmethod
    def told(cls, facts: Mapping[str, Any], server_us: float) -> Run:
        latencies = tuple(facts.get("latencies_us", ()))
        return cls(facts["tasks"], facts["seconds"], facts["cpu_us"], server_us, latencies)


@dataclass(frozen=True)
class Spread:
    """The same figure in every repetition."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        values = list(values)
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def dearer(these: Iterable[Sample], those: Iterable[Sample]) -> Spread:
    """Processor time per life of these to that of those, repetition by repetition."""
    return Spread.of(this.cpu_per_life / that.cpu_per_life for this, that in zip(these, those, strict=True))


def faster(these: Iterable[Sample], those: Iterable[Sample]) -> Spread:
    """Lives per second of these to those of those, repetition by repetition."""
    return Spread.of(this.lives_per_second / that.lives_per_second for this, that in zip(these, those, strict=True))


def ratio(these: Iterable[float], those: Iterable[float]) -> Spread:
    """A figure of these to that of those, repetition by repetition."""
    return Spread.of(this / that for this, that in zip(these, those, strict=True))


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def in_turn(items: Sequence[T], turn: int) -> list[T]:
    """Each turn another one begins, so that nobody always runs after the same neighbour."""
    first = turn % len(items)
    return [*items[first:], *items[:first]]

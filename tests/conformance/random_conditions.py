"""Random conditions over a few waitpoints, signal names and sources; whoever draws decides what random is."""

from __future__ import annotations

from random import Random

from flowfabric.core.conditions import (
    AllOf,
    ByName,
    Count,
    CountKind,
    MatchMode,
    OperatorOnly,
    ResumeCondition,
    SignalMatcher,
    SignalSet,
    Single,
    TimeoutOnly,
    Wildcard,
)
from flowfabric.core.ids import WaitpointKey

KEYS = tuple(WaitpointKey(key) for key in "abc")
NAMES = ("go", "stop")
SOURCES = (("human", "ann"), ("human", "bob"), ("tool", "ann"))


def _matcher(rng: Random) -> SignalMatcher:
    choices: tuple[SignalMatcher, ...] = (Wildcard(), *map(ByName, NAMES))
    return rng.choice(choices)


def single(rng: Random) -> Single:
    return Single(rng.choice(KEYS), _matcher(rng))


def count(rng: Random) -> Count:
    keys = tuple(rng.sample(KEYS, rng.randint(1, len(KEYS))))
    kind = rng.choice(tuple(CountKind))
    most = len(keys) if kind is CountKind.DISTINCT_WAITPOINTS else 3
    return Count(rng.randint(1, most), kind, keys, rng.choice((None, _matcher(rng))))


def tree(rng: Random, levels: int) -> AllOf | Count:
    """A composite condition of at most so many levels; a Single may stand below the last one."""
    if rng.random() < 0.3:
        return count(rng)
    return AllOf(tuple(_member(rng, levels) for _ in range(rng.randint(1, 3))))


def _member(rng: Random, levels: int) -> ResumeCondition:
    return single(rng) if levels == 1 or rng.random() < 0.4 else tree(rng, levels - 1)


def _signal_set(rng: Random) -> SignalSet:
    names = tuple(rng.choice((*NAMES, "")) for _ in range(rng.randint(0, 3)))
    return SignalSet(names, rng.choice(tuple(MatchMode)), rng.randint(1, max(1, len(names))))


def condition(rng: Random) -> ResumeCondition:
    """Any kind of condition that a suspension may have."""
    kinds = (single, _signal_set, count, lambda r: tree(r, 2), lambda r: tree(r, 3))
    rare = (lambda _: OperatorOnly(), lambda _: TimeoutOnly())
    return rng.choice(rare if rng.random() < 0.1 else kinds)(rng)

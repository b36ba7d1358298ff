"""The progress of a condition: what its signals have satisfied so far, and which of them counted.

A store may keep tallies; these functions count from the start each time and define the correct tallies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flowfabric.core.conditions import (
    AllOf,
    Count,
    CountKind,
    Delivery,
    ResumeCondition,
    SignalMatcher,
    SignalSet,
    Single,
    Wildcard,
    is_satisfied,
)
from flowfabric.core.contracts.waits.signals import SignalEffect
from flowfabric.core.ids import WaitpointId, WaitpointKey
from flowfabric.core.rules.execution.record import Arrival

Keys = Mapping[WaitpointId, WaitpointKey]


def accepts(condition: ResumeCondition, key: WaitpointKey, name: str) -> bool:
    """Whether the condition accepts a signal of this name at the waitpoint of this key."""
    if isinstance(condition, SignalSet):
        return any(matcher.accepts(name) for matcher in condition.matchers)
    return any(key in keys and matcher.accepts(name) for keys, matcher in map(_looks_at, _leaves(condition)))


def progress(condition: ResumeCondition, keys: Keys, deliveries: Sequence[Delivery]) -> int:
    """How many items count, over all leaves; a signal that adds none does not count."""
    if isinstance(condition, SignalSet):
        return _names_used(condition, [each.signal_name for each in deliveries])
    arrived = [(keys[each.waitpoint_id], each) for each in deliveries]
    return sum(len(set(_counted(leaf, arrived))) for leaf in _leaves(condition))


def effect_of(condition: ResumeCondition, keys: Keys, before: Sequence[Delivery], delivery: Delivery) -> SignalEffect:
    """The effect of one more signal after the earlier ones."""
    after = [*before, delivery]
    if progress(condition, keys, after) > progress(condition, keys, before):
        return SignalEffect.RESUMED if is_satisfied(condition, after, keys) else SignalEffect.APPENDED
    if not isinstance(condition, AllOf | Count):
        return SignalEffect.NO_OP
    key = keys[delivery.waitpoint_id]
    if all(key not in looked_at for looked_at, _ in map(_looks_at, _leaves(condition))):
        return SignalEffect.IGNORED_NOT_IN_CONDITION
    is_taken = accepts(condition, key, delivery.signal_name)
    return SignalEffect.APPENDED_DUPLICATE if is_taken else SignalEffect.IGNORED_BY_MATCHER


def useful(condition: ResumeCondition, keys: Keys, arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    """The ids of the signals that counted, in order of arrival."""
    deliveries = [each.delivery for each in arrivals]
    counted = [progress(condition, keys, deliveries[:n]) for n in range(len(deliveries) + 1)]
    found = [each for n, each in enumerate(arrivals) if counted[n + 1] > counted[n]]
    return tuple(each.delivery.signal_id for each in sorted(found, key=lambda each: each.position))


def _leaves(condition: ResumeCondition) -> Iterator[Single | Count]:
    if isinstance(condition, AllOf):
        for member in condition.members:
            yield from _leaves(member)
    elif isinstance(condition, Single | Count):
        yield condition


def _looks_at(leaf: Single | Count) -> tuple[tuple[str, ...], SignalMatcher]:
    if isinstance(leaf, Single):
        return (leaf.waitpoint_key,), leaf.matcher
    return leaf.waitpoints, leaf.matcher or Wildcard()


def _counted(leaf: Single | Count, arrived: list[tuple[WaitpointKey, Delivery]]) -> Iterator[tuple[str, ...]]:
    keys, matcher = _looks_at(leaf)
    for key, each in arrived:
        if key not in keys or not matcher.accepts(each.signal_name):
            continue
        if isinstance(leaf, Single):
            yield ("one is enough",)
        elif leaf.count_kind is CountKind.DISTINCT_WAITPOINTS:
            yield (each.waitpoint_id,)
        elif leaf.count_kind is CountKind.DISTINCT_SIGNALS:
            yield (each.signal_id,)
        else:
            yield each.source_type, each.source_identity


def _names_used(wanted: SignalSet, names: list[str]) -> int:
    """Each signal uses up the first remaining name that accepts it."""
    left = list(wanted.matchers)
    for name in names:
        taken = next((matcher for matcher in left if matcher.accepts(name)), None)
        if taken is not None:
            left.remove(taken)
    return len(wanted.matchers) - len(left)

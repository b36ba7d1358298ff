"""What waiting should be, in memory: waitpoints, the latest suspension, and what a signal does to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from flowfabric.core import contracts as c
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
from flowfabric.core.ids import SuspensionId, WaitpointId, WaitpointKey, WaitpointToken
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.core.states import BlockingReason

BLOCKING = {
    c.SuspensionReasonCode.WAITING_FOR_SIGNAL: BlockingReason.WAITING_FOR_SIGNAL,
    c.SuspensionReasonCode.WAITING_FOR_APPROVAL: BlockingReason.WAITING_FOR_APPROVAL,
    c.SuspensionReasonCode.STEP_BOUNDARY: BlockingReason.WAITING_FOR_SIGNAL,
    c.SuspensionReasonCode.MANUAL_PAUSE: BlockingReason.PAUSED_BY_OPERATOR,
}


@dataclass
class Waitpoint:
    """state: pending until somebody waits there, then active, then closed."""

    waitpoint_id: WaitpointId
    waitpoint_key: WaitpointKey
    waitpoint_token: WaitpointToken
    state: c.WaitpointState
    expires_at: int = 0  # of a pending one
    is_written: bool = True  # or known by its suspension alone
    buffered: list[tuple[int, Delivery]] = field(default_factory=list)  # by their arrival, which is a number
    keys: dict[str, str] = field(default_factory=dict)  # signals by their idempotency keys

    @property
    def is_pending(self) -> bool:
        return self.state is c.WaitpointState.PENDING

    def is_open(self, now: int) -> bool:
        return self.state is c.WaitpointState.ACTIVE or (self.is_pending and self.expires_at > now)

    def close(self) -> None:
        self.state = c.WaitpointState.CLOSED

    def issue(self, token: WaitpointToken) -> None:
        self.waitpoint_token, self.is_written = token, True


@dataclass
class Suspension:
    """The deliveries are all that were accepted for it, by their arrival, in the order of crediting."""

    suspension_id: SuspensionId
    condition: ResumeCondition
    waitpoints: list[Waitpoint]
    reason: c.SuspensionReasonCode
    timeout_at: int | None
    behavior: TimeoutBehavior
    delay: int
    pointer: str
    deliveries: list[tuple[int, Delivery]] = field(default_factory=list)
    close_reason: str | None = None
    resume_signals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for waitpoint in self.waitpoints:
            self.deliveries += waitpoint.buffered
            waitpoint.state, waitpoint.buffered = c.WaitpointState.ACTIVE, []

    @property
    def is_open(self) -> bool:
        return self.close_reason is None

    @property
    def blocking_reason(self) -> BlockingReason:
        return BLOCKING[self.reason]

    @property
    def keys(self) -> dict[WaitpointId, WaitpointKey]:
        return {each.waitpoint_id: each.waitpoint_key for each in self.waitpoints}

    @property
    def is_met(self) -> bool:
        return is_satisfied(self.condition, [each for _, each in self.deliveries], self.keys)

    def deliver(self, arrival: int, delivery: Delivery) -> c.SignalEffect:
        before = self._tally()
        self.deliveries.append((arrival, delivery))
        if self._tally() > before:
            return c.SignalEffect.RESUMED if self.is_met else c.SignalEffect.APPENDED
        if not isinstance(self.condition, AllOf | Count):
            return c.SignalEffect.NO_OP
        taken = self.takes(self.keys[delivery.waitpoint_id], delivery.signal_name)
        return c.SignalEffect.APPENDED_DUPLICATE if taken else c.SignalEffect.IGNORED_BY_MATCHER

    def takes(self, key: WaitpointKey, name: str) -> bool:
        """Is a signal of this name of use at the waitpoint of this key?"""
        if isinstance(self.condition, SignalSet):
            return any(matcher.accepts(name) for matcher in self.condition.matchers)
        return any(key in keys and matcher.accepts(name) for keys, matcher in _leaves(self.condition))

    def close(self, reason: str) -> None:
        """Whatever ends it closes its waitpoints; the signals that were of use count if they ended it."""
        if not self.is_open:
            return
        self.close_reason = reason
        for waitpoint in self.waitpoints:
            waitpoint.close()
        if reason == "resumed":
            self.resume_signals = [signal_id for _, signal_id in sorted(self._useful())]

    def escalate(self) -> None:
        self.reason = c.SuspensionReasonCode.WAITING_FOR_OPERATOR_REVIEW
        self.timeout_at = None

    def leave_timeout_signal(self) -> None:
        self.resume_signals = [str(self.suspension_id)]

    def _useful(self) -> Iterator[tuple[int, str]]:
        tally = 0
        for at, (arrival, delivery) in enumerate(self.deliveries):
            if self._tally(at + 1) > tally:
                tally = self._tally(at + 1)
                yield arrival, delivery.signal_id

    def _tally(self, first: int | None = None) -> int:
        """How many things count so far, over all leaves, of the first deliveries: a signal that adds none is no use."""
        keys = self.keys
        arrived = [(keys[each.waitpoint_id], each) for _, each in self.deliveries[:first]]
        if isinstance(self.condition, SignalSet):
            return _used_up(self.condition, [each.signal_name for _, each in arrived])
        return sum(len(set(_distinct(leaf, arrived))) for leaf in _leaf_nodes(self.condition))


def _leaf_nodes(condition: ResumeCondition) -> Iterator[Single | Count]:
    if isinstance(condition, AllOf):
        for member in condition.members:
            yield from _leaf_nodes(member)
    elif isinstance(condition, Single | Count):
        yield condition


def _leaves(condition: ResumeCondition) -> Iterator[tuple[tuple[WaitpointKey, ...], SignalMatcher]]:
    for leaf in _leaf_nodes(condition):
        if isinstance(leaf, Single):
            yield (leaf.waitpoint_key,), leaf.matcher
        else:
            yield leaf.waitpoints, leaf.matcher or Wildcard()


def _distinct(leaf: Single | Count, arrived: list[tuple[WaitpointKey, Delivery]]) -> Iterator[tuple[str, ...]]:
    ((keys, matcher),) = _leaves(leaf)
    for key, each in arrived:
        if key not in keys or not matcher.accepts(each.signal_name):
            continue
        if isinstance(leaf, Single):
            yield ("one is enough",)
        elif leaf.count_kind is CountKind.DISTINCT_WAITPOINTS:
            yield (key,)
        elif leaf.count_kind is CountKind.DISTINCT_SIGNALS:
            yield (each.signal_id,)
        else:
            yield each.source_type, each.source_identity


def _used_up(wanted: SignalSet, names: list[str]) -> int:
    """Each signal takes the first name that is left and accepts it."""
    left = list(wanted.signal_names or ("",))
    for name in names:
        taken = next((each for each in left if each in ("", name)), None)
        if taken is not None:
            left.remove(taken)
    return len(wanted.signal_names or ("",)) - len(left)

"""The conditions a suspension waits for, checked when they are built, and a simple test of when one is met.

Single                      a signal that its matcher accepts, at one waitpoint
SignalSet                   some or all of several names, at the suspension's only waitpoint
OperatorOnly, TimeoutOnly   no signal at all
AllOf                       every member
Count                       n distinct waitpoints, signals or sources among several waitpoints
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

from flowfabric.core import limits
from flowfabric.core.ids import SignalId, WaitpointId, WaitpointKey
from flowfabric.errors import InvalidInput

T = TypeVar("T")

# Placeholders for "no signal" in the stored form of a condition; no real signal may have such a name.
OPERATOR_ONLY_NAME = "__operator_only__"
TIMEOUT_ONLY_NAME = "__timeout_only__"
COMPOSITE_NAME = "__composite__"
TIMEOUT_SIGNAL_NAME = "__timeout__"  # the signal a timeout leaves behind; only the store creates it
RESERVED_SIGNAL_NAMES = frozenset({OPERATOR_ONLY_NAME, TIMEOUT_ONLY_NAME, COMPOSITE_NAME, TIMEOUT_SIGNAL_NAME})


class ConditionProblem(StrEnum):
    """Why a condition is refused."""

    MALFORMED = "malformed"
    DEPTH_EXCEEDED = "condition_depth_exceeded"
    TOO_LARGE = "condition_too_large"
    ALL_OF_EMPTY = "allof_empty_members"
    COUNT_N_OUT_OF_RANGE = "count_n_zero"
    COUNT_WAITPOINTS_EMPTY = "count_waitpoints_empty"
    COUNT_EXCEEDS_WAITPOINTS = "count_exceeds_waitpoint_set"
    MINIMUM_UNREACHABLE = "minimum_signal_count_unreachable"
    UNKNOWN_VERSION = "unknown_condition_version"


class InvalidCondition(InvalidInput):
    """A malformed condition, or one that can never be met. `field`: path of the bad member; `reason`: the problem."""

    def __init__(
        self, field: str, value: object, problem: str, reason: ConditionProblem = ConditionProblem.MALFORMED
    ) -> None:
        self.reason = reason
        super().__init__(field, value, problem)


class MatchMode(StrEnum):
    ANY = "any"  # minimum_signal_count of the names
    ALL = "all"


class CountKind(StrEnum):
    """The property that must differ between the signals a Count counts."""

    DISTINCT_WAITPOINTS = "DistinctWaitpoints"
    DISTINCT_SIGNALS = "DistinctSignals"
    DISTINCT_SOURCES = "DistinctSources"


class _Node(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Distinguished by `kind`, the name of the class."""


class ByName(_Node, frozen=True, tag=True):
    """Signals of exactly this name."""

    name: str

    def __post_init__(self) -> None:
        signal_name("name", self.name, error=InvalidCondition)

    def accepts(self, name: str) -> bool:
        return name == self.name


class Wildcard(_Node, frozen=True, tag=True):
    """Signals of any name."""

    def accepts(self, name: str) -> bool:
        return True


SignalMatcher: TypeAlias = ByName | Wildcard


class Single(_Node, frozen=True, tag=True):
    """One signal at one waitpoint."""

    waitpoint_key: str
    matcher: SignalMatcher = Wildcard()

    def __post_init__(self) -> None:
        force_setattr(self, "waitpoint_key", _key("waitpoint_key", self.waitpoint_key))
        _instance("matcher", self.matcher, ByName, Wildcard)


class SignalSet(_Node, frozen=True, tag=True):
    """Names in the order in which signals use them up, one per signal; "", like an empty list, is any name."""

    signal_names: tuple[str, ...] = ()
    match_mode: MatchMode = MatchMode.ANY
    minimum_signal_count: int = 1

    def __post_init__(self) -> None:
        names = _items("signal_names", self.signal_names, _name_or_any)
        force_setattr(self, "signal_names", names)
        force_setattr(self, "match_mode", _member(MatchMode, "match_mode", self.match_mode))
        _whole("minimum_signal_count", self.minimum_signal_count, limits.MAX_POLICY_COUNT)
        if self.needed > len(self.matchers):
            problem = f"can never be met by {len(self.matchers)} names, each of which counts once"
            raise InvalidCondition(
                "minimum_signal_count", self.minimum_signal_count, problem, ConditionProblem.MINIMUM_UNREACHABLE
            )

    @property
    def matchers(self) -> tuple[SignalMatcher, ...]:
        return tuple(ByName(name) if name else Wildcard() for name in self.signal_names or ("",))

    @property
    def needed(self) -> int:
        """How many of the names must have arrived."""
        return len(self.matchers) if self.match_mode is MatchMode.ALL else self.minimum_signal_count


class OperatorOnly(_Node, frozen=True, tag=True):
    """Only an operator or a timeout ends it."""


class TimeoutOnly(_Node, frozen=True, tag=True):
    """Only its required timeout or an operator ends it."""


class Count(_Node, frozen=True, tag=True):
    """Signals of `n` distinct waitpoints, ids or sources, at any of `waitpoints`; without a matcher, of any name."""

    n: int
    count_kind: CountKind
    waitpoints: tuple[str, ...]
    matcher: SignalMatcher | None = None

    def __post_init__(self) -> None:
        _whole("n", self.n, limits.MAX_POLICY_COUNT, ConditionProblem.COUNT_N_OUT_OF_RANGE)
        force_setattr(self, "count_kind", _member(CountKind, "count_kind", self.count_kind))
        waitpoints = _items("waitpoints", self.waitpoints, _key)
        force_setattr(self, "waitpoints", waitpoints)
        _instance("matcher", self.matcher, ByName, Wildcard, type(None))
        if not waitpoints:
            raise InvalidCondition("waitpoints", (), "must not be empty", ConditionProblem.COUNT_WAITPOINTS_EMPTY)
        if len(set(waitpoints)) < len(waitpoints):
            raise InvalidCondition("waitpoints", waitpoints, "must not repeat a waitpoint")
        if self.count_kind is CountKind.DISTINCT_WAITPOINTS and self.n > len(waitpoints):
            problem = f"can never be met by {len(waitpoints)} waitpoints"
            raise InvalidCondition("n", self.n, problem, ConditionProblem.COUNT_EXCEEDS_WAITPOINTS)


class AllOf(_Node, frozen=True, tag=True):
    """Every member is met, in any order. A signal counts for every member that accepts it."""

    members: tuple[ResumeCondition, ...]

    def __post_init__(self) -> None:
        members = _items("members", self.members, _member_condition)
        force_setattr(self, "members", members)
        if not members:
            raise InvalidCondition("members", (), "must not be empty", ConditionProblem.ALL_OF_EMPTY)
        nodes = list(walk(self))
        for path, level, node in nodes:
            if level > limits.MAX_COMPOSITE_DEPTH and isinstance(node, AllOf | Count):
                problem = f"must not be on level {level}, {limits.MAX_COMPOSITE_DEPTH} levels are allowed"
                raise InvalidCondition(path, type(node).__name__, problem, ConditionProblem.DEPTH_EXCEEDED)
        if len(nodes) > limits.MAX_CONDITION_NODES:
            problem = f"must hold at most {limits.MAX_CONDITION_NODES} nodes, nested ones included"
            raise InvalidCondition("members", len(nodes), problem, ConditionProblem.TOO_LARGE)


CompositeBody: TypeAlias = AllOf | Count
ResumeCondition: TypeAlias = Single | SignalSet | OperatorOnly | TimeoutOnly | AllOf | Count
CONDITIONS = (Single, SignalSet, OperatorOnly, TimeoutOnly, AllOf, Count)


def all_of_waitpoints(keys: Iterable[str]) -> AllOf:
    """Any signal at each of the waitpoints."""
    return AllOf(tuple(Single(key) for key in keys))


def walk(condition: ResumeCondition, path: str = "", level: int = 1) -> Iterator[tuple[str, int, ResumeCondition]]:
    """Every node, a parent before its members: its path (`members[0].members[1]`), its level, itself."""
    yield path, level, condition
    if isinstance(condition, AllOf):
        for index, member in enumerate(condition.members):
            yield from walk(member, child_path(path, index), level + 1)


def child_path(path: str, index: int) -> str:
    return f"{path}.members[{index}]" if path else f"members[{index}]"


def referenced_waitpoint_keys(condition: ResumeCondition) -> tuple[WaitpointKey, ...]:
    """The waitpoints it names, each once, in order of first mention."""
    if type(condition) is Single:  # the common case
        return (WaitpointKey(condition.waitpoint_key),)
    keys: list[WaitpointKey] = []
    for _, _, node in walk(condition):
        if isinstance(node, Single):
            keys.append(WaitpointKey(node.waitpoint_key))
        elif isinstance(node, Count):
            keys.extend(map(WaitpointKey, node.waitpoints))
    return tuple(dict.fromkeys(keys))


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A signal accepted at a waitpoint, with the fields that conditions use."""

    signal_id: SignalId
    signal_name: str
    waitpoint_id: WaitpointId
    source_type: str = ""
    source_identity: str = ""


_Arrived: TypeAlias = list[tuple[WaitpointKey, Delivery]]


def is_satisfied(
    condition: ResumeCondition, deliveries: Sequence[Delivery], waitpoint_keys: Mapping[WaitpointId, WaitpointKey]
) -> bool:
    """Whether `deliveries`, oldest first, meet `condition` of the suspension whose waitpoints are `waitpoint_keys`.

    It evaluates all deliveries again on each call. Tests compare the tallies of the stores with it.
    """
    arrived = [(waitpoint_keys.get(each.waitpoint_id), each) for each in deliveries]
    return _met(condition, [(key, each) for key, each in arrived if key is not None])


def _met(condition: ResumeCondition, arrived: _Arrived) -> bool:
    if isinstance(condition, AllOf):
        return all(_met(member, arrived) for member in condition.members)
    if isinstance(condition, Count):
        return len(_counted(condition, arrived)) >= condition.n
    if isinstance(condition, Single):
        wanted, matcher = condition.waitpoint_key, condition.matcher
        return any(key == wanted and matcher.accepts(each.signal_name) for key, each in arrived)
    if isinstance(condition, SignalSet):
        return _used_up(condition.matchers, arrived) >= condition.needed
    return False


def _counted(count: Count, arrived: _Arrived) -> set[tuple[str, ...]]:
    matcher = count.matcher or Wildcard()
    found: set[tuple[str, ...]] = set()
    for key, each in arrived:
        if key not in count.waitpoints or not matcher.accepts(each.signal_name):
            continue
        if count.count_kind is CountKind.DISTINCT_WAITPOINTS:
            found.add((each.waitpoint_id,))
        elif count.count_kind is CountKind.DISTINCT_SIGNALS:
            found.add((each.signal_id,))
        else:
            found.add((each.source_type, each.source_identity))
    return found


def _used_up(matchers: tuple[SignalMatcher, ...], arrived: _Arrived) -> int:
    """How many matchers are satisfied when each signal takes the first open one that accepts it."""
    still_open = list(matchers)
    for _, each in arrived:
        taken = next((matcher for matcher in still_open if matcher.accepts(each.signal_name)), None)
        if taken is not None:
            still_open.remove(taken)
    return len(matchers) - len(still_open)


def signal_name(field: str, value: object, *, error: type[InvalidInput] = InvalidInput) -> str:
    """`value` if it is a valid signal name."""
    name = limits.label(field, value, 1, limits.SIGNAL_NAME_MAX_BYTES, error=error)
    if name in RESERVED_SIGNAL_NAMES:
        raise error(field, value, "is reserved; choose another name")
    return name


def _name_or_any(field: str, value: object) -> str:
    return "" if value == "" else signal_name(field, value, error=InvalidCondition)


def _key(field: str, value: object) -> WaitpointKey:
    return WaitpointKey(limits.label(field, value, 1, limits.NAME_MAX_BYTES, error=InvalidCondition))


def _member_condition(field: str, value: Any) -> ResumeCondition:
    _instance(field, value, *CONDITIONS)
    if isinstance(value, SignalSet):
        raise InvalidCondition(field, "SignalSet", "must name its waitpoint; use Single or Count")
    return value  # type: ignore[no-any-return]


def _whole(field: str, value: object, high: int, reason: ConditionProblem = ConditionProblem.MALFORMED) -> None:
    if type(value) is not int or not 1 <= value <= high:
        raise InvalidCondition(field, value, f"must be a whole number from 1 to {high}", reason)


def _member(kind: type[StrEnum], field: str, value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise InvalidCondition(field, value, f"must be one of {', '.join(kind)}") from None


def _instance(field: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = ", ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise InvalidCondition(field, value, f"must be one of {names}")


def _items(field: str, value: Any, check: Callable[[str, Any], T]) -> tuple[T, ...]:
    if not isinstance(value, tuple | list):
        raise InvalidCondition(field, value, "must be a list")
    if len(value) > limits.MAX_CONDITION_NODES:
        problem = f"must hold at most {limits.MAX_CONDITION_NODES} entries"
        raise InvalidCondition(field, len(value), problem, ConditionProblem.TOO_LARGE)
    return tuple(check(f"{field}[{index}]", item) for index, item in enumerate(value))

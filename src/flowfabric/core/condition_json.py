"""Resume conditions as stored: JSON that other programs write and read, too.

A condition on one waitpoint is `{condition_type, required_signal_names, signal_match_mode, minimum_signal_count}`.
A composite one is `{v: 1, composite: true, tree}`, where every node has its kind and path. Beside it are
members of the first form that no signal satisfies, so a reader of only that form never resumes too early.
"""

from __future__ import annotations

from typing import Any

import msgspec

from flowfabric.core import codec, limits
from flowfabric.core.conditions import (
    COMPOSITE_NAME,
    OPERATOR_ONLY_NAME,
    TIMEOUT_ONLY_NAME,
    AllOf,
    ByName,
    ConditionProblem,
    Count,
    InvalidCondition,
    MatchMode,
    OperatorOnly,
    ResumeCondition,
    SignalMatcher,
    SignalSet,
    Single,
    TimeoutOnly,
    Wildcard,
    child_path,
)
from flowfabric.core.ids import WaitpointKey
from flowfabric.core.policy import TimeoutBehavior
from flowfabric.errors import InvalidInput

VERSION = 1


def condition_to_json(condition: ResumeCondition, timeout_behavior: TimeoutBehavior = TimeoutBehavior.FAIL) -> str:
    """The stored form. A Single omits its waitpoint: it is the only one of the suspension."""
    members = _members(condition) | {"timeout_behavior": timeout_behavior, "allow_operator_override": True}
    data = codec.to_json(members)
    _check_size(len(data))
    return data.decode()


def short_condition_json(condition: ResumeCondition, timeout_behavior: TimeoutBehavior) -> str:
    """The form sent to the store. The common wait for one signal of a name sends only the name."""
    if type(condition) is Single and type(condition.matcher) is ByName:
        return codec.to_json({"required_signal_names": (condition.matcher.name,)}).decode()
    return condition_to_json(condition, timeout_behavior)


def _members(condition: ResumeCondition) -> dict[str, Any]:
    match condition:
        case Single(matcher=matcher):
            return _signal_set([matcher.name] if isinstance(matcher, ByName) else [])
        case SignalSet():
            return _signal_set(list(condition.signal_names), condition.match_mode, condition.minimum_signal_count)
        case OperatorOnly():
            return _signal_set([OPERATOR_ONLY_NAME], MatchMode.ALL)
        case TimeoutOnly():
            return _signal_set([TIMEOUT_ONLY_NAME], MatchMode.ALL)
    stub = _signal_set([COMPOSITE_NAME], MatchMode.ALL) | {"condition_type": "composite"}
    return {"v": VERSION, "composite": True, "tree": _node(condition, "")} | stub


def _signal_set(names: list[str], mode: MatchMode = MatchMode.ANY, minimum: int = 1) -> dict[str, Any]:
    return {
        "condition_type": "signal_set",
        "required_signal_names": names,
        "signal_match_mode": mode,
        "minimum_signal_count": minimum,
    }


def _node(condition: ResumeCondition, path: str) -> dict[str, Any]:
    members: list[Any]
    match condition:
        case AllOf():
            members = [_node(member, child_path(path, index)) for index, member in enumerate(condition.members)]
            return {"kind": "AllOf", "path": path, "members": members}
        case Single() | Count():
            plain: dict[str, Any] = msgspec.to_builtins(condition, enc_hook=codec.encode_id)
            return plain | {"path": path}
    return {"kind": "NeverBySignal", "path": path}


def condition_from_json(data: str | bytes, waitpoint_key: WaitpointKey) -> ResumeCondition:
    """The condition of a suspension whose first waitpoint is `waitpoint_key`; errors name the path of the bad member.

    Empty text means any one signal. A node inside a tree that no signal ends is read as OperatorOnly.
    """
    if isinstance(data, (str, bytes)):
        _check_size(len(data.encode(errors="replace")) if isinstance(data, str) else len(data))
    given = codec.from_json(dict[str, Any], data or "{}", error=InvalidCondition, root="resume_condition")
    members = {name: value for name, value in given.items() if value is not None}
    if members.get("composite"):
        if members.get("v") != VERSION:
            problem = f"must be {VERSION}; a newer library wrote this condition"
            raise InvalidCondition("resume_condition.v", members.get("v"), problem, ConditionProblem.UNKNOWN_VERSION)
        return _parse(members.get("tree"), "resume_condition.tree", 1)
    return _parse_signal_set(members, waitpoint_key)


def _parse_signal_set(members: dict[str, Any], waitpoint_key: WaitpointKey) -> ResumeCondition:
    kind = members.get("condition_type", "signal_set")
    if kind != "signal_set":
        raise InvalidCondition("resume_condition.condition_type", kind, "must be signal_set")
    names = members.get("required_signal_names", [])
    if names == [OPERATOR_ONLY_NAME]:
        return OperatorOnly()
    if names == [TIMEOUT_ONLY_NAME]:
        return TimeoutOnly()
    mode = members.get("signal_match_mode", MatchMode.ANY)
    if isinstance(mode, str) and mode != MatchMode.ALL:
        mode = MatchMode.ANY  # any other stored value has always been read so
    minimum = members.get("minimum_signal_count", 1)
    try:
        found = SignalSet(names, mode, minimum)
    except InvalidInput as error:
        field = _WIRE_NAMES.get(error.field, error.field.replace("signal_names", "required_signal_names"))
        raise codec.relocate(error, f"resume_condition.{field}") from None
    return found if len(found.signal_names) > 1 else Single(waitpoint_key, found.matchers[0])


_WIRE_NAMES = {"match_mode": "signal_match_mode", "minimum_signal_count": "minimum_signal_count"}


def _parse(node: Any, path: str, level: int) -> ResumeCondition:
    if not isinstance(node, dict):
        raise InvalidCondition(path, node, "must be an object")
    if level > limits.MAX_COMPOSITE_DEPTH + 1:  # leaves may stand one level below the last composite
        problem = f"must not be on level {level}, {limits.MAX_COMPOSITE_DEPTH} levels are allowed"
        raise InvalidCondition(path, node.get("kind"), problem, ConditionProblem.DEPTH_EXCEEDED)
    try:
        return _build(node, path, level)
    except InvalidInput as error:
        if error.field.startswith("resume_condition."):
            raise
        raise codec.relocate(error, f"{path}.{error.field}") from None


def _build(node: dict[str, Any], path: str, level: int) -> ResumeCondition:
    match node.get("kind"):
        case "AllOf":
            return AllOf(tuple(_parse(each, f"{path}.members[{at}]", level + 1) for at, each in _listed(node, path)))
        case "Count":
            matcher = node.get("matcher")
            counted = None if matcher is None else _matcher(matcher, f"{path}.matcher")
            return Count(node.get("n", 0), node.get("count_kind", ""), node.get("waitpoints", ()), counted)
        case "Single":
            return Single(node.get("waitpoint_key", ""), _matcher(node.get("matcher"), f"{path}.matcher"))
        case "NeverBySignal":
            return OperatorOnly()
    problem = "must be one of Single, AllOf, Count, NeverBySignal"
    raise InvalidCondition(f"{path}.kind", node.get("kind"), problem)


def _listed(node: dict[str, Any], path: str) -> list[tuple[int, Any]]:
    members = node.get("members")
    if not isinstance(members, list):
        raise InvalidCondition(f"{path}.members", members, "must be a list")
    return list(enumerate(members))


def _matcher(given: Any, path: str) -> SignalMatcher:
    match given:
        case {"kind": "Wildcard"}:
            return Wildcard()
        case {"kind": "ByName", "name": name}:
            try:
                return ByName(name)
            except InvalidInput as error:
                raise codec.relocate(error, f"{path}.name") from None
    raise InvalidCondition(path, given, "must be {kind: ByName, name} or {kind: Wildcard}")


def _check_size(size: int) -> None:
    if size > limits.CONDITION_JSON_MAX_BYTES:
        problem = f"must be at most {limits.CONDITION_JSON_MAX_BYTES} bytes of JSON"
        raise InvalidCondition("resume_condition", f"{size} bytes", problem, ConditionProblem.TOO_LARGE)

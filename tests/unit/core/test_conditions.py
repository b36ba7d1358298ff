from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import codec
from flowfabric.core.condition_json import condition_from_json, condition_to_json
from flowfabric.core.conditions import (
    RESERVED_SIGNAL_NAMES,
    AllOf,
    ByName,
    ConditionProblem,
    Count,
    CountKind,
    Delivery,
    InvalidCondition,
    MatchMode,
    OperatorOnly,
    ResumeCondition,
    SignalSet,
    Single,
    TimeoutOnly,
    Wildcard,
    all_of_waitpoints,
    is_satisfied,
    referenced_waitpoint_keys,
)
from flowfabric.core.ids import SignalId, WaitpointId, WaitpointKey
from flowfabric.core.policy import TimeoutBehavior

A, B, C = (WaitpointKey(key) for key in "abc")
IDS = {key: WaitpointId.new() for key in (A, B, C)}
KEYS = {waitpoint_id: key for key, waitpoint_id in IDS.items()}
SOURCES, SIGNALS, WAITPOINTS = CountKind.DISTINCT_SOURCES, CountKind.DISTINCT_SIGNALS, CountKind.DISTINCT_WAITPOINTS

keys = st.sampled_from([A, B, C])
matchers = st.one_of(st.just(Wildcard()), st.sampled_from([ByName("x"), ByName("y")]))
singles = st.builds(Single, keys, matchers)


@st.composite
def counts(draw: st.DrawFn) -> Count:
    kind = draw(st.sampled_from(CountKind))
    waitpoints = tuple(draw(st.lists(keys, min_size=1, max_size=3, unique=True)))
    n = draw(st.integers(1, len(waitpoints) if kind is WAITPOINTS else 3))
    return Count(n, kind, waitpoints, draw(st.none() | matchers))


def trees(levels: int) -> st.SearchStrategy[ResumeCondition]:
    leaves = singles | counts() | st.just(OperatorOnly())
    if levels == 1:
        return leaves
    members = st.lists(trees(levels - 1), min_size=1, max_size=3)
    return leaves | st.builds(AllOf, members.map(tuple))


composites = trees(4).filter(lambda tree: isinstance(tree, AllOf | Count))


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    return arrived(draw(keys), draw(st.sampled_from("xyz")), source=draw(st.sampled_from("pq")))


def arrived(key: WaitpointKey, name: str = "x", *, source: str = "p", signal_id: SignalId | None = None) -> Delivery:
    return Delivery(
        signal_id=signal_id or SignalId.new(),
        signal_name=name,
        waitpoint_id=IDS[key],
        source_type="user",
        source_identity=source,
    )


def met(condition: ResumeCondition, *signals: Delivery) -> bool:
    return is_satisfied(condition, signals, KEYS)


def test_a_single_waits_for_its_name_at_its_waitpoint() -> None:
    assert met(Single(A, ByName("x")), arrived(A, "y"), arrived(A, "x"))
    assert not met(Single(A, ByName("x")), arrived(A, "y"), arrived(B, "x"))
    assert met(Single(A), arrived(A, "anything"))


def test_a_signal_at_a_waitpoint_of_another_suspension_does_not_count() -> None:
    assert not is_satisfied(Single(A), [arrived(A)], {IDS[B]: B})


@pytest.mark.parametrize("condition", [OperatorOnly(), TimeoutOnly(), AllOf((Single(A), OperatorOnly()))])
def test_no_signal_ends_what_only_an_operator_or_a_timeout_ends(condition: ResumeCondition) -> None:
    assert not met(condition, arrived(A), arrived(A, "__operator_only__"), arrived(A, "__timeout_only__"))


def test_a_count_tells_waitpoints_signals_or_sources_apart() -> None:
    same = SignalId.new()
    twice = (arrived(A, signal_id=same), arrived(A, signal_id=same))
    assert not met(Count(2, SIGNALS, (A, B)), *twice)
    assert met(Count(2, SIGNALS, (A, B)), arrived(A), arrived(A))
    assert not met(Count(2, WAITPOINTS, (A, B)), arrived(A), arrived(A))
    assert met(Count(2, WAITPOINTS, (A, B)), arrived(A), arrived(B))
    assert not met(Count(2, SOURCES, (A, B)), arrived(A), arrived(B))
    assert met(Count(2, SOURCES, (A, B)), arrived(A), arrived(A, source="q"))


def test_a_source_is_type_and_identity_together() -> None:
    plain = {"signal_name": "x", "waitpoint_id": IDS[A]}
    first = Delivery(signal_id=SignalId.new(), source_type="a:b", source_identity="c", **plain)  # type: ignore[arg-type]
    other = Delivery(signal_id=SignalId.new(), source_type="a", source_identity="b:c", **plain)  # type: ignore[arg-type]
    assert met(Count(2, SOURCES, (A,)), first, other)


def test_counts_side_by_side_do_not_count_for_each_other() -> None:
    both = AllOf((Count(2, SIGNALS, (A,), ByName("x")), Count(1, SIGNALS, (A,), ByName("y"))))
    assert not met(both, arrived(A, "x"), arrived(A, "x"), arrived(A, "x"))
    assert met(both, arrived(A, "x"), arrived(A, "x"), arrived(A, "y"))


def test_a_count_below_two_levels_of_all_of_is_reached() -> None:
    assert met(AllOf((AllOf((Count(1, SIGNALS, (A,)),)),)), arrived(A))


def test_every_waitpoint_of_all_of_must_be_signalled() -> None:
    condition = all_of_waitpoints(["a", "b"])
    assert not met(condition, arrived(A), arrived(A))
    assert met(condition, arrived(B), arrived(A))


def test_a_signal_set_uses_up_its_names_in_order() -> None:
    both = SignalSet(("", "x"), MatchMode.ALL)
    assert not met(both, arrived(A, "x"), arrived(A, "y"))
    assert met(both, arrived(A, "y"), arrived(A, "x"))
    twice = SignalSet(("x", "x"), minimum_signal_count=2)
    assert not met(twice, arrived(A, "x"))
    assert met(twice, arrived(A, "x"), arrived(A, "x"))
    assert met(SignalSet(), arrived(A, "whatever"))


@given(trees(4), st.lists(deliveries(), max_size=8), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_more_signals_never_undo_it(
    condition: ResumeCondition, signals: list[Delivery], chance: Any
) -> None:
    shuffled = list(signals)
    chance.shuffle(shuffled)
    assert met(condition, *signals) == met(condition, *shuffled)
    history = [met(condition, *signals[:count]) for count in range(len(signals) + 1)]
    assert history == sorted(history)


@given(st.lists(trees(3), min_size=1, max_size=3), st.lists(deliveries(), max_size=6))
def test_all_of_is_met_exactly_when_every_member_is(members: list[ResumeCondition], signals: list[Delivery]) -> None:
    assert met(AllOf(tuple(members)), *signals) == all(met(member, *signals) for member in members)


@pytest.mark.parametrize(
    ("build", "field", "reason"),
    [
        (lambda: AllOf(()), "members", ConditionProblem.ALL_OF_EMPTY),
        (lambda: Count(0, SIGNALS, (A,)), "n", ConditionProblem.COUNT_N_OUT_OF_RANGE),
        (lambda: Count(True, SIGNALS, (A,)), "n", ConditionProblem.COUNT_N_OUT_OF_RANGE),
        (lambda: Count(1_000_001, SIGNALS, (A,)), "n", ConditionProblem.COUNT_N_OUT_OF_RANGE),
        (lambda: Count(1, SIGNALS, ()), "waitpoints", ConditionProblem.COUNT_WAITPOINTS_EMPTY),
        (lambda: Count(2, WAITPOINTS, (A,)), "n", ConditionProblem.COUNT_EXCEEDS_WAITPOINTS),
        (lambda: Count(2, WAITPOINTS, (A, A)), "waitpoints", ConditionProblem.MALFORMED),
        (lambda: SignalSet(minimum_signal_count=2), "minimum_signal_count", ConditionProblem.MINIMUM_UNREACHABLE),
        (lambda: SignalSet(("x",), minimum_signal_count=2), "minimum_signal_count", "minimum_signal_count_unreachable"),
        (lambda: SignalSet(minimum_signal_count=0), "minimum_signal_count", ConditionProblem.MALFORMED),
        (lambda: AllOf((Single(A), "b")), "members[1]", ConditionProblem.MALFORMED),  # type: ignore[arg-type]
        (lambda: AllOf((SignalSet(),)), "members[0]", ConditionProblem.MALFORMED),
        (lambda: AllOf("ab"), "members", ConditionProblem.MALFORMED),  # type: ignore[arg-type]
        (lambda: all_of_waitpoints(str(n) for n in range(257)), "members", ConditionProblem.TOO_LARGE),
        (lambda: AllOf((all_of_waitpoints(str(n) for n in range(255)),)), "members", ConditionProblem.TOO_LARGE),
        (lambda: Count(1, "Nearly", (A,)), "count_kind", ConditionProblem.MALFORMED),  # type: ignore[arg-type]
        (lambda: Count(1, SIGNALS, (A, WaitpointKey.trusted(""))), "waitpoints[1]", ConditionProblem.MALFORMED),
        (lambda: Single(WaitpointKey.trusted("")), "waitpoint_key", ConditionProblem.MALFORMED),
        (lambda: Single(A, "x"), "matcher", ConditionProblem.MALFORMED),  # type: ignore[arg-type]
        (lambda: ByName(""), "name", ConditionProblem.MALFORMED),
    ],
)
def test_what_can_never_be_met_is_refused_where_it_is_built(build: Any, field: str, reason: str) -> None:
    with pytest.raises(InvalidCondition) as caught:
        build()
    assert (caught.value.field, caught.value.reason, caught.value.code) == (field, reason, "invalid_input")


def test_a_minimum_that_the_mode_all_ignores_is_not_unreachable() -> None:
    assert SignalSet(("x", "y"), MatchMode.ALL, 9).needed == 2


def nested(levels: int) -> ResumeCondition:
    inner: ResumeCondition = Count(1, SIGNALS, (A,))
    for _ in range(levels - 1):
        inner = AllOf((inner,))
    return inner


def test_composites_go_four_levels_deep() -> None:
    assert met(nested(4), arrived(A))
    with pytest.raises(InvalidCondition, match="level 5, 4 levels are allowed") as caught:
        nested(5)
    assert caught.value.field == "members[0].members[0].members[0].members[0]"
    assert caught.value.reason is ConditionProblem.DEPTH_EXCEEDED


def test_a_leaf_may_stand_below_the_deepest_composite() -> None:
    inner: ResumeCondition = Single(A)
    for _ in range(4):
        inner = AllOf((inner,))
    assert condition_from_json(condition_to_json(inner), A) == inner


@pytest.mark.parametrize("name", sorted(RESERVED_SIGNAL_NAMES))
def test_nobody_waits_for_a_name_that_stands_for_no_signal(name: str) -> None:
    for build in (lambda: ByName(name), lambda: SignalSet((name,))):
        with pytest.raises(InvalidCondition, match="reserved"):
            build()


def test_the_waitpoints_of_a_condition_are_named_once_in_order() -> None:
    condition = AllOf((Single(B), Count(1, SIGNALS, (A, B)), AllOf((Single(C),)), OperatorOnly()))
    assert referenced_waitpoint_keys(condition) == (B, A, C)
    assert referenced_waitpoint_keys(SignalSet(("x",))) == ()


def stored(condition: ResumeCondition) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(condition_to_json(condition, TimeoutBehavior.ESCALATE))
    assert members.pop("timeout_behavior") == "escalate"
    assert members.pop("allow_operator_override") is True
    return members


@pytest.mark.parametrize(
    ("condition", "names", "mode", "minimum"),
    [
        (Single(A, ByName("x")), ["x"], "any", 1),
        (Single(A), [], "any", 1),
        (SignalSet(("x", "y"), MatchMode.ALL), ["x", "y"], "all", 1),
        (SignalSet(("x", "y", ""), minimum_signal_count=2), ["x", "y", ""], "any", 2),
        (OperatorOnly(), ["__operator_only__"], "all", 1),
        (TimeoutOnly(), ["__timeout_only__"], "all", 1),
    ],
)
def test_conditions_on_one_waitpoint_have_the_stored_form_of_0_2_0(
    condition: ResumeCondition, names: list[str], mode: str, minimum: int
) -> None:
    assert stored(condition) == {
        "condition_type": "signal_set",
        "required_signal_names": names,
        "signal_match_mode": mode,
        "minimum_signal_count": minimum,
    }
    assert condition_from_json(condition_to_json(condition), A) == condition


def test_a_composite_is_stored_as_a_tree_of_nodes_with_paths() -> None:
    condition = AllOf((Single(A, ByName("x")), AllOf((Count(2, SOURCES, (A, B)), TimeoutOnly()))))
    members = stored(condition)
    assert (members["v"], members["composite"]) == (1, True)
    assert members["tree"] == {
        "kind": "AllOf",
        "path": "",
        "members": [
            {
                "kind": "Single",
                "path": "members[0]",
                "waitpoint_key": "a",
                "matcher": {"kind": "ByName", "name": "x"},
            },
            {
                "kind": "AllOf",
                "path": "members[1]",
                "members": [
                    {
                        "kind": "Count",
                        "path": "members[1].members[0]",
                        "n": 2,
                        "count_kind": "DistinctSources",
                        "waitpoints": ["a", "b"],
                        "matcher": None,
                    },
                    {"kind": "NeverBySignal", "path": "members[1].members[1]"},
                ],
            },
        ],
    }


def test_a_reader_of_the_old_form_resumes_no_composite() -> None:
    members = stored(Count(1, SIGNALS, (A,)))
    assert members["required_signal_names"] == ["__composite__"]
    assert members["signal_match_mode"] == "all"


@given(composites)
def test_a_composite_survives_its_stored_form(condition: ResumeCondition) -> None:
    assert condition_from_json(condition_to_json(condition), A) == condition


@given(trees(4))
def test_a_condition_survives_json_as_a_contract(condition: ResumeCondition) -> None:
    assert codec.from_json(ResumeCondition, codec.to_json(condition)) == condition


def test_the_old_form_has_defaults() -> None:
    for data in ("", "{}", '{"required_signal_names":null,"minimum_signal_count":null}'):
        assert condition_from_json(data, A) == Single(A)
    assert condition_from_json('{"signal_match_mode":"most","required_signal_names":["x","y"]}', A) == SignalSet(
        ("x", "y")
    )
    assert condition_from_json('{"required_signal_names":["x","y"]}', A) == SignalSet(("x", "y"))


def tree(node: object, version: object = 1) -> str:
    return json.dumps({"v": version, "composite": True, "tree": node})


COUNT = {"kind": "Count", "n": 1, "count_kind": "DistinctSignals", "waitpoints": ["a"]}


def below(levels: int, node: object) -> object:
    for _ in range(levels):
        node = {"kind": "AllOf", "members": [node]}
    return node


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ("[]", "resume_condition"),
        ("{", "resume_condition"),
        ('{"condition_type":"other"}', "resume_condition.condition_type"),
        ('{"required_signal_names":"x"}', "resume_condition.required_signal_names"),
        ('{"required_signal_names":["x",5]}', "resume_condition.required_signal_names[1]"),
        ('{"signal_match_mode":5}', "resume_condition.signal_match_mode"),
        ('{"minimum_signal_count":2}', "resume_condition.minimum_signal_count"),
        (tree(COUNT, version=2), "resume_condition.v"),
        (tree(COUNT, version=None), "resume_condition.v"),
        (tree(None), "resume_condition.tree"),
        (tree({"kind": "AnyOf"}), "resume_condition.tree.kind"),
        (tree({"kind": "AllOf"}), "resume_condition.tree.members"),
        (tree({"kind": "AllOf", "members": []}), "resume_condition.tree.members"),
        (tree(below(2, COUNT | {"n": 0})), "resume_condition.tree.members[0].members[0].n"),
        (tree(below(1, COUNT | {"waitpoints": []})), "resume_condition.tree.members[0].waitpoints"),
        (tree(COUNT | {"count_kind": "x"}), "resume_condition.tree.count_kind"),
        (tree(COUNT | {"matcher": {"kind": "Regex"}}), "resume_condition.tree.matcher"),
        (tree(below(1, {"kind": "Single", "waitpoint_key": "a"})), "resume_condition.tree.members[0].matcher"),
        (tree({"kind": "Single", "matcher": {"kind": "Wildcard"}}), "resume_condition.tree.waitpoint_key"),
        (tree(COUNT | {"matcher": {"kind": "ByName", "name": ""}}), "resume_condition.tree.matcher.name"),
        (tree(below(4, COUNT)), "resume_condition.tree" + ".members[0]" * 4),
        (tree(below(50, COUNT)), "resume_condition.tree" + ".members[0]" * 5),
        (json.dumps({"x": "y" * 65_536}), "resume_condition"),
    ],
)
def test_a_stored_form_that_cannot_be_read_is_refused_with_its_path(data: str, field: str) -> None:
    with pytest.raises(InvalidCondition) as caught:
        condition_from_json(data, A)
    assert caught.value.field == field


def test_a_condition_has_a_maximum_size() -> None:
    long = [f"{n:0255d}" for n in range(250)]
    with pytest.raises(InvalidCondition, match="at most 65536 bytes"):
        condition_to_json(all_of_waitpoints(long))

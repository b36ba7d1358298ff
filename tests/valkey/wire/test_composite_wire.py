"""Conditions on several waitpoints through plain FCALL, and compared with a plain reading of them (D6)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import valkey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowfabric.core import conditions as k
from flowfabric.core.condition_json import condition_to_json
from flowfabric.core.ids import SignalId, WaitpointId, WaitpointKey
from tests.soaking import examples
from tests.valkey.wire.suspension_wire import Waiting, all_of, composite, count, single
from tests.valkey.wire.wire import Reply

KEYS = ["a", "b", "c"]
MET, ADDED = "resume_condition_satisfied", "appended_to_waitpoint"


@pytest.fixture
def x(wire: valkey.Valkey) -> Waiting:
    return Waiting(wire).started()


class Places:
    """The waitpoints a, b and c of one suspension."""

    def __init__(self, x: Waiting, condition: str, pending: str = "", ids: list[str] | None = None) -> None:
        self.x = x
        self.ids = ids or [str(uuid.uuid4()) for _ in KEYS]
        keys = ["", "", ""] if pending else KEYS
        more = ("", "", 2, self.ids[1], keys[1], self.ids[2], keys[2])
        self.reply = x.suspend(condition, waitpoint=self.ids[0], key=keys[0], extra=more, pending=pending)
        if self.reply[0] == 1:
            self.tokens = dict(zip(KEYS, (self.reply[5], self.reply[9], self.reply[12]), strict=True))

    def send(self, key: str, **given: Any) -> str:
        reply = self.x.deliver(waitpoint=self.ids[KEYS.index(key)], token=self.tokens[key], **given)
        assert reply[0] == 1, reply
        effect: str = reply[3]
        return effect


def test_all_of_waitpoints_in_any_order(x: Waiting) -> None:
    places = Places(x, composite(all_of(*map(single, KEYS))))
    assert [places.send(key) for key in ("c", "a", "b")] == [ADDED, ADDED, MET]
    assert x.field("public_state") == "waiting"
    assert {signal[8] for signal in x.resume_signals()[-1]} == set(places.ids)
    for waitpoint in places.ids:
        assert x.fields(x.wp("", waitpoint))["state"] == "closed"


def test_all_of_all_of_a_count_is_met(x: Waiting) -> None:
    """D6: in the original the inner mark came only after the inner node was met: it never was."""
    places = Places(x, composite(all_of(all_of(count(2, "DistinctSignals", ["b"])), single("a"), single("c"))))
    assert [places.send(key) for key in ("a", "c", "b", "b")] == [ADDED, ADDED, ADDED, MET]


def test_sibling_counts_do_not_share_what_they_count(x: Waiting) -> None:
    """D6: in the original two signals x met AllOf(Count 2 of x, Count 1 of y)."""
    tree = all_of(count(2, "DistinctSignals", KEYS, "x"), count(1, "DistinctSignals", KEYS, "y"))
    places = Places(x, composite(tree))
    assert [places.send("a", name=name) for name in ("x", "x", "z", "y")] == [
        ADDED, ADDED, "signal_ignored_matcher_failed", MET,
    ]  # fmt: skip


def test_two_people_out_of_three(x: Waiting) -> None:
    places = Places(x, composite(count(2, "DistinctSources", KEYS, "approve")))
    assert places.send("a", name="approve", source="ann") == ADDED
    assert places.send("b", name="approve", source="ann") == "appended_to_waitpoint_duplicate"
    assert places.send("a", name="reject", source="bob") == "signal_ignored_matcher_failed"
    assert places.send("c", name="approve", source="bob") == MET


def test_a_waitpoint_that_no_node_names_is_ignored(x: Waiting) -> None:
    places = Places(x, composite(all_of(single("a"), single("b"))))
    assert places.send("c") == "signal_ignored_not_in_condition"


def test_never_by_signal_waits_for_an_operator(x: Waiting) -> None:
    places = Places(x, composite(all_of(single("a"), {"kind": "NeverBySignal"})))
    assert places.send("a") == ADDED
    assert x.resume("operator") == [1, "OK", "waiting"]


def test_nothing_counts_for_a_later_suspension(x: Waiting) -> None:
    """D6: in the original a late signal wrote its token into the next suspension's set."""
    condition = composite(all_of(single("a"), single("b")))
    first = Places(x, condition)
    first.send("a")
    x.client.sadd(x.exec("suspension:current:satisfied_set"), "stray|members[1]|leaf")
    x.resume("operator")
    x.go_on()
    second = Places(x, condition)
    stray = f"{first.x.suspension[:-1]}x|members[1]|leaf"
    x.client.sadd(x.exec("suspension:current:satisfied_set"), stray)
    assert x.deliver(waitpoint=first.ids[1], token=first.tokens["b"]) == [0, "waitpoint_closed"]
    assert second.send("a") == ADDED
    assert second.send("b") == MET


def buffered(x: Waiting, *keys: str) -> list[str]:
    """Pending waitpoints a, b and c; those named got a signal each."""
    ids = [str(uuid.uuid4()) for _ in KEYS]
    for key, waitpoint in zip(KEYS, ids, strict=True):
        args = (x.id, 0, waitpoint, key, 9_000_000_000_000)
        token = x.fcall("ff_create_pending_waitpoint", x.filled(4), *args)[4]
        if key in keys:
            assert x.buffer(waitpoint=waitpoint, token=token)[3] == "buffered_for_pending_waitpoint"
    return ids


def test_signals_at_pending_waitpoints_are_credited(x: Waiting) -> None:
    """D6: in the original they were lost for a composite condition."""
    ids = buffered(x, "a", "b")
    places = Places(x, composite(all_of(*map(single, KEYS))), "by_key", ids)
    assert places.reply[:2] == [1, "OK"]
    assert places.send("c") == MET
    assert len(x.resume_signals()[-1]) == 3


def test_signals_at_pending_waitpoints_may_suffice(x: Waiting) -> None:
    places = Places(x, composite(count(2, "DistinctWaitpoints", KEYS)), "by_key", buffered(x, "a", "c"))
    assert places.reply[1] == "ALREADY_SATISFIED"
    assert x.field("public_state") == "active"
    assert len(x.resume_signals()[-1]) == 2
    assert {x.fields(x.wp("", waitpoint))["state"] for waitpoint in places.ids} == {"closed"}


def test_pending_and_new_waitpoints_may_be_mixed(x: Waiting) -> None:
    first, *_ = buffered(x, "a")
    new = str(uuid.uuid4())
    more = ("", "", 1, new, "z")
    reply = x.suspend(
        composite(all_of(single("a"), single("z"))), waitpoint=first, key="", extra=more, pending="by_key"
    )
    assert reply[:2] == [1, "OK"]
    assert reply[3:5] + reply[7:9] == [first, "a", new, "z"]
    assert x.deliver(waitpoint=new, token=reply[9])[3] == MET


def test_a_pending_waitpoint_that_is_not_there_is_not_made(x: Waiting) -> None:
    assert x.suspend(waitpoint="none", key="", pending="by_key") == [0, "waitpoint_not_found"]


def nested(levels: int) -> dict[str, Any]:
    return all_of(nested(levels - 1)) if levels else single("a")


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (None, "<root>"),
        ({"kind": "AnyOf"}, "a node of kind"),
        (all_of(), "allof_empty_members) at <root>"),
        (all_of(single("a"), all_of()), "allof_empty_members) at members[1]"),
        (all_of(single("z")), "the key of a waitpoint of this suspension at members[0]"),
        (all_of({"kind": "Single", "waitpoint_key": "a"}), "members[0].matcher"),
        (single("a", "__timeout__"), ".matcher"),
        (count(0, "DistinctSignals", KEYS), "count_n_zero"),
        (count(1, "DistinctSignals", []), "count_waitpoints_empty"),
        (count(1, "Distinct", KEYS), "count_kind"),
        (count(1, "DistinctSignals", ["z"]), "keys of waitpoints"),
        (count(4, "DistinctWaitpoints", KEYS), "count_exceeds_waitpoint_set"),
        (count(2, "DistinctWaitpoints", ["a", "a"]), "count_exceeds_waitpoint_set"),
        (nested(5), "condition_depth_exceeded) at members[0].members[0].members[0].members[0]"),
        (all_of(*[single("a")] * 256), "condition_too_large"),
    ],
)
def test_a_tree_that_can_never_be_met_is_refused_with_its_path(x: Waiting, tree: dict[str, Any], problem: str) -> None:
    reply = Places(x, composite(tree)).reply
    assert reply[:2] == [0, "invalid_input"]
    assert reply[2].startswith("resume_condition_json: expected")
    assert problem in reply[2]
    assert x.field("public_state") == "active"


def test_a_version_that_is_unknown_is_refused(x: Waiting) -> None:
    """D6: the original suspended with an empty tree, for ever."""
    reply = Places(x, composite(single("a"), version=2)).reply
    assert reply[:2] == [0, "invalid_input"]
    assert "unknown_condition_version" in reply[2]


@pytest.mark.parametrize("text", ["", "{", "[1", "7", "null", '"x"', '{"v":1,"composite":true}', "x" * 70_000,
                                  '{"required_signal_names":{"a":1}}', '{"required_signal_names":[1]}',
                                  '{"minimum_signal_count":"2"}', '{"signal_match_mode":3}', "[" * 5000,
                                  '{"signal_match_mode":"all","minimum_signal_count":1e999}',
                                  '{"v":1,"composite":true,"tree":{"kind":"NeverBySignal","x":1e999}}'])  # fmt: skip
def test_malformed_json_is_refused_by_its_name(x: Waiting, text: str) -> None:
    reply: Reply = x.suspend(text)
    assert reply[:2] == [0, "invalid_input"]
    assert reply[2].startswith("resume_condition_json: expected")


def test_four_levels_work(x: Waiting) -> None:
    assert Places(x, composite(nested(4))).send("a") == MET


_names = st.sampled_from(["x", "y"])
_matchers = st.builds(k.ByName, _names) | st.just(k.Wildcard())
_keys = st.sampled_from(KEYS).map(WaitpointKey)
_leaves = (
    st.builds(k.Single, _keys, _matchers)
    | st.just(k.OperatorOnly())
    | st.builds(
        k.Count, st.just(1), st.sampled_from(k.CountKind), st.lists(_keys, min_size=1, unique=True).map(tuple),
        st.none() | _matchers,
    )
    | st.builds(
        k.Count, st.integers(1, 3),
        st.sampled_from([k.CountKind.DISTINCT_SIGNALS, k.CountKind.DISTINCT_SOURCES]),
        st.lists(_keys, min_size=1, unique=True).map(tuple), st.none() | _matchers,
    )
    | st.builds(k.Count, st.integers(1, 3), st.just(k.CountKind.DISTINCT_WAITPOINTS),
                st.permutations([WaitpointKey(key) for key in KEYS]).map(tuple), st.none() | _matchers)
)  # fmt: skip


def _trees(depth: int) -> st.SearchStrategy[Any]:
    if depth == 0:
        return _leaves
    return _leaves | st.lists(_trees(depth - 1), min_size=1, max_size=3).map(lambda members: k.AllOf(tuple(members)))


_signals = st.lists(st.tuples(st.sampled_from(KEYS), _names, st.sampled_from(["ann", "bob", ""])), max_size=10)


@settings(
    max_examples=examples(60, soak=2_000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=st.lists(_trees(2), min_size=1, max_size=3), signals=_signals, early=st.integers(0, 4))
def test_every_tree_is_met_exactly_when_a_plain_reading_says_so(
    wire: valkey.Valkey, tree: list[Any], signals: list[tuple[str, str, str]], early: int
) -> None:
    """The first `early` signals come before the wait."""
    x = Waiting(wire).started()
    condition = k.AllOf(tuple(tree))
    pairs = [(key, str(uuid.uuid4())) for key in KEYS]
    tokens = {key: x.fcall("ff_create_pending_waitpoint", x.filled(4), x.id, 0, waitpoint, key, 9_000_000_000_000)[4]
              for key, waitpoint in pairs}  # fmt: skip
    ids, seen = dict(pairs), list[k.Delivery]()
    keys = {WaitpointId(waitpoint): WaitpointKey(key) for key, waitpoint in pairs}

    def send(key: str, name: str, source: str) -> str:
        signal = str(uuid.uuid4())
        seen.append(k.Delivery(signal_id=SignalId(signal), signal_name=name, waitpoint_id=WaitpointId(ids[key]),
                               source_type="human", source_identity=source))  # fmt: skip
        effect: str = x.buffer(waitpoint=ids[key], token=tokens[key], signal=signal, name=name, source=source)[3]
        return effect

    for signal in signals[:early]:
        assert send(*signal) == "buffered_for_pending_waitpoint"
    more = ("", "", 2, ids["b"], "", ids["c"], "")
    reply = x.suspend(condition_to_json(condition), waitpoint=ids["a"], key="", extra=more, pending="by_key")
    assert (reply[1] == "ALREADY_SATISFIED") == k.is_satisfied(condition, seen, keys)
    for signal in signals[early:]:
        if x.field("public_state") != "suspended":
            break
        assert (send(*signal) == MET) == k.is_satisfied(condition, seen, keys)

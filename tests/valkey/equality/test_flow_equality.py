"""Flows in Lua and in `core/rules`: edges, joins, the state of a flow, and cycles."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowfabric.core import contracts as c
from flowfabric.core.rules.flows import flow, graph, joins
from flowfabric.core.rules.flows.flow import BUILDING, HELD, Flow, Member
from flowfabric.core.rules.flows.graph import DependencyKind, EdgeGroupState, EdgeState
from flowfabric.core.rules.flows.joins import Join, Tally
from flowfabric.core.rules.outcome import Changes
from flowfabric.core.states import BlockingReason, EligibilityState, LifecyclePhase, TerminalOutcome
from tests.servers import TestServer
from tests.valkey.equality.vm import MANY, SOME, RuleVm, rule_vm

_GLUE = """
local function join(g, id)
  g.f, g.key, g.is_stored = lib.flow.at('{fp:1}', id), 'ff:flow:{fp:1}:' .. id .. ':edgegroup:x', true
  return g
end
local function counts(g) return {g.n, g.succeeded, g.failed, g.skipped, g.group_state} end
function glue.count(g, id, counter)
  join(g, id)
  lib.join_record.count(g, counter, 1)
  return counts(g)
end
function glue.uncount(g, id, counter)
  join(g, id)
  lib.join_record.uncount(g, counter)
  return counts(g)
end
function glue.grow(g, id, count)
  join(g, id)
  lib.join_record.grow(g, count)
  return counts(g)
end
function glue.take_back(g, id, state, kind, task, is_handled)
  local f, e = lib.flow.at('{fp:1}', id), {id = 'e', state = state, up = 'u', down = 'd', kind = kind, ref = '',
    created_at = '1', is_only = false}
  local key = lib.join_record.key(f, 'd')
  redis.call('HSET', key, 'n', g.n, 'succeeded', g.succeeded, 'failed', g.failed, 'skipped', g.skipped,
    'policy_variant', g.policy_variant, 'k', g.k, 'group_state', g.group_state)
  if is_handled then redis.call('SADD', lib.flow.key(f, 'compensated'), 'u') end
  local is_open = lib.replay_members.take_back(f, e, task)
  local after = lib.join_record.load(f, 'd')
  redis.call('DEL', key, lib.edge.key(f), lib.flow.key(f, 'compensated'))
  return {counts(after), is_open}
end
function glue.flow_state(fields, id)
  local f = lib.flow.at('{fp:1}', id)
  for name, value in pairs(fields) do f[name] = value end
  f.was_ended = lib.flow.has_ended(f)
  lib.flow_state.settle(f, 1)
  redis.call('DEL', f.core)
  return f.public_flow_state
end
function glue.leads_to(out, from, to) return lib.cycle_check.leads_to(lib.flow.at('{fp:1}', 'none'), from, to, out) end
function glue.closes_cycle(id, edges, up, down)
  local f = lib.flow.at('{fp:1}', id)
  for i, e in ipairs(edges) do
    local number = 'e' .. i
    lib.edge.add(f, {id = number, state = 'unsatisfied', up = e[1], down = e[2], kind = 'success_only',
      created_at = '1', ref = ''}, i)
  end
  return lib.cycle_check.closes_cycle(f, up, down)
end
"""

_OUTCOMES = [each for each in TerminalOutcome if each is not TerminalOutcome.NONE]


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, _GLUE) as opened:
        yield opened


def test_the_end_of_an_upstream_makes_the_same_of_an_edge(vm: RuleVm) -> None:
    both = (False, True)
    for kind, outcome, is_failure, is_handled in itertools.product(DependencyKind, _OUTCOMES, both, both):
        expected = joins.verdict(kind, outcome, is_failure=is_failure, is_handled=is_handled)
        assert tuple(vm.call("edge.verdict", kind, outcome, is_failure, is_handled)) == expected


def test_the_same_ends_are_failures(vm: RuleVm) -> None:
    for outcome, who in itertools.product(_OUTCOMES, ("", "flow_cascade", "operator", "child_flow")):
        record = {"cancelled_by": who} if who else {}
        assert bool(vm.call("join.is_failure", record, outcome)) == joins.is_failure(outcome, who or None)


_POLICIES = st.one_of(
    st.builds(c.AllOfEdges),
    st.builds(c.AnyOfEdges, on_satisfied=st.sampled_from(c.OnSatisfied)),
    st.builds(c.QuorumOfEdges, k=st.integers(1, 6), on_satisfied=st.sampled_from(c.OnSatisfied)),
)
_STATES = st.sampled_from([EdgeGroupState.PENDING, EdgeGroupState.SATISFIED, EdgeGroupState.IMPOSSIBLE])


@st.composite
def _joins(draw: st.DrawFn) -> Join:
    total = draw(st.integers(0, 6))
    succeeded = draw(st.integers(0, total))
    failed = draw(st.integers(0, total - succeeded))
    skipped = draw(st.integers(0, total - succeeded - failed))
    return Join(draw(_POLICIES), total, succeeded, failed, skipped, draw(_STATES))


def _record(join: Join) -> dict[str, object]:
    variant = str(join.policy.__struct_config__.tag)
    return {
        "n": join.total, "succeeded": join.succeeded, "failed": join.failed, "skipped": join.skipped,
        "group_state": join.state, "policy_variant": variant, "k": getattr(join.policy, "k", 0),
        "on_satisfied": join.policy.on_satisfied,
    }  # fmt: skip


def _counts(join: Join) -> list[object]:
    return [join.total, join.succeeded, join.failed, join.skipped, join.state]


@MANY
@given(join=_joins(), tally=st.sampled_from(Tally), more=st.integers(1, 3))
def test_a_join_counts_and_decides_in_the_same_way(vm: RuleVm, join: Join, tally: Tally, more: int) -> None:
    record, flow_id = _record(join), str(uuid.uuid4())
    assert vm.call("join_record.decide", record) == joins.decide(join)
    assert vm.call("join_record.open_count", record) == join.open_count
    assert vm.call("join_record.cancels_rest", record) == join.cancels_rest
    steps: list[tuple[str, object, Changes]] = [
        ("count", tally, joins.count(join, tally)), ("uncount", tally, joins.uncount(join, tally)),
        ("grow", more, joins.grow(join, more)),
    ]  # fmt: skip
    for name, value, changes in steps:
        assert vm.call(f"glue.{name}", record, flow_id, value) == _counts(changes.apply_to(join)), name


_ENDINGS = {
    "reopen": (TerminalOutcome.FAILED, True),
    "reopen_skipped": (TerminalOutcome.SKIPPED, False),
    "reopen_cancelled": (TerminalOutcome.CANCELLED, True),
}


@MANY
@given(
    join=_joins(), state=st.sampled_from([EdgeState.SATISFIED, EdgeState.IMPOSSIBLE]),
    task=st.sampled_from([*_ENDINGS]), kind=st.sampled_from([DependencyKind.SUCCESS_ONLY, DependencyKind.ON_FAILURE]),
    is_handled=st.booleans(),
)  # fmt: skip
def test_an_edge_is_taken_back_as_it_was_counted(
    vm: RuleVm, join: Join, state: EdgeState, task: str, kind: DependencyKind, is_handled: bool
) -> None:
    """A satisfied edge was counted as such, and an impossible one is never of the kind any_terminal."""
    assume(state is EdgeState.IMPOSSIBLE or join.succeeded > 0)
    outcome, is_failure = _ENDINGS[task]
    tally = joins.tally_to_take_back(join, state, kind, outcome, is_failure=is_failure, is_handled=is_handled)
    after = joins.uncount(join, tally).apply_to(join)
    found = vm.call("glue.take_back", _record(join), str(uuid.uuid4()), state, kind, task, is_handled)
    assert found == [_counts(after), after.state is EdgeGroupState.PENDING]


@MANY
@given(
    state=st.sampled_from(c.FlowState), ended=st.dictionaries(st.sampled_from(_OUTCOMES), st.integers(0, 2)),
    more=st.sampled_from([0, 0, 1, 3]), moving=st.integers(0, 2), failures=st.integers(0, 2),
    work=st.sampled_from([0, 0, 1]), staged=st.sampled_from([None, None, BUILDING, HELD]), is_started=st.booleans(),
)  # fmt: skip
def test_the_state_of_a_flow_follows_from_the_same_counts(
    vm: RuleVm, state: c.FlowState, ended: dict[TerminalOutcome, int], more: int, moving: int, failures: int, work: int,
    staged: str | None, is_started: bool,
) -> None:  # fmt: skip
    row = Flow(
        state=state, member_count=sum(ended.values()) + more, moving_count=moving, ended=ended, work_count=work,
        failures={str(i): "x" for i in range(failures)}, staged=staged,
    )  # fmt: skip
    counted = {
        "success": "members_completed", "failed": "members_failed", "cancelled": "members_cancelled",
        "expired": "members_expired", "skipped": "members_skipped",
    }  # fmt: skip
    fields = {
        "public_flow_state": state, "node_count": row.member_count, "moving_count": moving, "failure_count": failures,
        "work_count": work, "is_started": is_started, **{counted[each]: count for each, count in ended.items()},
    }  # fmt: skip
    if staged:
        fields["staged"] = staged
    found = vm.call("glue.flow_state", fields, str(uuid.uuid4()))
    assert found == flow.flow_state(row, is_started=is_started)


def test_the_same_members_move(vm: RuleVm) -> None:
    for phase, eligibility, released in itertools.product(LifecyclePhase, EligibilityState, (False, True)):
        record: dict[str, str] = {"lifecycle_phase": phase, "eligibility_state": eligibility}
        if released:
            record["child_released_at"] = "1"
        member = Member("f", phase, eligibility, BlockingReason.NONE, is_released=released)
        assert bool(vm.call("member.is_moving", record)) == flow.is_moving(member)


_PAIRS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=9, unique=True)


def _children(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for up, down in pairs:
        children.setdefault(up, []).append(down)
    return children


@MANY
@given(pairs=_PAIRS, start=st.sampled_from("abcdef"), goal=st.sampled_from("abcdef"))
def test_edges_lead_to_the_same_members(vm: RuleVm, pairs: list[tuple[str, str]], start: str, goal: str) -> None:
    children = _children(pairs)
    assert vm.call("glue.leads_to", children, start, goal) == graph.leads_to(children, start, goal)


@SOME
@given(pairs=_PAIRS, up=st.sampled_from("abcdef"), down=st.sampled_from("abcdef"))
def test_the_same_edges_close_a_cycle(vm: RuleVm, pairs: list[tuple[str, str]], up: str, down: str) -> None:
    """In graphs without a cycle, as all flows are; an edge to itself is refused before."""
    ordered = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    edges = list(dict.fromkeys(ordered))
    if up != down:
        expected = graph.closes_cycle(_children(edges), up, down)
        assert vm.call("glue.closes_cycle", str(uuid.uuid4()), edges, up, down) == expected

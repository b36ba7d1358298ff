"""Streams in Lua and in `core/rules`: sizes, repeated frames, how many stay, and why a stream is closed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import limits
from flowfabric.core.contracts.frame_marks import RERUN
from flowfabric.core.rules import streams
from flowfabric.core.rules.execution.transitions import SITUATIONS, TERMINAL, Situation
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.rules.streams import BestEffort, Ended, Numbered, Rate
from tests.servers import TestServer
from tests.valkey.equality.vm import MANY, NOW, SOME, RuleVm, rule_vm

_GLUE = """
function glue.known(s, first, count)
  local known, refusal = lib.frames.known(s, first, count)
  return refusal and {refusal[2], refusal[3]} or {known}
end
function glue.check_sizes(sizes, most)
  local payloads = {}
  for i, size in ipairs(sizes) do payloads[i] = ('x'):rep(size) end
  local refusal = lib.frames.check_sizes(payloads, most)
  return refusal and {refusal[2], refusal[3]} or {}
end
function glue.most(s, live, count, now)
  local most = lib.ephemeral_frames.most(s, live, count, now)
  return {most, ('%.17g'):format(s.rate), s.rate_at}
end
function glue.ended(fields, index, archived)
  local x = lib.record.at('ff:exec:{fp:1}:{fp:1}:e:core')
  for name, value in pairs(fields) do x[name] = value end
  local key = lib.record.attempt_key(x, index)
  redis.call('DEL', key)
  if archived then redis.call('HSET', key, 'ended_at', 7, 'attempt_state', archived) end
  local at, reason = lib.stream.ended(x, index)
  return {at or false, reason or false}
end
function glue.kept(before, asked, of_policy, age_ms, now, void)
  local x = lib.record.at('ff:exec:{fp:1}:{fp:1}:e:core')
  local s = {key = lib.stream.key(x, '0'), index = '0', count = before, bytes = 0, maxlen = of_policy, is_noted = true,
    void = void}
  redis.call('DEL', s.key)
  for i = 1, before do redis.call('XADD', s.key, lib.digits.of(now - before + i - 1) .. '-0', 'f', i) end
  local h = {frame_type = 'token'}
  lib.frame_header.check(h)
  lib.frames.append(x, s, {h}, {1}, {'payload'}, {maxlen = asked, age_ms = age_ms}, now)
  return redis.call('XLEN', s.key)
end
function glue.void(count, stepped, void, heads)
  local s, picks = {count = count, stepped = stepped, void = void, deleted = 0}, {}
  for i = 1, #heads do picks[i] = i end
  lib.passes.note(s, heads, picks, 1000, {})
  return {count + #heads, s.stepped, s.void}
end
function glue.deltas() return lib.ephemeral_frames.DELTAS end
function glue.live_defaults()
  local h = {frame_type = 'token', stream_mode = 'best_effort'}
  lib.frame_header.check(h)
  return h.live
end
"""


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, _GLUE) as opened:
        yield opened


@MANY
@given(
    numbered=st.one_of(st.none(), st.builds(Numbered, st.integers(0, 2), st.integers(0, 8))), epoch=st.integers(0, 2),
    first=st.integers(0, 9), count=st.integers(1, 5),
)  # fmt: skip
def test_the_same_frames_are_new(vm: RuleVm, numbered: Numbered | None, epoch: int, first: int, count: int) -> None:
    stream: dict[str, object] = {"epoch": str(epoch)}
    if numbered:
        stream["numbered"] = f"{numbered.epoch} {numbered.frames}"
    found, expected = vm.call("glue.known", stream, first, count), streams.known_frames(numbered, epoch, first, count)
    if isinstance(expected, Refusal):
        assert (found[0], int(found[1])) == (expected.code, expected.details["have"])
    else:
        assert found == [expected]


@MANY
@given(sizes=st.lists(st.integers(0, 40), max_size=4), most=st.integers(1, 40))
def test_the_same_frames_are_too_large(vm: RuleVm, sizes: list[int], most: int) -> None:
    refusal = streams.check_sizes(sizes, most)
    assert vm.call("glue.check_sizes", sizes, most) == ([refusal.code, str(most)] if refusal else {})


@pytest.mark.parametrize("extra", [0, 1])
def test_no_caller_may_allow_more_than_the_store(vm: RuleVm, extra: int) -> None:
    size = limits.MAX_FRAME_PAYLOAD_BYTES + extra
    assert bool(vm.call("glue.check_sizes", [size], 10**9)) == bool(extra)
    assert (streams.check_sizes([size], 10**9) is not None) == bool(extra)


_BOUNDS = st.builds(
    BestEffort, ttl_ms=st.integers(0, 60_000), floor=st.integers(0, 100), ceiling=st.integers(1, 5_000),
    alpha=st.sampled_from([0.05, 0.2, 0.5, 1.0]),
)  # fmt: skip
_RATES = st.one_of(
    st.none(), st.builds(Rate, st.floats(0, 1e6, allow_nan=False), st.integers(NOW - 60_000, NOW + 1_000))
)


@MANY
@given(rate=_RATES, bounds=_BOUNDS, count=st.integers(1, 50))
def test_as_many_best_effort_frames_stay(vm: RuleVm, rate: Rate | None, bounds: BestEffort, count: int) -> None:
    cap, after = streams.best_effort_cap(rate, bounds, count, NOW)
    stream = {"rate": rate.hz, "rate_at": rate.at_ms} if rate else {}
    most, hz, at = vm.call("glue.most", stream, bounds._asdict(), count, NOW)
    assert float(hz) == pytest.approx(after.hz, rel=1e-12)
    assert at == after.at_ms
    assert abs(most - cap) <= (0 if float(hz) == after.hz else 1)  # a last bit may lie on the other side of a ceiling


def test_best_effort_frames_have_the_same_bounds_unless_the_caller_says_otherwise(vm: RuleVm) -> None:
    assert vm.call("glue.live_defaults") == BestEffort()._asdict()
    assert vm.call("glue.deltas") == streams.MAX_DELTAS


@SOME
@given(
    before=st.integers(0, 500), asked=st.sampled_from([0, 0, 1, 7, 50]), of_policy=st.sampled_from([0, 1, 7, 50]),
    age_ms=st.sampled_from([0, 0, 1, 20, 400]), void=st.sampled_from([0, 0, 1, 5, 300]),
)  # fmt: skip
def test_the_same_durable_frames_stay(
    vm: RuleVm, before: int, asked: int, of_policy: int, age_ms: int, void: int
) -> None:
    """One frame a millisecond. A cap of the policy is kept about: the store trims whole nodes of at most 100 frames."""
    kept = streams.kept_frames(asked, of_policy, age_ms, void)
    found, count = vm.call("glue.kept", before, asked, of_policy, age_ms, NOW, void), before + 1
    young = min(count, age_ms + 1) if age_ms else count
    if kept.is_exact or count <= kept.most:
        assert found == min(young, kept.most)
    else:
        assert min(young, kept.most) <= found <= min(young, kept.most + 100)


def test_the_same_number_of_frames_stays_where_nobody_says_how_many(vm: RuleVm) -> None:
    most = streams.kept_frames(0, 0).most
    assert vm.call("glue.kept", most - 1, 0, 0, 0, NOW, 0) == most
    assert most <= vm.call("glue.kept", most + 250, 0, 0, 0, NOW, 0) <= most + 100


_KINDS = {"handler": {"frame_type": "token"}, "step": {"frame_type": "token", "step_run": "1.1"}}
_KINDS["pass"] = {"frame_type": RERUN}


@SOME
@given(kinds=st.lists(st.sampled_from(sorted(_KINDS)), max_size=20), cut=st.integers(0, 20))
def test_a_pass_makes_the_same_frames_void(vm: RuleVm, kinds: list[str], cut: int) -> None:
    """Over two calls, of which either may be empty."""
    state: list[int] = [0, 0, 0]
    for part in (kinds[:cut], kinds[cut:]):
        state = vm.call("glue.void", *state, [_KINDS[kind] for kind in part]) if part else state
    last = max((at for at, kind in enumerate(kinds) if kind == "pass"), default=0)
    assert state[2] == streams.void_frames(kind == "step" for kind in kinds[:last])


@MANY
@given(last=st.integers(0, NOW + 10), now=st.integers(NOW - 10, NOW + 10))
def test_the_time_of_an_entry_never_goes_back(vm: RuleVm, last: int, now: int) -> None:
    assert vm.call("stream.next_id", now, f"{last}-3") == f"{streams.next_time(last, now)}-*"


_ARCHIVED = (None, "ended_success", "ended_failure", "ended_cancelled", "interrupted_reclaimed", "other")


@pytest.mark.parametrize("situation", Situation)
def test_an_attempt_without_frames_is_closed_for_the_same_reason(vm: RuleVm, situation: Situation) -> None:
    """The second attempt, of as many as were started."""
    vector, is_over, either = SITUATIONS[situation], situation in TERMINAL, (False, True)
    for attempts, archived, is_expired, is_revoked in itertools.product((0, 1, 2), _ARCHIVED, either, either):
        fields: dict[str, object] = {name: getattr(vector, name) for name in vector.__struct_fields__}
        fields |= {"completed_at": "3"} if is_over else {}
        fields |= {"current_attempt_index": str(attempts - 1)} if attempts else {}
        fields |= {"lease_expired_at": "4"} if is_expired else {}
        fields |= {"lease_revoked_at": "5"} if is_revoked else {}
        facts = Ended(
            exists=attempts > 1, archived_state=archived, attempt_state=vector.attempt_state,
            outcome=vector.terminal_outcome, is_terminal=is_over, lease_expired=is_expired, lease_revoked=is_revoked,
        )  # fmt: skip
        at, reason = vm.call("glue.ended", fields, 1, archived or False)
        assert (reason or None) == streams.closed_reason(facts)
        assert bool(at) == bool(reason)

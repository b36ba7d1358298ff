"""Streams in Lua and in `core/rules`: sizes, repeated frames, how many stay, and merge patches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core import limits
from flowfabric.core.rules import merge_patch, streams
from flowfabric.core.rules.outcome import Refusal
from flowfabric.core.rules.streams import BestEffort, Numbered, Rate
from tests.servers import TestServer
from tests.valkey.equality.vm import MANY, NOW, RuleVm, rule_vm

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
function glue.merge(document, patch)
  local object = lib.merge_patch.read(document)
  local wrong = lib.merge_patch.apply(object, patch)
  return {wrong or '', wrong and '' or lib.merge_patch.text(object)}
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


_KEYS = st.sampled_from(["a", "b", "", "ä", 'q"uote'])
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.just(merge_patch.NULL), st.just([]), st.just({}),
    st.lists(st.one_of(st.none(), st.just(merge_patch.NULL), st.integers(0, 9)), max_size=3),
)  # fmt: skip
_OBJECTS = st.recursive(
    st.dictionaries(_KEYS, _LEAVES, max_size=4), lambda inner: st.dictionaries(_KEYS, inner | _LEAVES, max_size=4)
)


@MANY
@given(patches=st.lists(_OBJECTS, min_size=1, max_size=4))
def test_patches_make_the_same_document(vm: RuleVm, patches: list[dict[str, Any]]) -> None:
    text, document = "", dict[str, Any]()
    for patch in patches:
        wrong, text = vm.call("glue.merge", text, json.dumps(patch))
        merged = merge_patch.apply(document, patch)
        assert not wrong
        assert not isinstance(merged, Refusal)
        document = merged
        assert json.loads(text) == document


def _nested(levels: int) -> Any:
    return {"a": _nested(levels - 1)} if levels else 1


@pytest.mark.parametrize("patch", [[], 7, "text", None, _nested(16), _nested(17)])
def test_the_same_patches_are_refused(vm: RuleVm, patch: object) -> None:
    wrong, _ = vm.call("glue.merge", "", json.dumps(patch))
    assert bool(wrong) == isinstance(merge_patch.apply({}, patch), Refusal)

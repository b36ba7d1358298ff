"""Room in a lane, in Lua and in `core/rules`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.rules.execution import turns
from flowfabric.core.states import LaneState
from flowfabric.errors import InvalidInput
from tests.servers import TestServer
from tests.valkey.equality.vm import MANY, RuleVm, rule_vm

_GLUE = """
local function lane(share, state, active)
  local x = {tag = '{fp:1}', lane_id = 'lane'}
  local config, running = lib.lanes.config_key(x.tag, x.lane_id), lib.index_key.lane(x, 'active')
  redis.call('DEL', config, running)
  redis.call('HSET', config, 'state', state)
  if share > 0 then redis.call('HSET', config, 'share', share) end
  for i = 1, active do redis.call('ZADD', running, 0, i) end
  return x
end
function glue.free(share, active) return lib.lanes.free(lane(share, 'active', active)) end
function glue.wakes(share, state, active, stopped)
  local announce, heard = lib.wakeup.announce, false
  lib.wakeup.announce = function() heard = true end
  lib.lanes.stopped(lane(share, state, active), stopped)
  lib.wakeup.announce = announce
  return heard
end
"""

_SHARES = st.none() | st.integers(1, 6)


@pytest.fixture(scope="module")
def vm(wire_server: TestServer) -> Iterator[RuleVm]:
    with rule_vm(wire_server, _GLUE) as opened:
        yield opened


@MANY
@given(share=_SHARES, active=st.integers(0, 8))
def test_a_lane_has_the_same_room(vm: RuleVm, share: int | None, active: int) -> None:
    assert vm.call("glue.free", share or 0, active) == turns.lane_room(share, active)


@MANY
@given(share=_SHARES, state=st.sampled_from(LaneState), active=st.integers(0, 8), stopped=st.integers(1, 4))
def test_endings_announce_the_same_lanes(
    vm: RuleVm, share: int | None, state: LaneState, active: int, stopped: int
) -> None:
    expected = turns.wakes_lane(share, state, active, stopped)
    assert vm.call("glue.wakes", share or 0, state, active, stopped) == expected


@MANY
@given(total=st.integers(1, 50), shards=st.integers(1, 8))
def test_every_shard_of_a_lane_has_a_share_and_all_shares_are_the_limit(total: int, shards: int) -> None:
    if total < shards:
        with pytest.raises(InvalidInput, match="max_concurrency"):
            turns.lane_shares(total, [str(at) for at in range(shards)])
        return
    found = turns.lane_shares(total, [str(at) for at in range(shards)]).values()
    assert sum(found) == total
    assert max(found) - min(found) <= 1

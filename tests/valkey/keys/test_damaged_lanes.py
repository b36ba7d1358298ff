"""Lane settings as they are stored."""

from __future__ import annotations

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.errors import ScriptFault
from tests.conformance.driver import LANE
from tests.conformance.lanes.test_lane_shards import SHARDS, claim, submit_to_each_shard, tags_of
from tests.valkey.driver import Driver


@pytest.fixture
def lane_shards() -> int:
    return SHARDS


async def test_a_shard_in_trouble_does_not_cost_what_was_claimed_before_it(driver: Driver) -> None:
    await submit_to_each_shard(driver, 3)
    tags = tags_of(driver)
    (probe,) = await claim(driver, count=1)
    start = tags.index(probe.execution_id.tag)
    next_one, broken = tags[(start + 1) % SHARDS], tags[(start + 2) % SHARDS]
    key = keys.lane_config(broken, LANE)
    await driver.backend.client.execute("SET", key, "not a hash", key=key)
    assert [each.execution_id.tag for each in await claim(driver)] == [next_one] * 3
    with pytest.raises(ScriptFault):
        await claim(driver)

"""Which commands a call costs, by the server's own count."""

from __future__ import annotations

import random

from flowfabric.core import contracts as c
from tests.conformance.reads.test_list_executions import LANES, populate, walk
from tests.valkey.driver import Driver


async def test_lists_never_look_through_the_key_space(driver: Driver) -> None:
    await populate(driver, random.Random(1), 10)
    await driver.backend.client.execute_on_primaries("CONFIG", "RESETSTAT")
    await walk(driver, limit=3, lane_id=LANES[0])
    await walk(driver, tags={"team.a": "1"})
    await driver.backend.count_executions()
    await driver.backend.read_events(c.ReadEventsArgs())
    await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
    for stats in await driver.backend.client.execute_on_primaries("INFO", "commandstats"):
        assert isinstance(stats, bytes)
        assert not any(line.startswith((b"cmdstat_keys:", b"cmdstat_scan:")) for line in stats.splitlines())

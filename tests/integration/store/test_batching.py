"""Single submits become few calls at a real store."""

from __future__ import annotations

import asyncio
import re

from flowfabric.backends.batching import Gatherer
from flowfabric.core import contracts as c
from tests.unit.backends.test_gathering import create
from tests.valkey.probe import ValkeyProbe


async def test_a_thousand_submits_at_once_take_few_calls_and_each_exists_once(probe: ValkeyProbe) -> None:
    backend = probe.backend
    gatherer = Gatherer(backend)
    given = [create(number, partition=number % 2) for number in range(1_000)]
    await backend.client.execute("CONFIG", "RESETSTAT")
    results = await asyncio.gather(*(gatherer.submit(args) for args in given))
    stats = str(await backend.client.execute("INFO", "commandstats"))
    assert [result.execution_id for result in results] == [args.execution_id for args in given]
    assert {type(result) for result in results} == {c.ExecutionCreated}
    assert re.findall(r"cmdstat_fcall:calls=(\d+)", stats) == [str(gatherer.calls)]
    assert (gatherer.items, gatherer.largest) == (1_000, 100)
    assert gatherer.calls < 20
    assert len(await probe.check()) == 1_000
    await gatherer.close()

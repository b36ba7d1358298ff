"""Which keys a stream has, and when they go."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.core import contracts as c
from flowfabric.errors import ExecutionNotFound
from tests.conformance.streaming import append_many, many, payloads, read, running
from tests.conformance.streams.test_streams import ENDS
from tests.valkey.driver import Driver


async def of_streams(driver: Driver) -> list[bytes]:
    """Every key of output there is."""
    found = await driver.probe.dump()
    return [key for key in found if key.startswith(b"ff:stream:") or key.endswith(b":summary")]


async def test_an_execution_that_never_emits_has_no_key(driver: Driver) -> None:
    x = await running(driver)
    await driver.progress(x)
    await driver.complete(x)
    assert await of_streams(driver) == []
    page = await read(driver, x)
    assert (page.frames, page.closed_reason, page.is_end) == ((), "attempt_success", True)


class TestEnds:
    @pytest.mark.parametrize("end", ENDS)
    async def test_an_attempt_without_frames_is_closed_all_the_same(self, driver: Driver, end: str) -> None:
        x = await driver.run(await driver.create())
        finish, reason = ENDS[end]
        await finish(driver, x)
        page = await read(driver, x, 0)
        by_record = {"reclaim": "lease_expired", "reclaim_at_cap": "attempt_failure"}
        expected = {**by_record, "suspension_timeout": "attempt_failure"}.get(end, reason)
        assert (page.frames, page.is_end, page.closed_reason) == ((), True, expected)
        assert await of_streams(driver) == []

    async def test_streams_are_deleted_with_their_execution(self, driver: Driver) -> None:
        x = await running(driver)
        for mode in c.StreamMode:
            await driver.append(x, b"{}", mode=mode)
        await driver.complete(x)
        assert len(await of_streams(driver)) == 5
        await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
        assert await of_streams(driver) == []
        with pytest.raises(ExecutionNotFound):
            await read(driver, x)


class TestRetention:
    async def test_ids_never_go_back_when_the_clock_does(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x, b"a")
        key, ahead = keys.stream(x.execution_id, 0), f"{driver.clock.now_ms + 60_000}-7"
        client = driver.backend.client
        await client.execute("XSETID", key, ahead, key=key)
        await client.execute("HSET", f"{key}:meta", "last_sequence", ahead, key=key)
        await append_many(driver, many(x, 0, b"b"))
        await driver.complete(x)
        page = await read(driver, x)
        assert (payloads(page), page.is_closed) == ([b"a", b"b"], True)


class TestLiveFrames:
    async def test_a_stream_of_them_alone_goes_by_itself_until_a_durable_frame_comes(self, driver: Driver) -> None:
        x = await running(driver)
        key = keys.stream(x.execution_id, 0)

        async def ttl() -> int:
            found = await driver.backend.client.execute("PTTL", key, key=key)
            assert isinstance(found, int)
            return found

        live: dict[str, Any] = {"mode": "best_effort", "live": c.LiveFrames(ttl_ms=60_000)}
        await driver.append(x, **live)
        assert 60_000 < await ttl() <= 120_000
        await driver.append(x)
        assert await ttl() == -1
        await driver.append(x, **live)
        assert await ttl() == -1

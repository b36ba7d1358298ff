"""Following streams: woken by frames and by the end, on few connections, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.backends.ports.streams import FrameFollower
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.cursor import StreamCursor
from flowfabric.errors import BackendUnavailable, ExecutionNotFound
from tests.conformance.driver import BACKOFF, TTL, Driver, Subject
from tests.conformance.streaming import append_many, many, payloads, running

pytestmark = pytest.mark.every_store

LONG = limits.MAX_TAIL_BLOCK_MS  # never waited out: a test that gets there has failed


def follow_args(x: Subject, index: int | None = None, **overrides: Any) -> c.FollowFramesArgs:
    attempt = x.attempt_index if index is None else index
    return c.FollowFramesArgs(execution_id=x.execution_id, attempt_index=attempt, **overrides)


@asynccontextmanager
async def following(
    driver: Driver, x: Subject, index: int | None = None, **overrides: Any
) -> AsyncIterator[FrameFollower]:
    async with driver.backend.follow_attempt_stream(follow_args(x, index, **overrides)) as follower:
        yield follower


async def everything(follower: FrameFollower) -> list[bytes]:
    """What it reads until the end."""
    seen: list[bytes] = []
    while True:
        page = await follower.next()
        seen += payloads(page)
        if page.is_end:
            return seen


def tailing(driver: Driver, x: Subject, block_ms: int = LONG, **overrides: Any) -> asyncio.Task[c.StreamFrames]:
    args = c.TailFramesArgs(execution_id=x.execution_id, attempt_index=x.attempt_index, block_ms=block_ms, **overrides)
    return asyncio.create_task(driver.backend.tail_attempt_stream(args))


class TestTail:
    async def test_what_is_there_is_answered_without_waiting(self, driver: Driver) -> None:
        x = await running(driver)
        appended = await append_many(driver, many(x, 0, b"a", b"b", b"c"))
        assert payloads(await tailing(driver, x)) == [b"a", b"b", b"c"]
        after = StreamCursor(appended.entry_ids[0])
        assert payloads(await tailing(driver, x, after=after, count_limit=1)) == [b"b"]
        assert await driver.probe.waiting() == 0

    @pytest.mark.parametrize("block_ms", [0, 20])
    async def test_nothing_within_the_time_is_an_open_empty_page(self, driver: Driver, block_ms: int) -> None:
        x = await running(driver)
        first = await driver.append(x)
        page = await tailing(driver, x, block_ms, after=StreamCursor(first.entry_id))
        assert (page.frames, page.is_closed, page.cursor) == ((), False, first.entry_id)

    @pytest.mark.parametrize("emitted", [0, 1])
    async def test_a_frame_wakes_it(self, driver: Driver, emitted: int) -> None:
        x = await running(driver)
        after = StreamCursor((await driver.append(x)).entry_id) if emitted else StreamCursor.from_beginning()
        task = tailing(driver, x, after=after)
        await driver.probe.until_waiting()
        await driver.append(x, b"new")
        assert payloads(await task) == [b"new"]

    @pytest.mark.parametrize("emitted", [0, 1])
    async def test_the_end_of_the_attempt_wakes_it(self, driver: Driver, emitted: int) -> None:
        x = await running(driver)
        after = StreamCursor((await driver.append(x)).entry_id) if emitted else StreamCursor.from_beginning()
        task = tailing(driver, x, after=after)
        await driver.probe.until_waiting()
        await driver.complete(x)
        page = await task
        assert (page.frames, page.is_end, page.closed_reason) == ((), True, "attempt_success")

    async def test_an_unknown_execution_is_refused(self, driver: Driver) -> None:
        with pytest.raises(ExecutionNotFound):
            await tailing(driver, Subject(driver.mint()))


class TestFollow:
    async def test_early_late_and_resumed_readers_see_the_same(self, driver: Driver) -> None:
        x = await running(driver)
        async with following(driver, x) as early:
            reading = asyncio.create_task(everything(early))
            await driver.probe.until_waiting()
            first = await append_many(driver, many(x, 0, *(b"%d" % n for n in range(10))))
            async with following(driver, x, after=StreamCursor(first.entry_ids[4])) as resumed:
                rest = asyncio.create_task(everything(resumed))
                await append_many(driver, many(x, 10, *(b"%d" % n for n in range(10, 20))))
                await driver.complete(x)
                async with following(driver, x) as late:
                    assert await everything(late) == [b"%d" % n for n in range(20)]
                assert await rest == [b"%d" % n for n in range(5, 20)]
            assert await reading == [b"%d" % n for n in range(20)]

    async def test_pages_are_as_long_as_asked_for(self, driver: Driver) -> None:
        x = await running(driver)
        async with following(driver, x, count_limit=3) as follower:
            waiting = asyncio.create_task(follower.next())
            await driver.probe.until_waiting()
            await append_many(driver, many(x, 0, *(b"%d" % n for n in range(7))))
            pages = [await waiting, await follower.next(), await follower.next()]
        assert [payloads(page) for page in pages] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]
        assert [page.more for page in pages] == [True, True, False]

    async def test_the_end_is_told_again(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x)
        await driver.complete(x)
        async with following(driver, x) as follower:
            assert payloads(await follower.next()) == [b"frame"]
            for _ in range(2):
                page = await follower.next()
                assert (page.frames, page.is_end) == ((), True)

    async def test_a_slow_reader_misses_nothing_and_holds_up_nobody(self, driver: Driver) -> None:
        x = await running(driver)
        total = 3_000
        async with following(driver, x) as slow, following(driver, x) as quick:
            begun = asyncio.create_task(slow.next())
            reading = asyncio.create_task(everything(quick))
            await driver.probe.until_waiting()
            for start in range(0, total, 250):
                await append_many(driver, many(x, start, *(b"%d" % n for n in range(start, start + 250))))
            await driver.complete(x)
            assert await reading == [b"%d" % n for n in range(total)]
            first = payloads(await begun)
            assert first + await everything(slow) == [b"%d" % n for n in range(total)]

    async def test_best_effort_frames_can_be_left_out(self, driver: Driver) -> None:
        x = await running(driver)
        async with following(driver, x, visibility=c.Visibility.EXCLUDE_BEST_EFFORT) as follower:
            reading = asyncio.create_task(everything(follower))
            await driver.probe.until_waiting()
            for at in range(3):
                await driver.append(x, b"live", mode="best_effort")
                await driver.append(x, b"%d" % at)
            await driver.complete(x)
            assert await reading == [b"0", b"1", b"2"]

    async def test_a_suspended_attempt_is_followed_over_its_leases(self, driver: Driver) -> None:
        x = await running(driver)
        async with following(driver, x) as follower:
            reading = asyncio.create_task(everything(follower))
            await driver.append(x, b"a")
            await driver.delay(x, driver.clock.now_ms)
            await driver.grant(x)
            await driver.claim_resumed(x)
            await driver.append(x, b"b")
            await driver.complete(x)
            assert await reading == [b"a", b"b"]

    async def test_the_attempt_to_come_can_be_waited_for(self, driver: Driver) -> None:
        x = await running(driver)
        async with following(driver, x, 1) as follower:
            reading = asyncio.create_task(everything(follower))
            await driver.probe.until_waiting()
            await driver.fail(x, retry=True)
            await driver.clock.advance(BACKOFF)
            await driver.promote(x)
            await driver.run(x)
            await driver.append(x, b"second try")
            await driver.complete(x)
            assert await reading == [b"second try"]

    async def test_the_loss_of_a_lease_ends_it(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x, b"half")
        async with following(driver, x) as follower:
            assert payloads(await follower.next()) == [b"half"]
            end = asyncio.create_task(follower.next())
            await driver.probe.until_waiting()
            await driver.clock.advance(TTL)
            await driver.mark_expired(x)
            assert (await end).closed_reason == "lease_expired"


class TestManyAtOnce:
    async def test_appends_do_not_wait_for_those_who_wait(self, driver: Driver) -> None:
        """The blocking read has a connection of its own."""
        x = await running(driver)
        other = await running(driver)
        async with following(driver, x) as follower:
            waiting = asyncio.create_task(follower.next())
            await driver.probe.until_waiting()
            for _ in range(20):
                await driver.append(other)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])


class TestTrouble:
    async def test_followers_survive_the_loss_of_their_connection(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x, b"0")
        async with following(driver, x) as follower:
            reading = asyncio.create_task(everything(follower))
            for at in range(1, 4):
                await driver.probe.until_waiting()
                await driver.probe.cut()
                await driver.append(x, b"%d" % at)  # maybe before the next read, maybe after it: it must not matter
            await driver.complete(x)
            assert await reading == [b"0", b"1", b"2", b"3"]

    @pytest.mark.parametrize("emitted", [0, 1])
    async def test_a_backend_that_closes_tells_its_followers(self, driver: Driver, emitted: int) -> None:
        x = await running(driver)
        if emitted:
            await driver.append(x)
        other = await driver.probe.another()
        async with other.follow_attempt_stream(follow_args(x)) as follower:
            reading = asyncio.create_task(everything(follower))
            await driver.probe.until_waiting()
            await other.close()
            with pytest.raises(BackendUnavailable):
                await reading

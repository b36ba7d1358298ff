"""Frames: who may append them, in which order they are read, what stays of them, and how a stream ends."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.contracts.frame_marks import RERUN, STEP
from flowfabric.core.cursor import StreamCursor
from flowfabric.core.policy import ExecutionPolicy, StreamPolicy
from flowfabric.errors import ExecutionNotFound, FlowFabricError, Invalid
from tests.conformance.driver import ATTEMPT_TIMEOUT, BACKOFF, DEADLINE_IN, TTL, Driver, Subject, made_up_fence
from tests.conformance.streaming import append_many, frames, many, payloads, read, running
from tests.conformance.suspending import Suspender

BINARY = bytes(range(256))


async def refused(driver: Driver, code: str, call: Awaitable[object]) -> FlowFabricError:
    before = await driver.probe.dump()
    with pytest.raises(FlowFabricError) as caught:
        await call
    assert caught.value.code == code
    assert await driver.probe.dump() == before
    return caught.value


async def test_frames_are_read_as_they_were_appended(driver: Driver) -> None:
    x = await running(driver)
    await driver.append(
        x, BINARY, encoding="raw", metadata_json='{"a":1}', correlation_id="c-1", source="tool", timestamp=5
    )
    appended = await driver.append(x, b"")
    first, second = (await read(driver, x)).frames
    assert (first.frame_type, first.payload, first.ts, first.encoding) == ("token", BINARY, 5, "raw")
    assert (first.metadata_json, first.correlation_id, first.source) == ('{"a":1}', "c-1", "tool")
    assert second == c.StreamFrame(id=appended.entry_id, frame_type="token", payload=b"", ts=driver.clock.now_ms)
    assert appended.frame_count == 2


async def test_frames_tell_which_run_of_a_step_emitted_them(driver: Driver) -> None:
    x = await running(driver)
    await driver.append(x, b"alone", step_run="1.1")
    given = [frames(b"a")[0], *frames(b"b", step_run="1.2"), *frames(b"c", step_run="1.2", mode="best_effort")]
    await append_many(driver, many(x, 0, frames=tuple(given)))
    page = await read(driver, x)
    assert [(frame.payload, frame.step_run) for frame in page.frames] == [
        (b"alone", "1.1"), (b"a", None), (b"b", "1.2"), (b"c", "1.2"),
    ]  # fmt: skip


@pytest.mark.parametrize("passes", [1, 3, 20])
async def test_output_that_is_emitted_again_displaces_no_output_of_a_step(driver: Driver, passes: int) -> None:
    """What an undisturbed run keeps is kept, and not much more."""
    x = await running(driver)
    first = (*frames(b"1", b"2", b"3"), *frames(b"4", b"5", step_run="1.1"))
    await append_many(driver, many(x, 0, frames=first, retention_maxlen=7))
    for number in range(passes):
        again = (*frames(b"", frame_type=RERUN), *frames(b"1", b"2", b"3"), *frames(b"", frame_type=STEP))
        await append_many(driver, many(x, 5 + 5 * number, frames=again, retention_maxlen=7))
    found = await read(driver, x)
    assert [frame.payload for frame in found.frames if frame.step_run] == [b"4", b"5"]
    assert payloads(found)[-5:] == [b"", b"1", b"2", b"3", b""]
    assert len(found.frames) <= 3 * 7


async def test_frames_leave_the_state_and_the_log_alone(driver: Driver) -> None:
    x = await running(driver)
    before = await driver.state(x)
    await driver.append(x)
    assert await driver.state(x) == before
    assert [each.event for each in (await driver.backend.history(x.execution_id)).events] == ["created", "claimed"]
    await driver.probe.check()


async def test_pages_go_on_from_a_cursor(driver: Driver) -> None:
    x = await running(driver)
    await append_many(driver, many(x, 0, *(b"%d" % at for at in range(7))))
    seen: list[bytes] = []
    cursor = StreamCursor.from_beginning()
    while True:
        page = await read(driver, x, after=cursor, count_limit=3)
        seen += payloads(page)
        cursor = StreamCursor(page.cursor)
        if not page.more:
            break
    assert seen == [b"%d" % at for at in range(7)]
    ids = [frame.id for frame in (await read(driver, x)).frames]
    assert payloads(await read(driver, x, from_id=StreamCursor(ids[2]), to_id=StreamCursor(ids[4]))) == seen[2:5]
    assert payloads(await read(driver, x, from_id=StreamCursor.end())) == []


async def test_a_page_of_large_frames_ends_early(driver: Driver) -> None:
    x = await running(driver)
    large = b"x" * limits.FRAME_PAYLOAD_MAX_BYTES
    for _ in range(20):
        await driver.append(x, large)
    page = await read(driver, x)
    assert (len(page.frames), page.more) == (16, True)
    assert len((await read(driver, x, after=StreamCursor(page.cursor))).frames) == 4


async def test_a_stream_is_described_without_reading_it(driver: Driver) -> None:
    x = await running(driver)
    describe = driver.backend.describe_stream
    assert await describe(x.execution_id, 0) == c.StreamInfo(execution_id=x.execution_id, attempt_index=0)
    done = await append_many(driver, many(x, 0, b"ab", b"c"))
    await driver.complete(x)
    info = await describe(x.execution_id, 0)
    assert (info.length, info.frame_count, info.total_bytes) == (2, 2, 3)
    assert (info.first_id, info.last_id) == done.entry_ids
    assert (info.is_closed, info.closed_reason) == (True, "attempt_success")


@pytest.mark.parametrize("what", ["read", "describe", "append", "summary"])
async def test_an_unknown_execution_has_no_stream(driver: Driver, what: str) -> None:
    x = Subject(driver.mint(), made_up_fence())
    if what == "summary":
        assert await driver.backend.read_summary(x.execution_id, 0) is None
    elif what == "append":
        assert (await refused(driver, "stream_closed", driver.append(x))).details["why"] == "execution_not_found"
    else:
        with pytest.raises(ExecutionNotFound):
            await (read(driver, x) if what == "read" else driver.backend.describe_stream(x.execution_id, 0))


class TestManyAtOnce:
    async def test_attempts_of_several_partitions_get_their_frames_in_order(self, driver: Driver) -> None:
        subjects = [await running(driver) for _ in range(3)]
        batch = [many(x, 0, *(b"%d" % n for n in range(50))) for x in subjects]
        batch += [many(x, 50, *(b"%d" % n for n in range(50, 60))) for x in subjects]
        outcomes = await driver.backend.append_frames(batch)
        assert [o.frame_count for o in outcomes if isinstance(o, c.FramesAppended)] == [50] * 3 + [60] * 3
        for x in subjects:
            assert payloads(await read(driver, x)) == [b"%d" % n for n in range(60)]

    async def test_more_than_one_call_may_carry_are_cut_in_order(self, driver: Driver) -> None:
        x = await running(driver)
        batch = [many(x, 256 * n, *([b"%d" % n] * 256)) for n in range(5)]
        assert all(isinstance(each, c.FramesAppended) for each in await driver.backend.append_frames(batch))
        found = payloads(await read(driver, x, count_limit=10_000))
        assert found == sorted(found)
        assert len(found) == 1_280

    async def test_a_refused_attempt_spoils_no_other(self, driver: Driver) -> None:
        good, lost, gone = [await running(driver) for _ in range(3)]
        await driver.complete(gone)
        stale = many(lost, 0, b"x", fence=made_up_fence())
        outcomes = await driver.backend.append_frames([stale, many(good, 0, b"a"), many(gone, 0, b"x")])
        codes = [each.code if isinstance(each, FlowFabricError) else "" for each in outcomes]
        assert codes == ["stale_owner_cannot_append", "", "stream_closed"]
        assert payloads(await read(driver, good)) == [b"a"]
        assert payloads(await read(driver, lost)) == []

    async def test_a_repeated_call_adds_nothing(self, driver: Driver) -> None:
        x = await running(driver)
        call = many(x, 0, b"a", b"b")
        await append_many(driver, call)
        before = await driver.probe.dump()
        again = await append_many(driver, call)
        assert (again.entry_ids, again.frame_count) == ((), 2)
        assert await driver.probe.dump() == before
        assert len((await append_many(driver, many(x, 1, b"b", b"c"))).entry_ids) == 1
        assert payloads(await read(driver, x)) == [b"a", b"b", b"c"]

    async def test_frames_that_overtake_others_are_refused(self, driver: Driver) -> None:
        x = await running(driver)
        error = await refused(driver, "frames_out_of_order", append_many(driver, many(x, 1, b"b")))
        assert error.details["frame_number"] == "0"
        assert error.retryable

    async def test_numbers_begin_anew_with_each_lease(self, driver: Driver) -> None:
        x = await running(driver)
        await append_many(driver, many(x, 0, b"a", b"b"))
        await driver.delay(x, driver.clock.now_ms)
        await driver.grant(x)
        await driver.claim_resumed(x)
        await append_many(driver, many(x, 0, b"c"))
        assert payloads(await read(driver, x)) == [b"a", b"b", b"c"]

    async def test_single_frames_in_between_do_not_disturb_the_numbers(self, driver: Driver) -> None:
        x = await running(driver)
        await append_many(driver, many(x, 0, b"a"))
        await driver.append(x, b"single")
        await append_many(driver, many(x, 1, b"b"))
        assert payloads(await read(driver, x)) == [b"a", b"single", b"b"]

    async def test_the_frames_of_an_attempt_are_appended_together_or_not_at_all(self, driver: Driver) -> None:
        x = await running(driver)
        deep = b'{"a":' * 17 + b"1" + b"}" * 17
        mixed = (*frames(b"a"), *frames(b'{"n":1}', deep, mode="summary"), *frames(b"b"))
        await refused(driver, "invalid_input", append_many(driver, many(x, 0, frames=mixed)))

    async def test_frames_of_every_kind_travel_together(self, driver: Driver) -> None:
        x = await running(driver)
        kinds = (
            *frames(b"a", source="tool", correlation_id="c", metadata_json="[]", timestamp=7),
            *frames(b'{"n":1}', b'{"n":2}', mode="summary"),
            *frames(b"live", mode="best_effort", live=c.LiveFrames(ttl_ms=50)),
            *frames(b"b", encoding=None),
        )
        done = await append_many(driver, many(x, 0, frames=kinds))
        assert (done.summary_version, done.frame_count) == (2, 5)
        first, one, two, live, last = (await read(driver, x)).frames
        assert (first.source, first.correlation_id, first.metadata_json, first.ts) == ("tool", "c", "[]", 7)
        assert [(each.mode, each.summary_version) for each in (one, two)] == [("summary", 1), ("summary", 2)]
        assert (live.mode, live.ttl_ms, last.mode, last.encoding) == ("best_effort", 50, "durable", None)


class TestOwners:
    async def test_a_stale_owner_appends_nothing(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x, b"first")
        old = x.fence
        await driver.revoke(x)
        await driver.reclaim_grant(x)
        await driver.reclaim(x)
        stale: dict[str, Any] = {"fence": old, "attempt_index": 0}
        error = await refused(driver, "stale_owner_cannot_append", driver.append(x, **stale))
        assert error.details["why"] == "stale_lease"
        await refused(driver, "stale_owner_cannot_append", append_many(driver, many(x, 0, b"x", **stale)))
        await driver.append(x, b"second")
        assert payloads(await read(driver, x, 0)) == [b"first"]
        assert payloads(await read(driver, x, 1)) == [b"second"]

    async def test_a_lease_that_ran_out_appends_nothing(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.clock.advance(TTL)
        error = await refused(driver, "stale_owner_cannot_append", driver.append(x))
        assert error.details["why"] == "lease_expired"

    async def test_after_the_end_nothing_is_appended_and_all_can_be_read(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x)
        await driver.complete(x)
        await refused(driver, "stream_closed", driver.append(x))
        assert payloads(await read(driver, x)) == [b"frame"]

    async def test_a_suspended_attempt_goes_on_with_its_stream(self, driver: Driver) -> None:
        suspender = Suspender(driver)
        await suspender.seed()
        x = await running(driver)
        await driver.append(x, b"before")
        suspension = await suspender.suspend(x)
        assert not (await read(driver, x)).is_closed
        await refused(driver, "stream_closed", driver.append(x))
        await suspender.signal(x, suspension.waitpoints[0])
        await driver.grant(x)
        await driver.claim_resumed(x)
        await driver.append(x, b"after")
        page = await read(driver, x, 0)
        assert (payloads(page), page.is_closed) == ([b"before", b"after"], False)

    async def test_a_frame_over_its_limit_is_refused(self, driver: Driver) -> None:
        x = await running(driver)
        large = b"x" * (limits.FRAME_PAYLOAD_MAX_BYTES + 1)
        with pytest.raises(Invalid) as caught:
            await driver.append(x, large)
        assert caught.value.code == "retention_limit_exceeded"
        await driver.append(x, large, max_payload_bytes=len(large))
        assert payloads(await read(driver, x)) == [large]


async def _expire(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(DEADLINE_IN)
    await driver.expire(x, c.ExpireReason.EXECUTION_DEADLINE)


async def _time_out(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(ATTEMPT_TIMEOUT)
    await driver.expire(x, c.ExpireReason.ATTEMPT_TIMEOUT)


async def _lose(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(TTL)
    await driver.mark_expired(x)


async def _reclaim(driver: Driver, x: Subject) -> None:
    await _lose(driver, x)
    await driver.reclaim_grant(x)
    await driver.reclaim(x)


async def _reclaim_at_cap(driver: Driver, x: Subject) -> None:
    await _lose(driver, x)
    await driver.reclaim_grant(x)
    await driver.reclaim(x, max_reclaim_count=0)


async def _requeue(driver: Driver, x: Subject) -> None:
    await driver.clock.advance(TTL)
    await Suspender(driver).due(x)


async def _suspend_too_long(driver: Driver, x: Subject) -> None:
    suspender = Suspender(driver)
    await suspender.seed()
    await suspender.suspend(x, timeout_at=driver.clock.now_ms + 1_000)
    await driver.clock.advance(1_000)
    await suspender.due(x)


async def _cancel_interrupted(driver: Driver, x: Subject) -> None:
    await driver.delay(x, driver.clock.now_ms)
    await driver.cancel(x)


ENDS: dict[str, tuple[Callable[[Driver, Subject], Awaitable[Any]], str]] = {
    "complete": (Driver.complete, "attempt_success"),
    "fail": (Driver.fail, "attempt_failure"),
    "retry": (lambda d, x: d.fail(x, retry=True), "attempt_failure"),
    "cancel": (Driver.cancel, "attempt_cancelled"),
    "cancel_interrupted": (_cancel_interrupted, "attempt_cancelled"),
    "deadline": (_expire, "expired"),
    "attempt_timeout": (_time_out, "expired"),
    "lease_expired": (_lose, "lease_expired"),
    "lease_revoked": (Driver.revoke, "lease_revoked"),
    "reclaim": (_reclaim, "reclaimed"),
    "reclaim_at_cap": (_reclaim_at_cap, "lease_expired"),
    "suspension_timeout": (_suspend_too_long, "suspension_timeout"),
    "requeue": (_requeue, "lease_expired"),
}


class TestEnds:
    @pytest.mark.parametrize("end", ENDS)
    async def test_however_an_attempt_ends_its_stream_is_closed(self, driver: Driver, end: str) -> None:
        x = await driver.run(await driver.create())
        await driver.append(x)
        finish, reason = ENDS[end]
        await finish(driver, x)
        page = await read(driver, x, 0)
        assert (payloads(page), page.is_end, page.closed_reason) == ([b"frame"], True, reason)
        assert page.closed_at == driver.clock.now_ms

    async def test_an_attempt_that_will_never_start_is_closed_with_its_execution(self, driver: Driver) -> None:
        x = await driver.create()
        assert not (await read(driver, x, 0)).is_closed
        await driver.cancel(x)
        assert (await read(driver, x, 0)).closed_reason == "never_started"

    async def test_each_attempt_has_its_own_stream(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x, b"one")
        await driver.fail(x, retry=True)
        await driver.clock.advance(BACKOFF)
        await driver.promote(x)
        assert not (await read(driver, x, 1)).is_closed
        await driver.run(x)
        await driver.append(x, b"two")
        assert payloads(await read(driver, x, 0)) == [b"one"]
        page = await read(driver, x, 1)
        assert (payloads(page), page.is_closed) == ([b"two"], False)


class TestRetention:
    async def test_the_call_says_how_many_stay(self, driver: Driver) -> None:
        x = await running(driver)
        await append_many(driver, many(x, 0, *(b"%d" % at for at in range(10)), retention_maxlen=3))
        assert payloads(await read(driver, x)) == [b"7", b"8", b"9"]
        assert (await driver.append(x, b"10", retention_maxlen=3)).frame_count == 11
        assert payloads(await read(driver, x)) == [b"8", b"9", b"10"]

    async def test_the_policy_says_about_how_many_stay(self, driver: Driver) -> None:
        policy = ExecutionPolicy(stream_policy=StreamPolicy(retention_maxlen=200))
        x = await running(driver, policy=policy)
        for start in range(0, 1_000, 200):
            await append_many(driver, many(x, start, *([b"x"] * 200)))
        info = await driver.backend.describe_stream(x.execution_id, 0)
        assert 200 <= info.length < 400
        assert info.frame_count == 1_000

    async def test_the_call_says_how_old_they_may_be(self, driver: Driver) -> None:
        x = await running(driver)
        await driver.append(x, b"old")
        await driver.clock.advance(1_000)
        await driver.append(x, b"new", retention_ms=1_000)
        await driver.clock.advance(1)
        await driver.append(x, b"newest", retention_ms=1_000)
        assert payloads(await read(driver, x)) == [b"new", b"newest"]


class TestSummaries:
    async def test_patches_make_a_document_that_can_be_read_at_any_time(self, driver: Driver) -> None:
        x = await running(driver)
        assert await driver.backend.read_summary(x.execution_id, 0) is None
        begun = driver.clock.now_ms
        for patch in ({"log": ["a"], "n": {"a": 1, "b": 2}}, {"n": {"b": None, "c": "__ff_null__"}, "list": []}):
            await driver.append(x, json.dumps(patch).encode(), mode="summary")
            await driver.clock.advance(10)
        summary = await driver.backend.read_summary(x.execution_id, 0)
        assert summary is not None
        assert json.loads(summary.document) == {"log": ["a"], "n": {"a": 1, "c": None}, "list": []}
        assert (summary.version, summary.patch_kind) == (2, "json-merge-patch")
        assert (summary.first_applied_ms, summary.last_updated_ms) == (begun, begun + 10)

    async def test_old_patches_go_and_durable_frames_and_the_document_stay(self, driver: Driver) -> None:
        x = await running(driver)
        await append_many(driver, many(x, 0, b"one", b"two"))
        for at in range(100):
            await driver.append(x, b'{"at":%d}' % at, mode="summary")
        page = await read(driver, x)
        assert payloads(page)[:2] == [b"one", b"two"]
        assert [frame.summary_version for frame in page.frames[2:]] == list(range(37, 101))
        summary = await driver.backend.read_summary(x.execution_id, 0)
        assert summary is not None
        assert (summary.document, summary.version) == (b'{"at":99}', 100)

    async def test_a_document_has_a_limit(self, driver: Driver) -> None:
        x = await running(driver)
        half = b"x" * 200_000
        big = {"mode": "summary", "max_payload_bytes": 262_144}
        await driver.append(x, b'{"a":"%b"}' % half, **big)
        await refused(driver, "retention_limit_exceeded", driver.append(x, b'{"b":"%b"}' % half, **big))
        await driver.append(x, b'{"a":"%b"}' % half, **big)


class TestLiveFrames:
    async def test_only_the_newest_stay_and_durable_ones_are_not_pushed_out(self, driver: Driver) -> None:
        x = await running(driver)
        await append_many(driver, many(x, 0, b"one", b"two", retention_maxlen=2))
        live = c.LiveFrames(maxlen_floor=3, maxlen_ceiling=3)
        for at in range(20):
            await driver.append(x, b"%d" % at, mode="best_effort", live=live, retention_maxlen=2)
        assert payloads(await read(driver, x)) == [b"one", b"two", b"17", b"18", b"19"]
        assert payloads(await read(driver, x, visibility=c.Visibility.EXCLUDE_BEST_EFFORT)) == [b"one", b"two"]
        await driver.append(x, b"three", retention_maxlen=2)
        kept = payloads(await read(driver, x, visibility=c.Visibility.EXCLUDE_BEST_EFFORT))
        assert kept[-2:] == [b"two", b"three"]

    async def test_the_faster_they_come_the_more_of_them_stay(self, driver: Driver) -> None:
        x = await running(driver, lease_ttl_ms=limits.LEASE_TTL_MAX_MS)
        live = c.LiveFrames(ttl_ms=10_000, maxlen_floor=4, maxlen_ceiling=50)
        lengths = []
        for _ in range(100):
            await driver.clock.advance(10)
            await driver.append(x, mode="best_effort", live=live)
            lengths.append(len((await read(driver, x)).frames))
        assert max(lengths) == 50
        for _ in range(40):
            await driver.clock.advance(60_000)
            await driver.append(x, mode="best_effort", live=live)
        assert len((await read(driver, x)).frames) == 4

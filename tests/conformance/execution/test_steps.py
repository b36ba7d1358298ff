"""record_step, read_steps: a step's result is recorded once per execution, and every later pass finds it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import ExecutionNotActive, ExecutionNotFound, StaleLease
from tests.conformance.driver import BACKOFF, Driver, Subject, made_up_fence

BINARY = bytes(range(256)) + b"\r\n7:3:"
LARGE = b"\xff" * limits.STEP_RESULT_MAX_BYTES


def args(x: Subject, name: str = "charge", occurrence: int = 0, **overrides: Any) -> c.RecordStepArgs:
    given: dict[str, Any] = {
        "execution_id": x.execution_id, "fence": x.fence, "step": c.StepKey(name=name, occurrence=occurrence),
        "payload": b"paid", "encoding": "raw", "input_digest": "d1", **overrides,
    }  # fmt: skip
    return c.RecordStepArgs(**given)


async def record(driver: Driver, x: Subject, *key: Any, **overrides: Any) -> c.RecordStepResult:
    return await driver.backend.record_step(args(x, *key, **overrides))


async def read(driver: Driver, x: Subject, **overrides: Any) -> c.ReadStepsPage:
    return await driver.backend.read_steps(c.ReadStepsArgs(execution_id=x.execution_id, **overrides))


async def results(driver: Driver, x: Subject) -> dict[tuple[str, int], bytes]:
    page = await read(driver, x, limit=1_000)
    assert page.next_cursor is None
    return {(each.name, each.occurrence): each.payload for each in page.steps}


async def running(driver: Driver) -> Subject:
    return await driver.run(await driver.create())


async def of_steps(driver: Driver) -> list[bytes]:
    return [key for key in await driver.probe.dump() if key.endswith(b":steps")]


async def test_a_step_is_recorded_once(driver: Driver) -> None:
    x = await running(driver)
    assert await record(driver, x) == c.StepRecorded()
    other = await record(driver, x, payload=b"again", encoding=None, input_digest="d2")
    recorded = c.StepRecord(name="charge", occurrence=0, payload=b"paid", encoding="raw", input_digest="d1")
    assert other == c.StepAlreadyRecorded(result=recorded)
    assert (await read(driver, x)).steps == (recorded,)


async def test_the_same_call_again_writes_nothing(driver: Driver) -> None:
    x = await running(driver)
    call = args(x, payload=BINARY)
    await driver.backend.record_step(call)
    before = await driver.probe.dump()
    again = await driver.backend.record_step(call)
    assert isinstance(again, c.StepAlreadyRecorded)
    assert again.result.payload == BINARY
    assert await driver.probe.dump() == before


async def test_occurrences_and_names_tell_steps_apart(driver: Driver) -> None:
    x = await running(driver)
    steps = [("a", 0), ("a", 1), ("1:a", 0), ("a:1", 0), ("ä b", 9_999), ("1", 0)]
    for at, (name, occurrence) in enumerate(steps):
        assert await record(driver, x, name, occurrence, payload=b"%d" % at) == c.StepRecorded()
    assert await results(driver, x) == {step: b"%d" % at for at, step in enumerate(steps)}


@pytest.mark.parametrize("payload", [b"", b"\0", BINARY, LARGE], ids=["empty", "nul", "binary", "large"])
async def test_a_result_is_read_as_it_was_given(driver: Driver, payload: bytes) -> None:
    x = await running(driver)
    await record(driver, x, payload=payload, encoding=None, input_digest="")
    (step,) = (await read(driver, x)).steps
    assert (step.payload, step.encoding, step.input_digest) == (payload, None, "")


async def test_steps_are_read_in_the_order_of_recording(driver: Driver) -> None:
    x = await running(driver)
    names = ["z", "a", "m", "b", "y"]
    for name in names:
        await record(driver, x, name)
    seen: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await read(driver, x, cursor=cursor, limit=2)
        assert 1 <= len(page.steps) <= 2
        seen += [each.name for each in page.steps]
        cursor = page.next_cursor
    assert seen == names


async def test_a_page_of_large_results_ends_early(driver: Driver) -> None:
    x = await running(driver)
    for at in range(6):
        await record(driver, x, "draft", at, payload=LARGE)
    page = await read(driver, x, limit=1_000)
    assert (len(page.steps), page.next_cursor) == (4, 4)
    assert [each.occurrence for each in (await read(driver, x, cursor=4)).steps] == [4, 5]


async def test_steps_do_not_fill_the_event_log_nor_disturb_the_record(driver: Driver) -> None:
    x = await running(driver)
    before = await driver.state(x)
    await record(driver, x)
    assert [each.event for each in (await driver.backend.history(x.execution_id)).events] == ["created", "claimed"]
    assert await driver.state(x) == before
    await driver.probe.check()


class TestLeases:
    async def test_a_retry_finds_what_the_attempt_before_it_recorded(self, driver: Driver) -> None:
        x = await running(driver)
        await record(driver, x)
        await driver.fail(x, retry=True)
        await driver.clock.advance(BACKOFF)
        await driver.promote(x)
        await driver.run(x)
        assert await results(driver, x) == {("charge", 0): b"paid"}
        assert isinstance(await record(driver, x, payload=b"twice"), c.StepAlreadyRecorded)

    async def test_a_resumed_attempt_finds_them(self, driver: Driver) -> None:
        x = await running(driver)
        await record(driver, x)
        await driver.delay(x, driver.clock.now_ms)
        await driver.grant(x)
        await driver.claim_resumed(x)
        assert isinstance(await record(driver, x, payload=b"twice"), c.StepAlreadyRecorded)
        assert await record(driver, x, "ship") == c.StepRecorded()
        assert await results(driver, x) == {("charge", 0): b"paid", ("ship", 0): b"paid"}

    async def test_a_stale_lease_records_nothing_and_learns_nothing(self, driver: Driver) -> None:
        x = await running(driver)
        old = x.fence
        await driver.revoke(x)
        await driver.reclaim_grant(x)
        await driver.reclaim(x)
        await record(driver, x)
        before = await driver.probe.dump()
        for name in ("charge", "ship"):
            with pytest.raises(StaleLease):
                await record(driver, x, name, fence=old)
        assert await driver.probe.dump() == before

    async def test_after_the_end_nothing_is_recorded_and_all_can_be_read(self, driver: Driver) -> None:
        x = await running(driver)
        await record(driver, x)
        await driver.complete(x)
        with pytest.raises(ExecutionNotActive):
            await record(driver, x, "ship")
        assert await results(driver, x) == {("charge", 0): b"paid"}

    async def test_an_unknown_execution_has_no_steps(self, driver: Driver) -> None:
        x = Subject(driver.mint(), made_up_fence())
        with pytest.raises(ExecutionNotFound):
            await record(driver, x)
        with pytest.raises(ExecutionNotFound):
            await read(driver, x)


class TestEnds:
    async def test_they_are_deleted_with_their_execution(self, driver: Driver) -> None:
        x = await running(driver)
        for at in range(3):
            await record(driver, x, "draft", at)
        await driver.complete(x)
        assert len(await of_steps(driver)) == 1
        await driver.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
        assert await of_steps(driver) == []
        with pytest.raises(ExecutionNotFound):
            await read(driver, x)

"""record_step, read_steps: a step's result is recorded once per execution, and every later pass finds it."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import ExecutionNotActive, ExecutionNotFound, InvalidInput, StaleLease
from tests.conformance.driver import BACKOFF, Driver, Subject, made_up_fence
from tests.conformance.invariants import check_store, dump

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
    return [key for key in await dump(driver.backend.client) if key.endswith(b":steps")]


async def pretend_count(driver: Driver, x: Subject, count: int) -> None:
    core = keys.core(x.execution_id)
    await driver.backend.client.execute("HSET", core, "step_count", count, key=core)


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
    before = await dump(driver.backend.client)
    again = await driver.backend.record_step(call)
    assert isinstance(again, c.StepAlreadyRecorded)
    assert again.result.payload == BINARY
    assert await dump(driver.backend.client) == before


async def test_a_step_that_was_run_again_on_purpose_replaces_its_record(driver: Driver) -> None:
    x = await running(driver)
    for name in ("charge", "ship"):
        await record(driver, x, name)
    assert await record(driver, x, payload=BINARY, input_digest="d2", replace=True) == c.StepRecorded()
    page = await read(driver, x)
    assert [(each.name, each.payload, each.input_digest) for each in page.steps] == [
        ("charge", BINARY, "d2"), ("ship", b"paid", "d1"),
    ]  # fmt: skip
    core = keys.core(x.execution_id)
    assert await driver.backend.client.execute("HGET", core, "step_count", key=core) == b"2"
    assert await record(driver, x, "pack", replace=True) == c.StepRecorded(), "nothing has to be there"
    assert [each.name for each in (await read(driver, x)).steps] == ["charge", "ship", "pack"]


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
    await check_store(driver.backend.client)


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
        before = await dump(driver.backend.client)
        for name in ("charge", "ship"):
            with pytest.raises(StaleLease):
                await record(driver, x, name, fence=old)
        assert await dump(driver.backend.client) == before

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


class TestBounds:
    async def test_an_execution_has_so_many_steps_and_repeats_are_still_answered(self, driver: Driver) -> None:
        x = await running(driver)
        await record(driver, x)
        await pretend_count(driver, x, limits.MAX_STEPS - 1)
        assert await record(driver, x, "last") == c.StepRecorded()
        with pytest.raises(InvalidInput) as caught:
            await record(driver, x, "one more")
        assert caught.value.field == "step_count"
        assert isinstance(await record(driver, x), c.StepAlreadyRecorded)
        assert await record(driver, x, replace=True) == c.StepRecorded()

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("result", LARGE + b"x"),
            ("step_name", "x" * (limits.STEP_NAME_MAX_BYTES + 1)),
            ("step_name", ""),
            ("input_digest", "x" * (limits.STEP_INPUT_DIGEST_MAX_BYTES + 1)),
            ("result_encoding", "x" * (limits.ENCODING_MAX_BYTES + 1)),
            ("occurrence", limits.MAX_STEPS),
        ],
    )
    async def test_the_store_refuses_what_the_contract_would(self, driver: Driver, field: str, value: Any) -> None:
        x = await running(driver)
        given: dict[str, Any] = {"step_name": "charge", "occurrence": 0, "input_digest": "", field: value}
        with pytest.raises(InvalidInput) as caught:
            await driver.backend._caller.call_execution("record_step", x.execution_id, **fence_args(x.fence), **given)
        assert caught.value.field == field
        assert await of_steps(driver) == []


class TestEnds:
    async def test_a_replay_begins_without_them(self, driver: Driver) -> None:
        x = await running(driver)
        await record(driver, x)
        await driver.complete(x)
        await driver.replay(x)
        core = keys.core(x.execution_id)
        assert await driver.backend.client.execute("HEXISTS", core, "step_count", key=core) == 0
        assert await results(driver, x) == {}
        assert await of_steps(driver) == []
        await driver.run(x)
        assert await record(driver, x, payload=b"paid again") == c.StepRecorded()
        assert await results(driver, x) == {("charge", 0): b"paid again"}
        await check_store(driver.backend.client)

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

"""How the records of steps are stored and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.backends.valkey.library import keys
from flowfabric.backends.valkey.ports.executions import fence_args
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import InvalidInput
from tests.conformance.driver import Subject
from tests.conformance.execution.test_steps import BINARY, LARGE, of_steps, read, record, results, running
from tests.valkey.driver import Driver


async def pretend_count(driver: Driver, x: Subject, count: int) -> None:
    core = keys.core(x.execution_id)
    await driver.backend.client.execute("HSET", core, "step_count", count, key=core)


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
        await driver.probe.check()

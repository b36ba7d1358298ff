"""A batch claim whose answer was lost: sent again as it was, it gets the same executions and no others (G3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.backends.valkey.library.calls import Fields
from flowfabric.core.codec import to_msgpack
from flowfabric.core.ids import AttemptId, LeaseId
from flowfabric.core.states import PublicState
from tests.conformance.driver import INSTANCE, LANE, TTL, WORKER
from tests.valkey.driver import Driver
from tests.valkey.parked.parking import listening, submit


def request(**parts: Any) -> bytes:
    asked = {
        "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "capabilities": "",
        "lease_ttl_ms": TTL, "attempt_timeout_ms": 0, "lease_ids": LeaseId.new_beginning(),
        "attempt_ids": AttemptId.new_beginning(),
    }  # fmt: skip
    return to_msgpack(asked | parts)


def next_ones(count: int) -> bytes:
    return request(count=count)


async def claim(driver: Driver, body: bytes) -> Fields:
    return await driver.backend._caller.call_partition("claim_batch", driver.mint().tag, request=body)


async def finish_and_claim(driver: Driver, body: bytes) -> Fields:
    nothing = to_msgpack(())
    return await driver.backend._caller.call_partition(
        "finish_batch", driver.mint().tag, finish=nothing, renew=nothing, claim=body
    )


@pytest.mark.parametrize(("call", "at"), [(claim, 0), (finish_and_claim, 2)], ids=["claim", "finish and claim"])
async def test_a_repeated_claim_gets_the_same_and_changes_nothing(driver: Driver, call: Any, at: int) -> None:
    for number in range(5):
        await driver.create(input_payload=b"%d" % number)
    body = next_ones(3)
    first = await call(driver, body)
    before = await driver.probe.dump()
    again = await call(driver, body)
    assert again.values[at] == first.values[at]
    assert len(first.values[at]) == 3
    assert await driver.probe.dump() == before
    await driver.probe.check()


async def test_calls_of_one_worker_at_the_same_time_are_told_apart(driver: Driver) -> None:
    for _ in range(6):
        await driver.create()
    bodies = [next_ones(2) for _ in range(3)]
    first = await asyncio.gather(*(claim(driver, body) for body in bodies))
    again = await asyncio.gather(*(claim(driver, body) for body in reversed(bodies)))
    assert [fields.values for fields in reversed(again)] == [fields.values for fields in first]


async def test_an_empty_claim_comes_again_as_a_new_one(driver: Driver) -> None:
    body = next_ones(2)
    assert (await claim(driver, body)).values[0] == []
    x = await driver.create()
    ((_, execution_id, *_),) = (await claim(driver, body)).values[0]  # type: ignore[misc]
    assert execution_id == x.execution_id.encode()


async def test_what_ended_in_between_is_not_given_again(driver: Driver) -> None:
    done, other = await driver.create(), await driver.create()
    body = next_ones(2)
    await claim(driver, body)
    await driver.cancel(done)
    ((_, execution_id, *_),) = (await claim(driver, body)).values[0]  # type: ignore[misc]
    assert execution_id == other.execution_id.encode()


async def test_a_named_claim_repeats_too(driver: Driver) -> None:
    x = await driver.create()
    body = request(named=[x.execution_id.uuid])
    first = await claim(driver, body)
    assert (await claim(driver, body)).values == first.values
    assert (await driver.info(x)).public_state is PublicState.ACTIVE


async def test_a_resumed_attempt_is_answered_as_resumed_again(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.delay(x, driver.clock.now_ms)
    body = next_ones(1)
    first = await claim(driver, body)
    assert first.values[0][0][7] == b"resumed"  # type: ignore[index]
    assert (await claim(driver, body)).values == first.values


async def test_a_claim_that_waits_still_waits_when_it_comes_again(driver: Driver) -> None:
    body = request(count=2, park=2)
    first = await claim(driver, body)
    assert first.values[2] == b"1"
    before = await driver.probe.dump()
    assert (await claim(driver, body)).values == first.values
    assert await driver.probe.dump() == before


async def test_a_claim_that_waited_comes_again_and_gets_what_it_was_given(near: Driver) -> None:
    body = request(count=2, park=2)
    async with listening(near) as worker:
        await claim(near, body)
        (execution_id,) = await submit(near)
        await worker.message()
        before = await near.probe.dump()
        again = await claim(near, body)
    ((_, given, payload, *_),) = again.values[0]  # type: ignore[misc]
    assert (given, payload, again.values[2]) == (execution_id.encode(), b"0", b"")
    assert await near.probe.dump() == before

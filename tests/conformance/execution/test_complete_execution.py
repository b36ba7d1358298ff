from __future__ import annotations

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptId, LeaseId
from flowfabric.core.states import AttemptRecordState, PublicState
from flowfabric.errors import ExecutionNotActive, Invalid, LeaseExpired, LeaseRevoked, StaleLease
from tests.conformance.driver import TTL, Driver


async def test_the_result_comes_back_as_bytes(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    assert await driver.backend.get_execution_result(x.execution_id) is None
    blob = bytes(range(256))
    done = await driver.complete(x, result_payload=blob, result_encoding="raw")
    assert done.public_state is PublicState.COMPLETED
    assert await driver.backend.get_execution_result(x.execution_id) == c.ExecutionResult(payload=blob, encoding="raw")


async def test_a_completed_execution_may_have_no_result(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x, result_payload=None)
    assert await driver.backend.get_execution_result(x.execution_id) == c.ExecutionResult(payload=b"", encoding=None)


async def test_the_times_and_the_attempt_are_recorded(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    started = driver.clock.now_ms
    await driver.clock.advance(1234)
    await driver.complete(x)
    info = await driver.info(x)
    assert (info.started_at, info.completed_at) == (started, started + 1234)
    (attempt,) = await driver.backend.list_attempts(x.execution_id)
    assert (attempt.state, attempt.ended_at) == (AttemptRecordState.ENDED_SUCCESS, started + 1234)
    assert attempt.worker_instance_id == "worker-1"


async def test_repeated_with_the_same_fence_it_answers_the_same_and_writes_nothing(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    first = await driver.complete(x)
    before = await driver.probe.dump()
    assert await driver.complete(x, result_payload=b"something else") == first
    assert await driver.probe.dump() == before


async def test_another_fence_is_refused_with_what_was_recorded(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x)
    x.fence = c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=7, attempt_id=AttemptId.new())
    with pytest.raises(ExecutionNotActive) as caught:
        await driver.complete(x)
    assert caught.value.details["terminal_outcome"] == "success"
    assert "terminal_outcome success" in str(caught.value)


async def test_another_ending_is_refused_with_what_was_recorded(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.complete(x)
    with pytest.raises(ExecutionNotActive):
        await driver.fail(x)
    with pytest.raises(ExecutionNotActive):
        await driver.cancel(x)


@pytest.mark.parametrize("part", ["lease_id", "lease_epoch", "attempt_id"])
async def test_every_part_of_the_fence_counts(driver: Driver, part: str) -> None:
    x = await driver.run(await driver.create())
    wrong = {"lease_id": LeaseId.new(), "lease_epoch": 2, "attempt_id": AttemptId.new()}[part]
    right = {name: getattr(x.fence, name) for name in ("lease_id", "lease_epoch", "attempt_id")}
    with pytest.raises(StaleLease):
        await driver.complete(x, fence=c.LeaseFence(**(right | {part: wrong})))


async def test_without_a_fence_only_an_operator_may(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    with pytest.raises(Invalid) as caught:
        await driver.complete(x, fence=None)
    assert caught.value.code == "fence_required"
    await driver.complete(x, fence=None, source=c.CancelSource.OPERATOR_OVERRIDE)
    assert (await driver.info(x)).public_state is PublicState.COMPLETED


async def test_an_expired_lease_completes_nothing_and_is_not_marked(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.clock.advance(TTL)
    before = await driver.probe.dump()
    with pytest.raises(LeaseExpired):
        await driver.complete(x)
    assert await driver.probe.dump() == before


async def test_a_revoked_lease_completes_nothing(driver: Driver) -> None:
    x = await driver.run(await driver.create())
    await driver.revoke(x)
    with pytest.raises(LeaseRevoked):
        await driver.complete(x)

"""What a limit has given comes back wherever a worker dies or stands still between offer, admission and claim (D20).

The three ways: it dies after the admission, its offer lapses and another claim comes before anybody looks; it stands
still before it asks the limit, and asks when all is over; its execution is cancelled while it asks.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.ids import LaneId
from flowfabric.core.states import BlockingReason, PublicState
from flowfabric.errors import FlowFabricError, ScriptFault
from tests.conformance.driver import BACKOFF, LANE, Subject
from tests.conformance.limiting import ids, public, stop
from tests.valkey.driver import Limits
from tests.valkey.faults.faults import Faults

OFFERED_MS = 5_000
FROZEN_MS = 7_000

# What the limit is, and what else stands between the execution and its start.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "slots": ({"max_concurrent": 1}, {}),
    "slots of a key": ({"max_concurrent": 1, "key_by": c.QuotaKey.EXECUTION_KIND}, {"execution_kind": "k"}),
    "window": ({"window_seconds": 3_600, "max_requests_per_window": 1}, {}),
    "window and slots": ({"window_seconds": 3_600, "max_requests_per_window": 1, "max_concurrent": 1}, {}),
    "concurrency key": ({"max_concurrent": 1}, {"concurrency_key": "k"}),
    "lane": ({"max_concurrent": 1}, {"lane_id": LaneId("narrow")}),
}


class Scene:
    """One limit that one execution may use, and that execution."""

    def __init__(self, limits: Limits, kind: str) -> None:
        self.limits, self.driver = limits, limits.driver
        self._limit, self._fields = KINDS[kind]

    async def begin(self) -> Subject:
        if lane := self._fields.get("lane_id"):
            await self.driver.configure(lane_id=lane, max_concurrency=1)
        self.quota = await self.limits.quota(**self._limit)
        self.x = await self.submit(idempotency_key="once")
        return self.x

    async def submit(self, **more: Any) -> Subject:
        return await self.limits.submit(quotas=(self.quota,), **self._fields, **more)

    async def take(self, **changes: Any) -> list[Subject]:
        return await self.driver.take(1, lane_id=self._fields.get("lane_id", LANE), **changes)

    async def status(self) -> c.QuotaStatus:
        return await self.limits.quota_status(self.quota, self._fields.get("execution_kind", ""))

    async def is_as_new(self) -> None:
        """Nothing runs, nothing started, and there is room."""
        status = await self.status()
        assert (status.running, status.started, status.room > 0) == (0, 0, True)

    async def runs(self, x: Subject) -> None:
        """It gets its turn, runs and ends, and its slot is free."""
        taken = await self.take()
        for _ in range(3):
            await self.limits.drain(x)
            taken = taken or await self.take()
        assert ids(taken) == [x.execution_id]
        await self.driver.complete(taken[0])
        await self.limits.drain(x)
        assert (await self.status()).running == 0
        await self.limits.probe.check()


@pytest.fixture
def faults(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(limits.backend, monkeypatch)


@pytest.fixture(params=KINDS)
async def scene(limits: Limits, request: pytest.FixtureRequest) -> Scene:
    made = Scene(limits, request.param)
    await made.begin()
    return made


@pytest.mark.parametrize("point", ["before admit_batch", "after admit_batch"])
async def test_a_worker_dies_beside_the_admission_and_another_claims_before_anybody_looks(
    scene: Scene, faults: Faults, point: str
) -> None:
    await faults.killed(point, scene.take())
    await scene.driver.clock.advance(OFFERED_MS + 1)
    await scene.runs(scene.x)


async def test_a_worker_dies_after_the_admission_and_nobody_claims(scene: Scene, faults: Faults) -> None:
    await faults.killed("after admit_batch", scene.take())
    await scene.driver.clock.advance(OFFERED_MS + 1)
    await scene.limits.drain(scene.x)
    await scene.is_as_new()


async def test_a_worker_stands_still_and_asks_when_its_offer_is_over(scene: Scene, faults: Faults) -> None:
    async with faults.still("before admit_batch", scene.take()) as late:
        await scene.driver.clock.advance(FROZEN_MS)
        await scene.limits.drain(scene.x)
    assert late.result() == []
    await scene.limits.drain(scene.x)
    await scene.is_as_new()
    await scene.runs(scene.x)


@pytest.mark.parametrize("point", ["before admit_batch", "after admit_batch"])
async def test_a_worker_stands_still_while_another_runs_what_it_was_offered(
    scene: Scene, faults: Faults, point: str
) -> None:
    """Also when both are one: its second offer does not make its first one good."""
    async with faults.still(point, scene.take()) as late:
        await scene.driver.clock.advance(FROZEN_MS)
        await scene.limits.drain(scene.x)
        (held,) = await scene.take()
    assert late.result() == []
    assert (await scene.status()).running == 1
    await scene.driver.complete(held)
    await scene.limits.drain(scene.x)
    assert (await scene.status()).running == 0


async def test_two_offers_of_one_worker_that_both_come_late(scene: Scene, faults: Faults) -> None:
    """The claim of the first finds the record under the second, which nobody has admitted."""
    async with faults.still("after admit_batch", scene.take()) as first:
        await scene.driver.clock.advance(FROZEN_MS)
        await scene.limits.drain(scene.x)
        async with faults.still("before admit_batch", scene.take()) as second:
            pass
        taken = second.result()
    assert first.result() == []
    assert ids(taken) == [scene.x.execution_id]
    await scene.driver.complete(taken[0])
    await scene.limits.drain(scene.x)
    assert (await scene.status()).running == 0


async def test_the_first_offer_of_a_worker_claims_nothing_while_its_second_is_asked(
    scene: Scene, faults: Faults
) -> None:
    async with faults.still("after admit_batch", scene.take()) as first:
        await scene.driver.clock.advance(FROZEN_MS)
        await scene.limits.drain(scene.x)
        second = faults.still("before admit_batch", scene.take())
        asking = await second.__aenter__()
    assert first.result() == [], "nobody has admitted the second yet"
    await second.__aexit__(None, None, None)
    assert ids(asking.result()) == [scene.x.execution_id]


@pytest.mark.parametrize("point", ["before admit_batch", "after admit_batch"])
async def test_it_is_cancelled_while_its_limit_is_asked(scene: Scene, faults: Faults, point: str) -> None:
    async with faults.still(point, scene.take()) as late:
        await scene.driver.cancel(scene.x)
        await scene.limits.drain(scene.x)
    assert late.result() == []
    await scene.limits.drain(scene.x)
    await scene.is_as_new()
    await scene.runs(await scene.submit())


@pytest.mark.parametrize("change", ["block", "expire", "replace", "delete"])
async def test_it_leaves_the_queue_otherwise_while_its_limit_is_asked(
    scene: Scene, faults: Faults, change: str
) -> None:
    async with faults.still("before admit_batch", scene.take()) as late:
        match change:
            case "block":
                await scene.driver.block(scene.x, BlockingReason.PAUSED_BY_OPERATOR)
            case "expire":
                await scene.driver.clock.advance(3_600_000)
                await scene.driver.expire(scene.x, c.ExpireReason.EXECUTION_DEADLINE)
            case "replace":
                await scene.submit(idempotency_key="once", on_duplicate=c.DuplicateMode.REPLACE_WHILE_WAITING)
            case "delete":
                await scene.driver.cancel(scene.x)
                await scene.limits.backend.trim_executions(c.TrimExecutionsArgs(older_than_ms=0))
        await scene.limits.drain(scene.x)
    assert late.result() == []
    await scene.limits.drain(scene.x)
    await scene.is_as_new()


async def test_a_grant_that_is_used_late_gives_back_what_it_took(limits: Limits, faults: Faults) -> None:
    quota = await limits.quota(max_concurrent=1)
    x = await limits.submit(quotas=(quota,))
    async with faults.still("before admit_batch", limits.driver.grant(x)) as late:
        await limits.driver.clock.advance(60_000)
        await limits.drain(x)
    assert isinstance(late.exception(), FlowFabricError)
    await limits.drain(x)
    assert (await limits.quota_status(quota)).running == 0
    assert await public(limits, x) is PublicState.WAITING


async def test_a_released_ticket_is_admitted_no_more(limits: Limits) -> None:
    quota, x = await limits.quota(max_concurrent=2), await limits.driver.create()
    ticket = limits.driver.clock.now_ms
    args = c.CheckAdmissionArgs(
        quota_policy_id=quota, execution_id=x.execution_id, window_seconds=60, rate_limit=0, concurrency_cap=2,
        ticket=ticket,
    )  # fmt: skip
    release = c.ReleaseAdmissionArgs(quota_policy_id=quota, execution_id=x.execution_id, ticket=ticket)
    assert await limits.backend.check_admission(args) == c.Admitted()
    await limits.backend.release_admission(release)
    for _ in range(2):
        with pytest.raises(FlowFabricError) as caught:
            await limits.backend.check_admission(args)
        assert caught.value.code == "claim_grant_expired"
    assert (await limits.quota_status(quota)).running == 0


async def test_a_ticket_of_long_ago_is_refused_and_a_number_is_not(limits: Limits) -> None:
    quota, x = await limits.quota(max_concurrent=2), await limits.driver.create()
    for ticket, is_refused in ((limits.driver.clock.now_ms - 600_001, True), (7, False)):
        args = c.CheckAdmissionArgs(
            quota_policy_id=quota, execution_id=x.execution_id, window_seconds=60, rate_limit=0, concurrency_cap=2,
            ticket=ticket,
        )  # fmt: skip
        if is_refused:
            with pytest.raises(FlowFabricError):
                await limits.backend.check_admission(args)
        else:
            assert await limits.backend.check_admission(args) == c.Admitted()


async def test_a_quota_that_fails_in_the_middle_is_owed_what_it_may_have_given(
    limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = await limits.quota(max_concurrent=1)
    x = await limits.submit(quotas=(quota,))
    call = limits.backend._caller.call

    async def failing(operation: str, *args: Any, **more: Any) -> Any:
        found = await call(operation, *args, **more)
        if operation == "admit_batch":
            raise ScriptFault("it failed behind its last write")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(limits.backend._caller, "call", failing)
        assert await limits.driver.take(1) == []
    await limits.drain(x)
    assert (await limits.quota_status(quota)).running == 0


class TestReservations:
    """The same of amounts that are held on a budget, under a lease."""

    @pytest.mark.parametrize("point", ["after note_reservation", "after reserve_budget"])
    async def test_a_worker_dies_beside_its_reservation(self, limits: Limits, faults: Faults, point: str) -> None:
        budget, x = await limits.budget({"tokens": 10}), await limits.driver.run(await limits.driver.create())
        await faults.killed(point, limits.reserve(budget, x, tokens=10))
        await stop(limits.driver, x, "lose")
        await limits.drain(x)
        assert (await limits.status(budget)).reserved == {}

    @pytest.mark.parametrize("ending", ["lose", "cancel", "suspend"])
    async def test_a_worker_stands_still_and_reserves_when_its_lease_is_over(
        self, limits: Limits, faults: Faults, ending: str
    ) -> None:
        budget, x = await limits.budget({"tokens": 10}), await limits.driver.run(await limits.driver.create())
        async with faults.still("before reserve_budget", limits.reserve(budget, x, tokens=10)) as late:
            await stop(limits.driver, x, ending)
            await limits.drain(x)
        assert getattr(late.exception(), "code", None) == "stale_lease"
        assert (await limits.status(budget)).reserved == {}

    async def test_the_next_lease_may_reserve(self, limits: Limits, faults: Faults) -> None:
        budget, x = await limits.budget({"tokens": 10}), await limits.driver.run(await limits.driver.create())
        async with faults.still("before reserve_budget", limits.reserve(budget, x, tokens=10)):
            await stop(limits.driver, x, "delay")
            await limits.drain(x)
            await limits.driver.clock.advance(BACKOFF)
            await limits.driver.promote(x)
            (again,) = await limits.driver.take(1)
            await limits.reserve(budget, again, tokens=7)
        assert (await limits.status(budget)).reserved == {"tokens": 7}
        await limits.driver.complete(again)
        await limits.drain(x)
        assert (await limits.status(budget)).reserved == {}

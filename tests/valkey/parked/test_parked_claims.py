"""Parked claims: a claim that finds no work waits, and whoever brings some makes it in the worker's place."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import LaneId, Namespace, WorkerInstanceId
from flowfabric.core.states import PublicState
from flowfabric.errors import BadReply
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, TTL, home
from tests.valkey.driver import Driver
from tests.valkey.parked.parking import (
    BINARY,
    GPU,
    MARKER,
    OTHER_INSTANCE,
    ask,
    listening,
    park,
    state,
    submit,
    told,
    waiting,
)


async def test_a_claim_that_waits_is_made_once(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        assert await waiting(near) == 1
        (first,) = await submit(near)
        assert await waiting(near) == 0
        (second,) = await submit(near)
        assert [work.execution_id for work in await worker.works(parked)] == [first]
        assert await state(near, second) is PublicState.WAITING
        assert worker.has_nothing


async def test_binary_payloads_and_several_rows_come_in_one_message(near: Driver) -> None:
    payloads = [BINARY, b"", b"\x00" * 3, "grüße".encode(), BINARY * 400]
    async with listening(near) as worker:
        parked = await park(near, count=8)
        batch = [
            c.CreateExecutionArgs(
                execution_id=near.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="größe",
                input_payload=payload, payload_encoding="raw" if payload else None,
            )
            for payload in payloads
        ]  # fmt: skip
        await near.backend.submit_executions(batch)
        works = {work.execution_id: work for work in await worker.works(parked)}
    assert [works[args.execution_id].input_payload for args in batch] == payloads
    assert {work.execution_kind for work in works.values()} == {"größe"}
    assert [works[args.execution_id].payload_encoding for args in batch] == [a.payload_encoding for a in batch]
    assert len({work.fence.lease_id for work in works.values()}) == len(payloads)
    await near.probe.check()


async def test_what_no_claim_waits_for_is_announced_and_the_rest_is_not(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near, count=2)
        await submit(near, 2)
        assert len(await worker.works(parked)) == 2
        await submit(near, lane_id=MARKER)
        assert await worker.heard_until((MARKER, home(near, MARKER))) == {(MARKER, home(near, MARKER))}
        parked = await park(near, count=2)
        await submit(near, 5)
        assert len(await worker.works(parked)) == 2
        assert (LANE, home(near)) in await worker.heard_until((LANE, home(near)))
    assert len((await ask(near, count=10)).claimed) == 3


async def test_the_best_of_a_batch_is_handed_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near, count=1)
        batch = [
            c.CreateExecutionArgs(
                execution_id=near.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind",
                priority=priority,
            )
            for priority in (0, 7, 3)
        ]  # fmt: skip
        await near.backend.submit_executions(batch)
        (work,) = await worker.works(parked)
    assert work.execution_id == batch[1].execution_id


async def test_work_goes_to_those_who_can_run_it(near: Driver) -> None:
    async with listening(near) as plain, listening(near, OTHER_INSTANCE) as capable:
        lacking = await park(near)
        able = await park(near, worker_instance_id=OTHER_INSTANCE, worker_capabilities=("cpu", "gpu"))
        (execution_id,) = await submit(near, policy=GPU)
        assert [work.execution_id for work in await capable.works(able)] == [execution_id]
        assert plain.has_nothing
        assert await waiting(near) == 1
        (other,) = await submit(near)
        assert [work.execution_id for work in await plain.works(lacking)] == [other]
    await near.probe.check()


async def test_work_that_nobody_who_waits_can_run_is_announced(near: Driver) -> None:
    async with listening(near) as lacking, near.backend.listen_for_work([LANE], ("gpu",)) as capable:
        assert await capable.wait() == frozenset()
        await park(near)
        (execution_id,) = await submit(near, policy=GPU)
        async with asyncio.timeout(20):
            assert await capable.wait() == {(LANE, home(near))}
    assert lacking.has_nothing
    assert await state(near, execution_id) is PublicState.WAITING
    assert await waiting(near) == 1


async def test_a_worker_that_does_not_listen_is_forgotten_and_the_work_announced(near: Driver) -> None:
    async with listening(near) as worker:
        gone = await park(near, worker_instance_id=OTHER_INSTANCE)
        (execution_id,) = await submit(near)
        assert (LANE, home(near)) in await worker.heard_until((LANE, home(near)))
        assert await waiting(near) == 0
        assert await state(near, execution_id) is PublicState.WAITING
        assert await gone.recall() == []


async def test_who_does_not_listen_is_no_hindrance_to_who_does(near: Driver) -> None:
    async with listening(near) as worker:
        await park(near, worker_instance_id=OTHER_INSTANCE)
        parked = await park(near)
        (execution_id,) = await submit(near)
        assert [work.execution_id for work in await worker.works(parked)] == [execution_id]


async def test_a_recalled_claim_waits_no_more_and_gets_nothing(near: Driver) -> None:
    async with listening(near) as worker:
        before = await near.probe.dump()
        parked = await park(near)
        assert await parked.recall() == []
        assert await near.probe.dump() == before
        (execution_id,) = await submit(near)
        assert (LANE, home(near)) in await worker.heard_until((LANE, home(near)))
        assert await parked.recall() == [], "a claim that is recalled takes nothing new"
        assert await state(near, execution_id) is PublicState.WAITING


@pytest.mark.parametrize(("count", "slots"), [(8, 3), (1, 5)], ids=["asked for more", "asked for less"])
async def test_a_recall_gives_what_was_handed_over_meanwhile(near: Driver, count: int, slots: int) -> None:
    async with listening(near) as worker:
        result = await ask(near, count=count, park=slots)
        assert result.parked is not None
        submitted = await submit(near, slots + 1)
        recalled = await result.parked.recall()
        assert told(recalled) == told(await worker.works(result.parked))
        assert {work.execution_id for work in recalled} < set(submitted)
        assert len(recalled) == slots
        before = await near.probe.dump()
        assert told(await result.parked.recall()) == told(recalled), "asked twice, it answers the same"
        assert await near.probe.dump() == before


async def test_a_recall_gives_nothing_that_has_ended(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        await submit(near, 2)
        done, running = await worker.works(parked)
        await near.complete(near.held(done))
        assert told(await parked.recall()) == told([running])


async def test_a_claim_does_not_wait_in_a_paused_lane_but_one_that_waits_stays(near: Driver) -> None:
    async def set_lane(state: str) -> None:
        await near.backend.set_lane_state(c.SetLaneStateArgs(lane_id=LANE, state=state))  # type: ignore[arg-type]

    async with listening(near) as worker:
        parked = await park(near)
        await set_lane("paused")
        assert (await ask(near)).parked is None
        (early,) = await submit(near)
        assert await state(near, early) is PublicState.WAITING
        assert worker.has_nothing
        await set_lane("active")
        (late,) = await submit(near)
        assert {work.execution_id for work in await worker.works(parked)} == {early, late}
    await near.probe.check()


async def test_a_limited_lane_is_handed_no_more_than_it_may_run(near: Driver) -> None:
    await near.configure(max_concurrency=2)
    async with listening(near) as worker:
        parked = await park(near, count=4)
        submitted = await submit(near, 4)
        works = await worker.works(parked)
        assert len(works) == 2
        full = await ask(near)
        assert (full.claimed, full.parked) == ([], None), "there is work, but none that may start now"
        states = [await state(near, each) for each in submitted]
        assert sorted(states) == [PublicState.ACTIVE] * 2 + [PublicState.WAITING] * 2
    await near.probe.check()


async def test_a_full_lane_without_work_lets_nobody_wait(near: Driver) -> None:
    await near.configure(max_concurrency=1)
    await submit(near)
    assert len((await ask(near)).claimed) == 1
    assert (await ask(near)).parked is None


async def test_a_claim_that_got_something_does_not_wait(near: Driver) -> None:
    await submit(near)
    result = await ask(near)
    assert (len(result.claimed), result.parked) == (1, None)


async def test_a_claim_that_does_not_say_so_does_not_wait(near: Driver) -> None:
    assert (await ask(near, park=None)).parked is None
    assert await waiting(near) == 0


async def test_delayed_work_is_not_handed_over_before_its_time(near: Driver) -> None:
    async with listening(near) as worker:
        await park(near)
        (later,) = await submit(near, delay_until=near.clock.now_ms + BACKOFF)
        assert worker.has_nothing
        assert await state(near, later) is PublicState.DELAYED
        assert await waiting(near) == 1


async def test_executions_of_a_concurrency_key_take_turns_where_they_are_handed_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near, count=4)
        batch = [
            c.CreateExecutionArgs(
                execution_id=near.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind",
                concurrency_key=key,
            )
            for key in ("a", "a", None)
        ]  # fmt: skip
        await near.backend.submit_executions(batch)
        works = await worker.works(parked)
    assert len(works) == 2
    await near.probe.check()


async def test_a_submit_that_is_repeated_hands_nothing_over_again(near: Driver) -> None:
    args = c.CreateExecutionArgs(
        execution_id=near.mint(), namespace=Namespace("tests"), lane_id=LANE, execution_kind="kind"
    )
    async with listening(near) as worker, listening(near, OTHER_INSTANCE) as other:
        first, second = await park(near), await park(near, worker_instance_id=OTHER_INSTANCE)
        await near.backend.submit_executions([args])
        await near.backend.submit_executions([args])
        assert await waiting(near) == 1
        given = [await parked.recall() for parked in (first, second)]
        assert sorted(map(len, given)) == [0, 1]
        idle = other if given[0] else worker
        assert idle.has_nothing


async def test_a_lost_lease_of_handed_work_comes_back(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        (execution_id,) = await submit(near)
        (work,) = await worker.works(parked)
        await near.clock.advance(TTL)
        await near.backend.run_due_work(b.RunDueWorkArgs(partition=home(near)))
        assert await parked.recall() == [], "what was lost is not given again"
        (again,) = (await ask(near)).claimed
    assert again.execution_id == execution_id
    assert again.fence.lease_epoch > work.fence.lease_epoch
    await near.probe.check()


@pytest.mark.parametrize("broken", [b"", b"x" * 10, b"x" * 40, b"0" * 40], ids=["empty", "short", "text", "no rows"])
async def test_a_message_that_is_none_is_refused(near: Driver, broken: bytes) -> None:
    parked = await park(near)
    with pytest.raises(BadReply):
        parked.read(parked.key.encode() + broken)
    assert await parked.recall() == []


async def test_work_starts_wherever_the_worker_listens(driver: Driver) -> None:
    """A node knows only who listens to itself: the work is handed over, or announced and claimed."""
    lanes = [LaneId(f"lane-{number}") for number in range(12)]
    async with listening(driver, INSTANCE, *lanes) as worker:
        parked = {claim.key: claim for claim in [await park(driver, lane_id=lane) for lane in lanes]}
        submitted = {(await submit(driver, lane_id=lane))[0]: lane for lane in lanes}
        left = [lane for each, lane in submitted.items() if await state(driver, each) is PublicState.WAITING]
        started: list[b.ClaimedWork] = []
        for _ in range(len(lanes) - len(left)):
            key, message = await worker.message()
            started += parked[key].read(message)
        heard = await worker.heard_until(*((lane, home(driver, lane)) for lane in left))
        assert len(heard) == len(left), "what was handed over is not announced"
        for lane in left:
            started += (await ask(driver, lane_id=lane)).claimed
    assert sorted(work.execution_id for work in started) == sorted(submitted)
    await driver.probe.check()


async def test_claims_of_killed_workers_are_forgotten_and_those_of_others_stay(near: Driver) -> None:
    async with listening(near):
        for number in range(250):
            await park(near, worker_instance_id=WorkerInstanceId(f"killed-{number}"))
            await park(near, worker_instance_id=WorkerInstanceId(f"killed-{number}"), lane_id=MARKER)
        parked = await park(near)
        while await near.backend.forget_parked_claims(limit=100):
            pass
        keys = [f"ff:idx:{home(near, lane).tag}:lane:{lane}:parked" for lane in (LANE, MARKER)]
        left = [await near.backend.client.execute("HKEYS", key, key=key) for key in keys]
        assert left == [[INSTANCE.encode()], []]
        assert await parked.recall() == []
    assert await near.backend.forget_parked_claims() == 0

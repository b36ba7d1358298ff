"""Parked claims: a claim that finds no work waits, and whoever brings some makes it in the worker's place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from flowfabric.backends.ports import WorkListener
from flowfabric.backends.valkey import keys
from flowfabric.backends.valkey.calls import flat_to_dict
from flowfabric.core import batch as b
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace, WorkerInstanceId
from flowfabric.core.partition import Partition, lane_partitions
from flowfabric.core.policy import ExecutionPolicy, RoutingRequirements, TimeoutBehavior
from flowfabric.core.states import PublicState
from flowfabric.errors import BadReply
from tests.conformance.driver import BACKOFF, INSTANCE, LANE, TTL, WORKER, Driver, Subject
from tests.conformance.invariants import check_store, dump
from tests.conformance.suspending import Suspender
from tests.conformance.test_flow_inputs import check_given, claim, joined

MARKER = LaneId("marker")
OTHER_INSTANCE = WorkerInstanceId("worker-2")
GPU = ExecutionPolicy(routing_requirements=RoutingRequirements(required_capabilities=("gpu",)))
BINARY = bytes(range(256))

Heard = frozenset[tuple[LaneId, Partition]]


@pytest.fixture
def near(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Who listens does so on the node where the lane lives, the only one that can tell whether anybody does."""
    client = driver.backend.client
    monkeypatch.setattr(client, "dedicated", partial(client.dedicated, key=keys.events(home(driver).tag)))
    return driver


def home(driver: Driver, lane: LaneId = LANE) -> Partition:
    return lane_partitions(lane, driver.backend.partitions)[0]


class Listening:
    """A worker that listens, and what came for its claims."""

    def __init__(self, listener: WorkListener, handed: asyncio.Queue[tuple[str, bytes]]) -> None:
        self._listener = listener
        self._handed = handed

    async def message(self) -> tuple[str, bytes]:
        async with asyncio.timeout(20):
            return await self._handed.get()

    async def works(self, parked: b.ParkedClaim) -> list[b.ClaimedWork]:
        key, message = await self.message()
        assert key == parked.key
        return parked.read(message)

    async def heard_until(self, *wanted: tuple[LaneId, Partition]) -> Heard:
        found: Heard = frozenset()
        async with asyncio.timeout(20):
            while not found.issuperset(wanted):
                found |= await self._listener.wait()
        return found

    @property
    def has_nothing(self) -> bool:
        return self._handed.empty()


@asynccontextmanager
async def listening(driver: Driver, instance: WorkerInstanceId = INSTANCE, *lanes: LaneId) -> AsyncIterator[Listening]:
    """A worker that hears of its lanes, and of what comes for its parked claims."""
    handed: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
    put: Callable[[str, bytes], None] = lambda key, message: handed.put_nowait((key, message))  # noqa: E731
    lanes = lanes or (LANE, MARKER)
    async with driver.backend.listen_for_work(lanes, worker_instance_id=instance, on_handed=put) as listener:
        assert await listener.wait() == frozenset()
        yield Listening(listener, handed)


async def ask(driver: Driver, count: int = 4, park: int | None = 4, **changes: Any) -> b.FinishExecutionsResult:
    claim = {
        "lane_id": LANE, "worker_id": WORKER, "worker_instance_id": INSTANCE, "lease_ttl_ms": TTL, "count": count,
        "park": park, **changes,
    }  # fmt: skip
    partition = home(driver, claim["lane_id"])  # type: ignore[arg-type]
    args = b.FinishExecutionsArgs(partition=partition, claim=b.ClaimExecutionsArgs(**claim))  # type: ignore[arg-type]
    return await driver.backend.finish_executions(args)


async def park(driver: Driver, count: int = 4, **changes: Any) -> b.ParkedClaim:
    result = await ask(driver, count=count, park=count, **changes)
    assert result.claimed == []
    assert result.parked is not None
    return result.parked


async def submit(driver: Driver, count: int = 1, **fields: Any) -> list[ExecutionId]:
    lane = fields.get("lane_id", LANE)
    batch = [
        c.CreateExecutionArgs(
            **{
                "execution_id": driver.mint(lane),
                "namespace": Namespace("tests"),
                "lane_id": LANE,
                "execution_kind": "kind",
                "input_payload": b"%d" % number,
                **fields,
            }  # type: ignore[arg-type]
        )
        for number in range(count)
    ]
    outcomes = await driver.backend.submit_executions(batch)
    assert all(isinstance(outcome, c.ExecutionCreated) for outcome in outcomes), outcomes
    return [args.execution_id for args in batch]


async def waiting(driver: Driver) -> int:
    """How many claims wait in the lane."""
    key = f"ff:idx:{home(driver).tag}:lane:{LANE}:parked"
    count = await driver.backend.client.execute("HLEN", key, key=key)
    assert isinstance(count, int)
    return count


async def record(driver: Driver, execution_id: ExecutionId) -> dict[str, str]:
    key = f"ff:exec:{execution_id.tag}:{execution_id}:core"
    return flat_to_dict(await driver.backend.client.execute("HGETALL", key, key=key))


async def events(driver: Driver, execution_id: ExecutionId) -> list[str]:
    return [event.event for event in (await driver.backend.history(execution_id)).events]


async def state(driver: Driver, execution_id: ExecutionId) -> PublicState:
    return (await driver.info(Subject(execution_id))).public_state


def told(works: list[b.ClaimedWork]) -> list[Any]:
    """All that a claim says, in values that can be compared."""
    return [(work.claim, work.execution_kind, work.input_payload, work.payload_encoding) for work in works]


def without_ids(work: b.ClaimedWork) -> dict[str, Any]:
    found = msgspec.structs.asdict(work)
    return {name: found[name] for name in found.keys() - {"execution_id", "fence", "handles"}}


async def test_a_submit_gives_a_claim_that_waits_what_a_claim_would_have_got(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        (handed_id,) = await submit(near)
        (handed,) = await worker.works(parked)
    (claimed_id,) = await submit(near)
    (claimed,) = (await ask(near)).claimed
    assert (handed.execution_id, claimed.execution_id) == (handed_id, claimed_id)
    assert without_ids(handed) == without_ids(claimed)
    assert type(handed.claim) is type(claimed.claim)
    assert await events(near, handed_id) == await events(near, claimed_id) == ["created", "claimed"]
    ours, theirs = await record(near, handed_id), await record(near, claimed_id)
    assert {name for name in ours if ours[name] != theirs.get(name)} <= {"current_lease_id", "current_attempt_id"}
    assert ours.keys() == theirs.keys()
    await check_store(near.backend.client)
    for work in (handed, claimed):
        await near.complete(near.held(work))
    await check_store(near.backend.client)


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
    await check_store(near.backend.client)


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
    await check_store(near.backend.client)


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
        before = await dump(near.backend.client)
        parked = await park(near)
        assert await parked.recall() == []
        assert await dump(near.backend.client) == before
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
        before = await dump(near.backend.client)
        assert told(await result.parked.recall()) == told(recalled), "asked twice, it answers the same"
        assert await dump(near.backend.client) == before


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
    await check_store(near.backend.client)


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
    await check_store(near.backend.client)


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
    await check_store(near.backend.client)


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
    await check_store(near.backend.client)


async def nothing_but_the_marker_is_heard(near: Driver, worker: Listening) -> None:
    """What was handed over was not announced."""
    await submit(near, lane_id=MARKER)
    assert await worker.heard_until((MARKER, home(near, MARKER))) == {(MARKER, home(near, MARKER))}


async def _signalled(waits: Suspender, x: Subject, at: c.IssuedWaitpoint) -> None:
    assert isinstance(await waits.signal(x, at), c.ResumeTriggered)


async def _resumed(waits: Suspender, x: Subject, _: c.IssuedWaitpoint) -> None:
    assert await waits.resume(x) == c.ExecutionResumed(public_state=PublicState.WAITING)


async def _closed(waits: Suspender, x: Subject, at: c.IssuedWaitpoint) -> None:
    await waits.close(x, at.waitpoint_id, source=c.CancelSource.OPERATOR_OVERRIDE)


async def _timed_out(waits: Suspender, x: Subject, _: c.IssuedWaitpoint) -> None:
    await waits.driver.clock.advance(BACKOFF)
    assert (await waits.due(x)).woken == 1


async def _resumed_later(waits: Suspender, x: Subject, _: c.IssuedWaitpoint) -> None:
    await waits.resume(x, resume_delay_ms=10)
    await waits.driver.clock.advance(10)
    assert (await waits.due(x)).promoted == 1


@pytest.mark.parametrize("wake", [_signalled, _resumed, _closed, _timed_out, _resumed_later])
async def test_whatever_wakes_an_execution_hands_it_over(near: Driver, wake: Callable[..., Awaitable[None]]) -> None:
    waits = Suspender(near)
    await waits.seed()
    x = await waits.running()
    suspended = await waits.suspend(x, timeout_ms=BACKOFF, timeout_behavior=TimeoutBehavior.AUTO_RESUME)
    async with listening(near) as worker:
        parked = await park(near)
        await wake(waits, x, suspended.waitpoints[0])
        (work,) = await worker.works(parked)
        await nothing_but_the_marker_is_heard(near, worker)
    assert isinstance(work.claim, c.ClaimedResumedExecution)
    assert (work.execution_id, work.fence.attempt_id) == (x.execution_id, x.fence.attempt_id)
    assert (await events(near, x.execution_id))[-2:] in (["woken", "resumed"], ["promoted", "resumed"])
    await check_store(near.backend.client)
    await near.complete(near.held(work))


async def test_a_woken_member_of_a_flow_comes_with_its_inputs_and_what_it_waited_for(near: Driver) -> None:
    graph, waits = await joined(near), Suspender(near)
    await waits.seed()
    x = near.held(await claim(near))
    suspended = await waits.suspend(x)
    async with listening(near) as worker:
        parked = await park(near)
        await waits.signal(x, suspended.waitpoints[0], payload=b"yes")
        (work,) = await worker.works(parked)
        (again,) = await parked.recall()
    for each in (work, again):
        check_given(each, graph)
        assert each.fence.attempt_id == x.fence.attempt_id
        assert each.resumption is not None
        assert [signal.payload for signal in each.resumption.latest.signals] == [b"yes"]
    await near.complete(near.held(work))
    assert await graph.flow_state() == "completed"
    await graph.check()


async def test_a_single_create_hands_its_execution_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        x = await near.create()
        (work,) = await worker.works(parked)
        await nothing_but_the_marker_is_heard(near, worker)
    assert work.execution_id == x.execution_id
    await check_store(near.backend.client)


async def test_a_delay_that_is_over_hands_its_execution_over(near: Driver) -> None:
    async with listening(near) as worker:
        parked = await park(near)
        (later,) = await submit(near, delay_until=near.clock.now_ms + BACKOFF)
        await near.clock.advance(BACKOFF)
        await near.backend.run_due_work(b.RunDueWorkArgs(partition=home(near)))
        assert [work.execution_id for work in await worker.works(parked)] == [later]
        await nothing_but_the_marker_is_heard(near, worker)
    await check_store(near.backend.client)


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
    await check_store(driver.backend.client)

"""Claims of a worker that wait in the store: the slots they keep, what comes for them, and their recall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import BackendUnavailable, BadReply, FlowFabricError, ScriptFault
from flowfabric.worker import Worker
from flowfabric.worker.loop.lanes import Lane, Place
from flowfabric.worker.loop.parked_claims import Parked, Parking
from tests.worker_fakes import HERE, LANE, FakeBatches, FakeStore, Floor, accepted, claimed_work, settle

ELSEWHERE = Partition(PartitionFamily.FLOW, 8)
_numbers = count()


class FakeClaim:
    """Waits in no store. Its messages name what was given; a recall gives that, when the test lets it."""

    def __init__(self) -> None:
        self.key = f"claim-{next(_numbers)}"
        self.given: list[b.ClaimedWork] = []
        self.recalls = 0
        self.errors: list[FlowFabricError] = []
        self.gate: asyncio.Event | None = None

    def give(self, *works: b.ClaimedWork) -> tuple[str, bytes]:
        """The message that brings them."""
        self.given = list(works)
        return self.key, b"works"

    def read(self, message: bytes) -> list[b.ClaimedWork]:
        if message != b"works":
            raise BadReply("not a message")
        return self.given

    async def recall(self) -> list[b.ClaimedWork]:
        self.recalls += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return self.given


class ParkingFloor(Floor):
    """A store without work where claims are parked."""

    def __init__(self, **changes: Any) -> None:
        self.claims: list[FakeClaim] = []
        self.port = FakeBatches(self._answer)
        self.queue: list[b.ClaimedWork] = []
        super().__init__(self.port, **{"concurrency": 16, **changes})

    def _answer(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        works: list[b.ClaimedWork] = []
        if args.claim is not None:
            works, self.queue = self.queue[: args.claim.count], self.queue[args.claim.count :]
        result = accepted(args, works)
        if args.claim is not None and args.claim.park is not None and not works:
            result.parked = FakeClaim()
            self.claims.append(result.parked)
        return result

    async def heard(self, *partitions: Partition) -> None:
        self.hear(*partitions)
        await settle()

    async def ended(self, count: int = 1) -> None:
        self.end(count)
        await settle()

    def handed(self, message: tuple[str, bytes]) -> None:
        self.loop.handover.handed(*message)

    @property
    def asked(self) -> list[tuple[int, int | None]]:
        """How many each claim asked for, and how many it would wait for."""
        return [(call.claim.count, call.claim.park) for call in self.port.calls if call.claim]


def place(partition: Partition = HERE) -> Place:
    return Place(Lane(LANE, 1), partition)


def parked(at: Place, slots: int) -> Parked:
    return Parked(FakeClaim(), at, slots)


@pytest.mark.parametrize(
    ("slots", "kept"), [(1, None), (2, None), (3, None), (4, 1), (15, 3), (16, 4), (32, 8), (1000, 8)]
)
def test_a_claim_keeps_a_quarter_of_the_slots_and_few_at_most(slots: int, kept: int | None) -> None:
    assert Parking(slots).slots_for(place()) == kept


def test_all_claims_together_keep_a_quarter() -> None:
    parking, places = Parking(48), [place(Partition(PartitionFamily.FLOW, at)) for at in range(4)]
    kept = []
    for each in places:
        kept.append(slots := parking.slots_for(each))
        if slots is not None:
            assert parking.add(parked(each, slots))
    assert kept == [8, 4, None, None]
    assert parking.slots == 12


def test_one_claim_waits_at_a_place_and_one_that_is_recalled_is_none() -> None:
    parking, here = Parking(32), place()
    first = parked(here, 8)
    parking.add(first)
    assert parking.slots_for(here) is None
    first.is_recalled = True
    assert parking.slots_for(here) == 8
    assert parking.slots == 8, "work may still come for it"
    assert parking.take(first.claim.key) is first
    assert parking.take(first.claim.key) is None
    assert parking.slots == 0


def test_a_claim_for_which_there_is_no_room_by_now_is_to_be_recalled() -> None:
    parking = Parking(16)
    assert parking.add(parked(place(), 3))
    assert not parking.add(parked(place(ELSEWHERE), 2))
    assert parking.slots == 5


async def test_where_an_attempt_left_to_wait_a_claim_waits_for_it_to_come_back() -> None:
    floor = ParkingFloor()
    floor.queue = [claimed_work()]
    await floor.heard()
    (attempt,) = floor.running
    asked = len(floor.asked)
    floor.pool.backlog.clear()  # suspended: it sends no end
    floor.planner.ask_again(attempt.execution_id.tag)
    await settle()
    assert len(floor.asked) == asked + 1
    assert len(floor.claims) == 1
    floor.planner.ask_again(attempt.execution_id.tag)
    await settle()
    assert len(floor.asked) == asked + 1, "one claim waits there already"


async def test_a_claim_without_work_waits_and_what_comes_for_it_is_begun() -> None:
    floor = ParkingFloor()
    await floor.heard()
    assert floor.asked == [(8, 4)]
    calls = len(floor.port.calls)
    floor.handed(floor.claims[0].give(claimed_work(), claimed_work()))
    await settle()
    assert len(floor.running) == 2
    assert len(floor.port.calls) == calls
    assert not floor.loop.expects_work


async def test_ending_handed_work_asks_in_the_same_call_and_waits_again() -> None:
    floor = ParkingFloor()
    await floor.heard()
    floor.handed(floor.claims[0].give(claimed_work()))
    await settle()
    floor.port.calls.clear()
    await floor.ended()
    assert [(len(call.finish), call.claim and call.claim.park) for call in floor.port.calls] == [(1, 4)]
    floor.handed(floor.claims[1].give(claimed_work()))
    assert len(floor.running) == 1


async def test_a_claim_that_took_all_there_was_waits_after_the_next_ending() -> None:
    floor = ParkingFloor()
    floor.queue = [claimed_work() for _ in range(3)]
    await floor.heard()
    assert (len(floor.running), floor.claims) == (3, [])
    floor.port.calls.clear()
    await floor.ended()
    assert [(len(call.finish), call.claim and call.claim.park) for call in floor.port.calls] == [(1, 4)]
    await floor.ended(2)
    assert [len(call.finish) for call in floor.port.calls] == [1, 2]
    assert floor.port.calls[1].claim is None, "one that waits is enough"


async def test_workers_with_few_slots_let_no_claim_wait() -> None:
    for slots in (1, 2, 3):
        floor = ParkingFloor(concurrency=slots)
        floor.queue = [claimed_work()]
        await floor.heard()
        await floor.ended()
        await floor.heard()
        assert {park for _, park in floor.asked} == {None}
        assert not floor.loop.expects_work


async def test_a_claim_waits_for_no_more_than_it_asked_for() -> None:
    floor = ParkingFloor()
    floor.run(*(claimed_work() for _ in range(15)))
    await floor.heard()
    assert floor.asked == [(1, 1)]
    assert floor.parking.slots == 1


async def test_slots_that_claims_keep_are_not_asked_for() -> None:
    floor = ParkingFloor()
    await floor.heard()
    floor.run(*(claimed_work() for _ in range(9)))
    await floor.heard(ELSEWHERE)
    assert floor.asked == [(8, 4), (3, None)]


async def test_claims_are_recalled_when_other_work_needs_their_slots() -> None:
    floor = ParkingFloor()
    await floor.heard()
    floor.queue = [claimed_work(partition=ELSEWHERE) for _ in range(20)]
    await floor.heard(ELSEWHERE)
    assert floor.claims[0].recalls == 1
    assert len(floor.running) == 16
    assert len(floor.queue) == 4


async def test_what_comes_for_no_claim_of_this_worker_is_ignored() -> None:
    floor = ParkingFloor()
    await floor.heard()
    stranger = FakeClaim()
    floor.handed(stranger.give(claimed_work()))
    await settle()
    assert floor.running == []
    assert floor.parking.slots == 4


async def test_work_that_comes_before_the_answer_that_its_claim_waits_is_begun() -> None:
    """The message and the answer take two connections."""
    floor = ParkingFloor()
    early, stranger = FakeClaim(), FakeClaim()

    def answer(args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        result = accepted(args)
        result.parked = early
        return result

    floor.port.answer, floor.port.holding = answer, True
    await floor.heard()
    floor.handed(early.give(claimed_work()))
    floor.handed(stranger.give(claimed_work()))
    assert floor.running == []
    await floor.port.let_one_go()
    assert len(floor.running) == 1
    assert not floor.loop.expects_work
    assert floor.parking.take_early(stranger.key) is None, "nobody waits for it"


async def test_an_unreadable_message_is_recalled() -> None:
    floor = ParkingFloor()
    await floor.heard()
    (claim,) = floor.claims
    key, _ = claim.give(claimed_work())
    floor.handed((key, b"garbage"))
    assert floor.running == []
    await settle()
    assert claim.recalls == 1
    assert len(floor.running) == 1
    assert not floor.loop.expects_work


@pytest.mark.parametrize("message_first", [True, False], ids=["message first", "recall first"])
async def test_a_message_and_a_recall_that_race_begin_it_once(message_first: bool) -> None:
    floor = ParkingFloor()
    await floor.heard()
    (claim,) = floor.claims
    claim.gate = asyncio.Event()
    message = claim.give(claimed_work())
    floor.loop.handover.recall_all()
    await settle()
    steps: list[Callable[[], None]] = [lambda: floor.handed(message), claim.gate.set]
    for step in steps if message_first else reversed(steps):
        step()
        await settle()
    assert len(floor.running) == 1
    assert not floor.loop.expects_work
    assert floor.parking.slots == 0


async def test_a_claim_is_recalled_once_however_often_it_is_asked() -> None:
    floor = ParkingFloor()
    await floor.heard()
    tasks = floor.loop.handover.recall_all()
    assert floor.loop.handover.recall_all() == []
    await asyncio.gather(*tasks)
    assert floor.claims[0].recalls == 1
    assert floor.loop.handover.recall_all() == []


async def test_the_second_of_two_claims_that_come_to_wait_at_a_place_stays() -> None:
    floor = ParkingFloor(concurrency=64)
    floor.queue = [claimed_work() for _ in range(32)]
    floor.port.holding = True
    await floor.heard()
    await floor.port.let_one_go()  # in full: two calls may be out now
    floor.pool.backlog.clear()
    await floor.heard()
    assert len(floor.port.waiting) == 2
    await floor.port.let_one_go()
    await floor.port.let_one_go()
    older, newer = floor.claims
    assert (older.recalls, newer.recalls) == (1, 0)
    assert floor.parking.slots == 8


async def test_a_recall_that_failed_is_made_again_and_its_slots_stay_kept() -> None:
    floor = ParkingFloor(retry_pause_ms=0)
    await floor.heard()
    (claim,) = floor.claims
    claim.give(claimed_work())
    claim.errors = [BackendUnavailable("gone", sent=True) for _ in range(3)]
    floor.loop.handover.recall_all()
    while claim.errors:
        assert floor.parking.slots == 4
        await settle()
    while not floor.running:
        await settle()
    assert claim.recalls == 4
    assert not floor.loop.expects_work


async def test_a_recall_that_the_store_refuses_is_given_up() -> None:
    floor = ParkingFloor()
    await floor.heard()
    floor.claims[0].errors = [ScriptFault("it broke")]
    floor.loop.handover.recall_all()
    await settle()
    assert floor.claims[0].recalls == 1
    assert not floor.loop.expects_work


async def test_a_claim_that_comes_to_wait_while_the_worker_stops_is_recalled() -> None:
    floor = ParkingFloor()
    floor.port.holding = True
    await floor.heard()
    floor.planner.claiming = False
    assert floor.loop.expects_work
    await floor.port.let_one_go()
    assert floor.claims[0].recalls == 1
    assert not floor.loop.expects_work
    assert floor.loop.is_quiet


async def test_closing_recalls_and_begins_nothing() -> None:
    floor = ParkingFloor()
    await floor.heard()
    floor.claims[0].give(claimed_work())
    await floor.loop.close()
    assert floor.claims[0].recalls == 1
    assert floor.running == []


async def test_a_worker_with_a_claim_that_waits_is_quiet() -> None:
    floor = ParkingFloor()
    await floor.heard()
    assert floor.loop.is_quiet
    assert floor.loop.expects_work


async def test_a_worker_that_drains_waits_for_claims_that_are_out_and_lets_their_work_end() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler() -> None:
        await settle()

    store.holding = True
    execution_id = store.give(handler)
    await worker.start(store.port)
    await settle()
    stopping = asyncio.create_task(worker.stop(grace=30))
    await settle()
    assert not stopping.done()
    store.holding = False
    while store.waiting:
        await store.let_one_go()
    await stopping
    assert [args.execution_id for args in store.finished] == [execution_id]

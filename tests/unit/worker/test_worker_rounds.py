"""When a worker calls the store, and for what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.partition import Partition, PartitionFamily
from flowfabric.errors import BackendUnavailable, ScriptFault
from flowfabric.worker.attempts.attempt import Attempt
from flowfabric.worker.loop import claim_loop
from flowfabric.worker.loop.claim_loop import Ending, Rounds
from flowfabric.worker.loop.end_calls import completion
from flowfabric.worker.loop.lanes import Ask
from flowfabric.worker.stats import WorkerStats
from tests.worker_fakes import HERE, LANE, FakeBatches, accepted, claimed_work, settings, settle

ELSEWHERE = Partition(PartitionFamily.FLOW, 8)


class Floor:
    """Takes what is claimed, and holds it until the test ends it."""

    def __init__(self, port: FakeBatches, **changes: Any) -> None:
        self.running: list[Attempt] = []
        self.answers: list[b.FinishOutcome] = []
        self.rounds = Rounds(
            port,  # type: ignore[arg-type]
            settings(**changes),
            WorkerStats(),
            occupied=lambda: len(self.running),
            on_claimed=self._claimed,  # type: ignore[arg-type]
            on_finished=self._finished,
            on_return=lambda: None,
        )

    def _claimed(self, works: Sequence[b.ClaimedWork], ask: Ask, sent_at: float) -> None:
        self.running += [attempt_of(work) for work in works]

    def _finished(self, endings: Sequence[Ending], results: Sequence[b.FinishOutcome]) -> None:
        self.answers += results

    def hear(self, partition: Partition = HERE) -> None:
        self.rounds.lanes.hear([(LANE, partition)])
        self.rounds.turn_soon()

    def end(self, count: int, payload: bytes = b"null") -> None:
        for _ in range(count):
            attempt = self.running.pop(0)
            self.rounds.finish(attempt, completion(attempt.execution_id, attempt.fence, payload))


def attempt_of(work: b.ClaimedWork) -> Attempt:
    return Attempt(work, None, LANE, 0.0, 0.0)  # type: ignore[arg-type]


def plenty(args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
    """As much work as is asked for."""
    count = args.claim.count if args.claim else 0
    return accepted(args, [claimed_work(partition=args.partition) for _ in range(count)])


def some(count: int) -> Callable[[b.FinishExecutionsArgs], b.FinishExecutionsResult]:
    """So much work in all."""
    left = [count]

    def answer(args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        given = min(left[0], args.claim.count if args.claim else 0)
        left[0] -= given
        return accepted(args, [claimed_work(partition=args.partition) for _ in range(given)])

    return answer


async def test_nothing_is_sent_while_nothing_happens() -> None:
    port = FakeBatches()
    floor = Floor(port)
    floor.rounds.turn_soon()
    await settle()
    assert port.calls == []
    assert floor.rounds.is_quiet


async def test_announced_work_is_claimed_up_to_the_free_slots() -> None:
    port = FakeBatches(plenty)
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    assert len(floor.running) == 4
    assert [call.claim.count for call in port.calls if call.claim] == [2, 2]


async def test_prefetch_claims_so_many_more() -> None:
    floor = Floor(FakeBatches(plenty), concurrency=4, prefetch=2)
    floor.hear()
    await settle()
    assert len(floor.running) == 6


async def test_ending_and_the_next_claim_are_one_call() -> None:
    port = FakeBatches(plenty)
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    port.calls.clear()
    floor.end(2)
    await settle()
    assert [(len(call.finish), call.claim and call.claim.count) for call in port.calls] == [(2, 2)]
    assert len(floor.running) == 4


async def test_everything_that_ends_in_one_round_of_the_loop_goes_together() -> None:
    port = FakeBatches(some(8))
    floor = Floor(port, concurrency=16)
    floor.hear()
    await settle()
    port.calls.clear()
    floor.end(8)
    await settle()
    assert [(len(call.finish), call.claim) for call in port.calls] == [(8, None)]


async def test_a_call_holds_at_most_a_hundred_endings() -> None:
    port = FakeBatches(some(250))
    floor = Floor(port, concurrency=500)
    floor.hear()
    await settle()
    assert len(floor.running) == 250
    port.calls.clear()
    floor.end(250)
    await settle()
    assert [len(call.finish) for call in port.calls] == [100, 100, 50]


async def test_large_results_do_not_share_a_call() -> None:
    port = FakeBatches(some(3))
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    port.calls.clear()
    floor.end(3, payload=b"x" * 600_000)
    await settle()
    assert [len(call.finish) for call in port.calls] == [1, 1, 1]


async def test_at_most_two_calls_of_a_partition_are_out_and_the_rest_waits_together() -> None:
    port = FakeBatches(some(6))
    floor = Floor(port, concurrency=8)
    floor.hear()
    await settle()
    port.calls.clear()
    port.holding = True
    for _ in range(6):
        floor.end(1)
        await settle()
    assert [len(call.finish) for call in port.calls] == [1, 1]
    await port.let_one_go()
    assert [len(call.finish) for call in port.calls] == [1, 1, 4]
    await floor.rounds.close()


async def test_partitions_are_called_apart() -> None:
    port = FakeBatches(plenty)
    floor = Floor(port, concurrency=4)
    floor.hear()
    floor.hear(ELSEWHERE)
    await settle()
    port.calls.clear()
    port.answer = accepted
    floor.end(4)
    await settle()
    assert {call.partition for call in port.calls} == {HERE, ELSEWHERE}
    for call in port.calls:
        assert {item.execution_id.tag for item in call.finish} <= {call.partition.tag}


async def test_no_more_is_claimed_once_claiming_has_stopped() -> None:
    port = FakeBatches(plenty)
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    floor.rounds.claiming = False
    port.calls.clear()
    floor.end(4)
    await settle()
    assert [call.claim for call in port.calls] == [None]
    assert floor.rounds.is_quiet


async def test_endings_that_the_store_could_not_take_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_loop, "_PAUSE_S", 0)
    port = FakeBatches(some(2))
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    port.answer = lambda _: BackendUnavailable("gone", sent=True)
    floor.end(2)
    while len(port.calls) < 4:
        await settle()
    assert floor.answers == []
    assert not floor.rounds.is_quiet
    port.answer = accepted
    while not floor.answers:
        await settle()
    assert len(floor.answers) == 2
    assert floor.rounds.is_quiet


async def test_an_ending_that_breaks_a_call_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_loop, "_PAUSE_S", 0)
    port = FakeBatches(some(3))
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    poison = floor.running[1].execution_id

    def answer(args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult | Exception:
        broken = any(item.execution_id == poison for item in args.finish)
        return ScriptFault("it broke") if broken else accepted(args)

    port.answer = answer
    floor.end(3)
    while len(floor.answers) < 3:
        await settle()
    assert sum(isinstance(answer, c.ExecutionCompleted) for answer in floor.answers) == 2
    assert sum(isinstance(answer, ScriptFault) for answer in floor.answers) == 1
    assert floor.rounds.is_quiet


async def test_a_claim_that_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_loop, "_PAUSE_S", 0)
    port = FakeBatches(lambda _: BackendUnavailable("gone", sent=False))
    floor = Floor(port, concurrency=4)
    floor.hear()
    while len(port.calls) < 3:
        await settle()
    port.answer = plenty
    while len(floor.running) < 4:
        await settle()


async def test_a_store_that_takes_no_endings_gets_no_more_to_end() -> None:
    port = FakeBatches(plenty)
    floor = Floor(port, concurrency=4)
    floor.hear()
    await settle()
    port.holding = True
    for _ in range(60):
        floor.end(len(floor.running))
        floor.running += [attempt_of(claimed_work()) for _ in range(4)]
        await settle()
    assert sum(len(call.finish) for call in port.calls) < 60 * 4
    calls = len(port.calls)
    floor.end(4)
    await settle()
    assert len(port.calls) == calls
    await floor.rounds.close()


@pytest.mark.parametrize("limited", [True, False])
async def test_where_limits_have_a_say_endings_ask_for_the_slots_they_leave(limited: bool) -> None:
    answer = some(5)

    def limiting(args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        result = answer(args)
        result.limited = limited and args.claim is not None
        return result

    port = FakeBatches(limiting)
    floor = Floor(port, concurrency=8)
    floor.hear()
    await settle()
    assert len(floor.running) == 5
    floor.end(1)  # this one asks anyway, because a claim took all there was
    await settle()
    port.calls.clear()
    floor.end(3)
    await settle()
    (call,) = port.calls
    assert (None if call.claim is None else call.claim.count) == (3 if limited else None)

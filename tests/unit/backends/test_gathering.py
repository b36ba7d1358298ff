"""Single calls become batches: the size follows the load, and each caller gets the outcome of its own item."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowfabric.backends import batching
from flowfabric.backends.batching import ENOUGH, PAYLOAD_BYTES_PER_CALL, PER_CALL, Gatherer
from flowfabric.backends.ports import BatchPort
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import AttemptId, ExecutionId, LaneId, LeaseId, Namespace
from flowfabric.errors import BackendUnavailable, BadReply, FlowFabricError, InvalidInput, StaleLease
from tests.soaking import examples

LANE, NAMESPACE = LaneId("lane"), Namespace("tests")
FENCE = c.LeaseFence(lease_id=LeaseId.new(), lease_epoch=1, attempt_id=AttemptId.new())


def execution_id(number: int, partition: int = 0) -> ExecutionId:
    return ExecutionId(f"{{fp:{partition}}}:{UUID(int=number)}")


def create(number: int, partition: int = 0, payload: bytes = b"") -> c.CreateExecutionArgs:
    return c.CreateExecutionArgs(
        execution_id=execution_id(number, partition),
        namespace=NAMESPACE,
        lane_id=LANE,
        execution_kind="kind",
        input_payload=payload,
    )


def complete(number: int, partition: int = 0, payload: bytes | None = None) -> c.CompleteExecutionArgs:
    return c.CompleteExecutionArgs(execution_id=execution_id(number, partition), fence=FENCE, result_payload=payload)


def fail(number: int, partition: int = 0) -> c.FailExecutionArgs:
    return c.FailExecutionArgs(
        execution_id=execution_id(number, partition), fence=FENCE, failure_reason="reason", failure_category="category"
    )


def renew(number: int, partition: int = 0) -> c.RenewLeaseArgs:
    return c.RenewLeaseArgs(
        execution_id=execution_id(number, partition), attempt_index=0, fence=FENCE, lease_ttl_ms=30_000
    )


class Done:
    """The result of exactly these arguments."""

    def __init__(self, args: Any) -> None:
        self.args = args


class Call:
    """A call that is out until the test answers it."""

    def __init__(self, kind: str, items: list[Any]) -> None:
        self.kind = kind
        self.items = items
        self.reply: asyncio.Future[Callable[[Any], object]] = asyncio.get_running_loop().create_future()

    @property
    def place(self) -> tuple[str, str]:
        (tag,) = {args.execution_id.tag for args in self.items}
        return self.kind, tag

    def answer(self, outcome: Callable[[Any], object] = Done) -> None:
        self.reply.set_result(outcome)

    def lose(self, error: BaseException) -> None:
        self.reply.set_exception(error)


class HeldPort:
    """A BatchPort whose calls wait for the test."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._unseen: asyncio.Queue[Call] = asyncio.Queue()

    async def submit_executions(self, batch: list[c.CreateExecutionArgs]) -> list[object]:
        outcome = await self._hold(Call("submit", list(batch)))
        return [outcome(args) for args in batch]

    async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
        assert {item.execution_id.tag for item in (*args.finish, *args.renew)} == {args.partition.tag}
        assert args.claim is None
        outcome = await self._hold(Call("finish", [*args.finish, *args.renew]))
        finished, renewed = [outcome(item) for item in args.finish], [outcome(item) for item in args.renew]
        return b.FinishExecutionsResult(finished=cast("Any", finished), renewed=cast("Any", renewed), claimed=[])

    async def _hold(self, call: Call) -> Callable[[Any], object]:
        self.calls.append(call)
        self._unseen.put_nowait(call)
        return await call.reply

    async def next_call(self) -> Call:
        return await self._unseen.get()

    async def answer_until(self, tasks: list[asyncio.Task[Any]]) -> list[Any]:
        """Answer every call that comes until these are done."""

        async def answer() -> None:
            while True:
                (await self.next_call()).answer()

        answering = asyncio.create_task(answer())
        try:
            return await asyncio.gather(*tasks)
        finally:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering

    @property
    def sizes(self) -> list[int]:
        return [len(call.items) for call in self.calls]


class Crowd:
    """Callers of one gatherer, each in a task of its own."""

    def __init__(self) -> None:
        self.port = HeldPort()
        self.gatherer = Gatherer(cast("BatchPort", self.port))

    def give(self, args: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self._ask(args))

    async def give_together(self, given: list[Any]) -> list[asyncio.Task[Any]]:
        """Have these wait in line behind a call, and answer that one."""
        kind = create if isinstance(given[0], c.CreateExecutionArgs) else complete
        first = self.give(kind(999))
        out = await self.port.next_call()
        tasks = [self.give(args) for args in given]
        await turns()
        out.answer()
        await first
        return tasks

    async def _ask(self, args: Any) -> Any:
        if isinstance(args, c.CreateExecutionArgs):
            return await self.gatherer.submit(args)
        if isinstance(args, c.RenewLeaseArgs):
            return await self.gatherer.renew(args)
        return await self.gatherer.finish(args)


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


async def turns() -> None:
    """Let every task that is ready run until it waits for the port."""
    for _ in range(10):
        await asyncio.sleep(0)


async def outcome_of(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except Exception as error:
        return error


@pytest.mark.parametrize("make", [create, complete, fail, renew])
async def test_an_item_that_finds_no_call_out_goes_alone_and_at_once(crowd: Crowd, make: Callable[..., Any]) -> None:
    for number in range(3):
        asked = crowd.give(args := make(number))
        call = await crowd.port.next_call()
        assert call.items == [args]
        call.answer()
        assert (await asked).args is args
    assert crowd.port.sizes == [1, 1, 1]


async def test_items_that_come_while_a_call_is_out_go_together(crowd: Crowd) -> None:
    first = crowd.give(create(0))
    out = await crowd.port.next_call()
    rest = [crowd.give(create(number)) for number in range(1, 8)]
    await turns()
    assert crowd.port.sizes == [1]
    out.answer()
    results = await crowd.port.answer_until([first, *rest])
    assert crowd.port.sizes == [1, 7]
    assert [done.args for done in results] == [create(number) for number in range(8)]


async def test_callers_that_got_their_outcomes_together_go_together_again(crowd: Crowd) -> None:
    async def go_on(number: int) -> None:
        for step in range(3):
            await crowd.gatherer.submit(create(10 * number + step))

    await crowd.port.answer_until([asyncio.create_task(go_on(number)) for number in range(5)])
    assert crowd.port.sizes[:3] == [1, 5, 5]
    assert len(crowd.port.sizes) == 4


async def test_enough_submits_make_a_second_call_and_no_third(crowd: Crowd) -> None:
    first = crowd.give(create(0))
    out = await crowd.port.next_call()
    tasks = [crowd.give(create(number)) for number in range(1, ENOUGH)]
    await turns()
    assert crowd.port.sizes == [1]
    tasks.append(crowd.give(create(ENOUGH)))
    await turns()
    tasks += [crowd.give(create(ENOUGH + number)) for number in range(1, 2 * ENOUGH)]
    await turns()
    assert crowd.port.sizes == [1, ENOUGH]
    out.answer()
    await crowd.port.answer_until([first, *tasks])
    assert [args for call in crowd.port.calls for args in call.items] == [create(each) for each in range(3 * ENOUGH)]


async def test_many_submits_are_halved_so_that_the_store_has_the_next_call(crowd: Crowd) -> None:
    tasks = await crowd.give_together([create(number) for number in range(2 * ENOUGH)])
    await turns()
    assert crowd.port.sizes == [1, ENOUGH, ENOUGH]
    await crowd.port.answer_until(tasks)


async def test_endings_have_one_call_at_a_time(crowd: Crowd) -> None:
    tasks = await crowd.give_together([complete(number) for number in range(3 * ENOUGH)])
    await turns()
    assert crowd.port.sizes == [1, 3 * ENOUGH]
    tasks += [crowd.give(complete(number)) for number in range(3 * ENOUGH, 6 * ENOUGH)]
    await turns()
    assert len(crowd.port.sizes) == 2
    await crowd.port.answer_until(tasks)


@pytest.mark.parametrize("make", [create, complete])
async def test_no_call_has_more_than_a_hundred_items_and_the_order_is_kept(
    crowd: Crowd, make: Callable[..., Any]
) -> None:
    given = [make(number) for number in range(350)]
    await crowd.port.answer_until([crowd.give(args) for args in given])
    assert PER_CALL == 100
    assert max(crowd.port.sizes) == crowd.gatherer.largest == 100
    assert [args for call in crowd.port.calls for args in call.items] == given
    assert (crowd.gatherer.calls, crowd.gatherer.items) == (len(crowd.port.calls), 350)
    assert crowd.gatherer.calls <= 7


@pytest.mark.parametrize("make", [create, complete])
async def test_big_payloads_share_a_call_only_up_to_its_size(crowd: Crowd, make: Callable[..., Any]) -> None:
    half, whole = b"x" * (PAYLOAD_BYTES_PER_CALL // 2), b"x" * PAYLOAD_BYTES_PER_CALL
    payloads = [half, half, b"x", whole, b"", b"x", b"x"]
    given = [make(at, payload=each) for at, each in enumerate(payloads)]
    await crowd.port.answer_until(await crowd.give_together(given))
    assert crowd.port.sizes == [1, 2, 1, 2, 2]


async def test_partitions_and_kinds_do_not_wait_for_each_other(crowd: Crowd) -> None:
    given = [create(1), create(2, partition=1), complete(3), complete(4, partition=1)]
    tasks = [crowd.give(args) for args in given]
    calls = [await crowd.port.next_call() for _ in given]
    assert [call.items for call in calls] == [[args] for args in given]
    for call in reversed(calls):
        call.answer()
    await asyncio.gather(*tasks)


async def test_endings_and_renewals_travel_together(crowd: Crowd) -> None:
    given = [renew(1), complete(2), renew(3), fail(4), complete(5)]
    results = await crowd.port.answer_until(await crowd.give_together(given))
    assert crowd.port.sizes == [1, 5]
    assert [done.args for done in results] == given


async def test_an_ending_does_not_overtake_the_renewal_before_it(crowd: Crowd) -> None:
    given = [renew(1), complete(2), complete(1), renew(2)]
    await crowd.port.answer_until(await crowd.give_together(given))
    assert [call.items for call in crowd.port.calls[1:]] == [[complete(2), renew(1)], [complete(1), renew(2)]]


async def test_a_refused_item_is_raised_to_its_own_caller_and_spoils_no_other(crowd: Crowd) -> None:
    tasks = await crowd.give_together([complete(1), fail(2), renew(3), complete(4)])
    refusals = {fail(2): StaleLease("two"), renew(3): StaleLease("three")}
    (await crowd.port.next_call()).answer(lambda args: refusals.get(args) or Done(args))
    one, two, three, four = [await outcome_of(task) for task in tasks]
    assert (one.args, four.args) == (complete(1), complete(4))
    assert (two, three) == tuple(refusals.values())


async def test_a_lost_call_reaches_each_of_its_callers_and_the_next_call_goes_on(crowd: Crowd) -> None:
    lost = await crowd.give_together([create(number) for number in range(3)])
    out = await crowd.port.next_call()
    later = crowd.give(create(3))
    await turns()
    error = BackendUnavailable("the connection broke", sent=True)
    out.lose(error)
    assert (await crowd.port.answer_until([later]))[0].args == create(3)
    raised = [await outcome_of(task) for task in lost]
    for each in raised:
        assert type(each) is BackendUnavailable
        assert (str(each), each.code, each.details) == (str(error), error.code, {"sent": True})
        assert each.__cause__ is error
    assert len({id(each) for each in raised}) == 3  # a traceback for each


@pytest.mark.parametrize("error", [InvalidInput("field", "value", "is wrong"), RuntimeError("a bug")])
async def test_whatever_a_call_raises_reaches_its_callers(crowd: Crowd, error: Exception) -> None:
    alone = crowd.give(complete(0))
    (await crowd.port.next_call()).lose(error)
    with pytest.raises(type(error), match=re.escape(str(error))):
        await alone
    tasks = await crowd.give_together([complete(1), renew(2)])
    (await crowd.port.next_call()).lose(error)
    for task in tasks:
        with pytest.raises(type(error), match=re.escape(str(error))):
            await task


async def test_a_store_that_answers_too_few_leaves_nobody_waiting() -> None:
    class Forgetful:
        async def submit_executions(self, batch: list[c.CreateExecutionArgs]) -> list[object]:
            return [Done(args) for args in batch[1:]]

        async def finish_executions(self, args: b.FinishExecutionsArgs) -> b.FinishExecutionsResult:
            return b.FinishExecutionsResult(finished=[], renewed=[], claimed=[])

    gatherer = Gatherer(cast("BatchPort", Forgetful()))
    submitted = await asyncio.gather(*(outcome_of(gatherer.submit(create(number))) for number in range(3)))
    assert [type(each) for each in submitted] == [BadReply] * 3
    assert isinstance(await outcome_of(gatherer.renew(renew(1))), Exception)


async def test_a_caller_that_leaves_before_its_item_is_sent_takes_it_out(crowd: Crowd) -> None:
    tasks = [crowd.give(create(0))]
    out = await crowd.port.next_call()
    tasks += [crowd.give(create(number)) for number in range(1, 4)]
    await turns()
    tasks[2].cancel()
    out.answer()
    await crowd.port.answer_until([tasks[0], tasks[1], tasks[3]])
    assert tasks[2].cancelled()
    assert [call.items for call in crowd.port.calls] == [[create(0)], [create(1), create(3)]]


async def test_nothing_is_sent_when_every_caller_has_left(crowd: Crowd) -> None:
    out_for = crowd.give(create(0))
    out = await crowd.port.next_call()
    waiting = [crowd.give(create(number)) for number in range(1, 4)]
    await turns()
    for task in waiting:
        task.cancel()
    out.answer()
    await out_for
    await crowd.gatherer.close()
    assert crowd.port.sizes == [1]


async def test_a_caller_that_leaves_after_sending_does_not_end_the_call(crowd: Crowd) -> None:
    leaving, staying = await crowd.give_together([create(1), create(2)])
    out = await crowd.port.next_call()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    out.answer()
    assert (await staying).args == create(2)
    assert crowd.port.sizes == [1, 2]


async def test_a_caller_that_leaves_its_own_call_leaves_nobody_in_line(crowd: Crowd) -> None:
    leaving = crowd.give(create(1))
    await crowd.port.next_call()
    staying = [crowd.give(create(2)), crowd.give(create(3))]
    await turns()
    leaving.cancel()
    await crowd.port.answer_until(staying)
    assert leaving.cancelled()
    assert crowd.port.sizes == [1, 2]
    await crowd.gatherer.close()


async def test_closing_waits_for_what_was_accepted_and_refuses_the_rest(crowd: Crowd) -> None:
    first = crowd.give(create(1))
    out = await crowd.port.next_call()
    second = crowd.give(create(2))
    await turns()
    closing = asyncio.create_task(crowd.gatherer.close())
    await turns()
    for args in (create(3), create(3, partition=9), complete(3), renew(3)):
        with pytest.raises(BackendUnavailable, match="the gatherer is closed") as refused:
            await asyncio.wait_for(crowd.give(args), 5)
        assert refused.value.details == {"sent": False}
    assert not closing.done()
    out.answer()
    await first
    assert not closing.done()
    await crowd.port.answer_until([second])
    await closing
    await crowd.gatherer.close()


async def test_no_task_lives_on_when_no_call_is_out(crowd: Crowd) -> None:
    alone = asyncio.all_tasks()
    tasks = [crowd.give(make(number)) for number in range(150) for make in (create, complete)]
    await crowd.port.answer_until(tasks)
    await turns()
    assert asyncio.all_tasks() == alone
    await crowd.gatherer.close()


async def test_callers_end_with_the_loop_that_cancels_the_call(crowd: Crowd) -> None:
    before = asyncio.all_tasks()
    (sent,) = await crowd.give_together([create(1)])
    await crowd.port.next_call()
    waiting = crowd.give(create(2))
    await turns()
    (serving,) = asyncio.all_tasks() - before - {sent, waiting}
    serving.cancel()
    await asyncio.wait([sent, waiting])
    assert (sent.cancelled(), waiting.cancelled()) == (True, True)
    assert (await crowd.port.answer_until([crowd.give(create(3))]))[0].args == create(3)


GIVE = st.tuples(
    st.just("give"), st.sampled_from([create, complete, fail, renew]), st.integers(0, 3), st.integers(0, 1)
)
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 50))
ANSWER = st.tuples(st.sampled_from(["answer", "lose"]), st.integers(0, 3))


@given(st.lists(GIVE | GIVE | CANCEL | ANSWER | st.just(("turns",)), max_size=60), st.integers(1, 5))
@settings(max_examples=examples(100, soak=5_000), deadline=None)
def test_every_item_has_exactly_its_own_outcome(steps: list[tuple[Any, ...]], per_call: int) -> None:
    with patch.object(batching, "PER_CALL", per_call), patch.object(batching, "ENOUGH", 3):
        asyncio.run(_tell(steps, per_call))


async def _tell(steps: list[tuple[Any, ...]], per_call: int) -> None:
    crowd = Crowd()
    given: list[Any] = []
    tasks: list[asyncio.Task[Any]] = []
    lost: dict[int, FlowFabricError] = {}
    for step in steps:
        match step:
            case ("give", make, number, partition):
                given.append(make(number, partition))
                tasks.append(crowd.give(given[-1]))
            case ("cancel", at) if at < len(tasks):
                tasks[at].cancel()
            case ("answer" | "lose" as how, at):
                await turns()
                _end(crowd.port, at, lost if how == "lose" else None)
            case ("turns",):
                await turns()
    outcomes = await _finish(crowd, tasks, per_call)
    _check(crowd.port, given, outcomes, lost)


def _end(port: HeldPort, at: int, lost: dict[int, FlowFabricError] | None) -> None:
    """Answer one of the calls that are out: some items are refused, or the whole call is lost."""
    out = [call for call in port.calls if not call.reply.done()]
    if at >= len(out):
        return
    if lost is None:
        refused = execution_id(0).uuid
        out[at].answer(lambda args: StaleLease(item=id(args)) if args.execution_id.uuid == refused else Done(args))
        return
    error = BackendUnavailable("lost", sent=True)
    lost.update({id(args): error for args in out[at].items})
    out[at].lose(error)


async def _finish(crowd: Crowd, tasks: list[asyncio.Task[Any]], per_call: int) -> list[Any]:
    closing = asyncio.create_task(asyncio.wait(tasks)) if tasks else None
    while closing and not closing.done():
        await turns()
        out = [call for call in crowd.port.calls if not call.reply.done()]
        places = [call.place for call in out]
        assert all(places.count(place) == 1 for place in places if place[0] == "finish")
        assert all(places.count(place) <= 2 for place in places)
        _end(crowd.port, 0, None)
    assert max(crowd.port.sizes, default=0) == crowd.gatherer.largest <= per_call
    await crowd.gatherer.close()
    return [await outcome_of(task) if not task.cancelled() else None for task in tasks]


def _check(port: HeldPort, given: list[Any], outcomes: list[Any], lost: dict[int, FlowFabricError]) -> None:
    sent = [args for call in port.calls for args in call.items]
    assert len({id(args) for args in sent}) == len(sent)
    for args, outcome in zip(given, outcomes, strict=True):
        if outcome is None:
            continue  # its caller left, whether it was sent or not
        assert any(args is each for each in sent)
        if isinstance(outcome, BackendUnavailable):
            assert lost[id(args)] in (outcome, outcome.__cause__)
        elif isinstance(outcome, StaleLease):
            assert outcome.details == {"item": id(args)}
        else:
            assert outcome.args is args
    _check_order(port, given)


def _check_order(port: HeldPort, given: list[Any]) -> None:
    """From call to call as given; within one, endings come before renewals, never of the same execution."""
    position = {id(args): at for at, args in enumerate(given)}
    last: dict[tuple[str, str], int] = defaultdict(lambda: -1)
    for call in port.calls:
        places = [position[id(args)] for args in call.items]
        assert min(places) > last[call.place]
        last[call.place] = max(places)
        for renewal in (args for args in call.items if isinstance(args, c.RenewLeaseArgs)):
            for args in call.items:
                if args.execution_id == renewal.execution_id and not isinstance(args, c.RenewLeaseArgs):
                    assert position[id(args)] < position[id(renewal)]

"""Fabric and handles on a real store. A worker is played by hand: claim, run the task's function, complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
import pytest
from pydantic import BaseModel

from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.client.fabric import Fabric
from flowfabric.client.failures import ExecutionCancelled, ExecutionExpired, ExecutionFailed, ExecutionSkipped
from flowfabric.client.handle import Handle
from flowfabric.client.tasks.task import Call, named, task
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import ExecutionId, LaneId, WorkerId, WorkerInstanceId
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.states import LaneState, PublicState
from flowfabric.errors import (
    BackendUnavailable,
    Conflict,
    ExecutionNotActive,
    ExecutionNotFound,
    Family,
    FlowFabricError,
    InvalidInput,
)
from flowfabric.testing import ManualClock
from tests.valkey.probe import open_clean

T = TypeVar("T")

PATIENCE = 30


@dataclass
class Report:
    topic: str
    pages: int


class Order(BaseModel):
    number: int
    at: datetime


@task(lane="agents")
async def research(topic: str, pages: int = 1) -> Report:
    return Report(topic, pages)


@task(lane="agents")
def ship(order: Order) -> Order:
    return order.model_copy(update={"number": order.number + 1})


@task(lane="agents")
def nothing() -> None: ...


class HandWorker:
    """Claims what waits and ends it as it is told."""

    def __init__(self, backend: ValkeyBackend, clock: ManualClock) -> None:
        self.backend, self.clock = backend, clock

    async def claim(self, lane: str = "agents", **capabilities: Any) -> b.ClaimedWork:
        (claimed,) = await self.backend.claim_executions(
            b.ClaimExecutionsArgs(
                lane_id=LaneId(lane),
                worker_id=WorkerId("hand"),
                worker_instance_id=WorkerInstanceId("hand-1"),
                lease_ttl_ms=30_000,
                **capabilities,
            )
        )
        assert isinstance(claimed, b.ClaimedWork)
        return claimed

    async def complete(self, work: b.ClaimedWork, payload: bytes | None, encoding: str | None = "json") -> None:
        await self.backend.complete_execution(
            c.CompleteExecutionArgs(
                execution_id=work.claim.execution_id,
                fence=work.claim.fence,
                result_payload=payload,
                result_encoding=encoding,
            )
        )

    async def run(self, lane: str = "agents") -> None:
        work = await self.claim(lane)
        (known,) = [each for each in (research, ship, nothing) if each.name == work.execution_kind]
        args, kwargs = known.decode_arguments(work.input_payload)
        value = known(*args, **kwargs)
        await self.complete(work, known.encode_result(await value if isinstance(value, Awaitable) else value))

    async def fail(self, reason: str = "boom", category: str = "transient") -> None:
        work = await self.claim()
        await self.backend.fail_execution(
            c.FailExecutionArgs(
                execution_id=work.claim.execution_id,
                fence=work.claim.fence,
                failure_reason=reason,
                failure_category=category,
            )
        )


@pytest.fixture
async def backend(embedded_url: str) -> AsyncIterator[ValkeyBackend]:
    opened = await open_clean(embedded_url)
    yield opened
    await opened.close()


@pytest.fixture
async def worker(backend: ValkeyBackend) -> HandWorker:
    return HandWorker(backend, await ManualClock.start(backend.client))


@pytest.fixture
async def fabric(backend: ValkeyBackend, worker: HandWorker) -> Fabric:
    return Fabric(backend, namespace="acme", creator="tests")


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, PATIENCE)


async def test_a_submitted_task_comes_back_with_its_typed_result(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "tides", pages=3)
    waiting = asyncio.create_task(handle.result(timeout=PATIENCE))
    await worker.run()
    assert await soon(waiting) == Report("tides", 3)
    assert await soon(handle) == Report("tides", 3)
    assert handle.submission == "created"


async def test_models_go_both_ways(fabric: Fabric, worker: HandWorker) -> None:
    order = Order(number=1, at=datetime(2030, 1, 1, tzinfo=UTC))
    handle = await fabric.submit(ship, order)
    await worker.run()
    assert await soon(handle) == Order(number=2, at=order.at)


async def test_what_is_submitted_is_what_the_store_has(fabric: Fabric, worker: HandWorker) -> None:
    urgent = research.with_options(
        priority=7, tags={"team.name": "red"}, capabilities={"gpu"}, retry=2, timeout=5, idempotency_key="k"
    )
    handle = await fabric.submit(urgent, "tides")
    info, snapshot = await fabric.backend.get_execution(handle.id), await handle.describe()
    assert info is not None
    assert (info.namespace, info.lane_id, info.execution_kind, info.priority) == ("acme", "agents", "research", 7)
    assert snapshot.tags == {"team.name": "red"}
    work = await worker.claim(worker_capabilities=("gpu",))
    assert (work.input_payload, work.payload_encoding) == (b'{"args":["tides"],"kwargs":{}}', "json")
    assert handle.id == work.claim.execution_id


async def test_a_task_can_be_submitted_by_its_name_with_options_beside_its_arguments(
    fabric: Fabric, worker: HandWorker
) -> None:
    handle = await fabric.submit("research", "tides", pages=2, lane="agents", priority=3)
    info = await fabric.backend.get_execution(handle.id)
    assert info is not None
    assert (info.priority, info.lane_id) == (3, "agents")
    await worker.run()
    assert await soon(handle) == {"topic": "tides", "pages": 2}


async def test_an_argument_called_like_an_option_goes_through_a_named_task(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(named("sort", lane="agents"), priority="by age")
    work = await worker.claim()
    assert work.input_payload == b'{"args":[],"kwargs":{"priority":"by age"}}'
    assert work.claim.execution_id == handle.id


async def test_the_same_key_meets_the_earlier_execution(fabric: Fabric) -> None:
    first = await fabric.submit(research.with_options(idempotency_key="tides-1"), "tides")
    again = await fabric.submit(research.with_options(idempotency_key="tides-1"), "other")
    assert (again.id, again.submission) == (first.id, "duplicate")


async def test_a_key_meets_its_execution_in_its_shard(backend: ValkeyBackend) -> None:
    backend.partitions = PartitionConfig(lane_shards=8)
    fabric = Fabric(backend)
    keyed = [research.with_options(idempotency_key=f"k{number}") for number in range(20)]
    first = [(await fabric.submit(each, "x")).id for each in keyed]
    assert [(await fabric.submit(each, "x")).id for each in keyed] == first
    unkeyed = {(await fabric.submit(research, "x")).id.tag for _ in range(50)}
    assert len({each.tag for each in first}) > 1
    assert len(unkeyed) > 1


async def test_a_delay_is_a_duration_or_a_moment(fabric: Fabric, worker: HandWorker) -> None:
    now = worker.clock.now_ms
    moment = datetime.fromtimestamp(now / 1000, UTC) + timedelta(hours=1)
    for delay, until in ((2.5, now + 2_500), (timedelta(minutes=1), now + 60_000), (moment, now + 3_600_000)):
        handle = await fabric.submit(research.with_options(delay=delay), "x")
        snapshot = await handle.describe()
        assert (snapshot.public_state, snapshot.delay_until) == ("delayed", until)


@pytest.mark.parametrize("as_moment", [False, True])
async def test_an_execution_past_its_deadline_raises(fabric: Fabric, worker: HandWorker, as_moment: bool) -> None:
    moment = datetime.fromtimestamp(worker.clock.now_ms / 1000, UTC) + timedelta(minutes=1)
    handle = await fabric.submit(research.with_options(deadline=moment if as_moment else 60), "x")
    await worker.clock.advance(60_000)
    expire = c.ExpireExecutionArgs(execution_id=handle.id, expire_reason=c.ExpireReason.EXECUTION_DEADLINE)
    assert isinstance(await fabric.backend.expire_execution(expire), c.ExecutionExpired)
    with pytest.raises(ExecutionExpired, match=r"research .* passed its deadline after 0 attempts"):
        await soon(handle)


async def test_a_failed_execution_raises_with_reason_category_and_attempts(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research.with_options(retry=1), "x")
    await worker.fail("first")
    await worker.clock.advance(3_600_000)
    await fabric.backend.promote_delayed(c.PromoteDelayedArgs(execution_id=handle.id))
    await worker.fail("model overloaded", "provider")
    with pytest.raises(ExecutionFailed) as caught:
        await soon(handle)
    error = caught.value
    assert (error.reason, error.category, error.attempts) == ("model overloaded", "provider", 2)
    assert (error.execution_id, error.task, error.code) == (handle.id, "research", "execution_failed")
    assert (
        str(error)
        == f"execution_failed: research {handle.id.short} failed after 2 attempts: provider: model overloaded"
    )
    assert isinstance(error, FlowFabricError)
    assert (error.family, error.retryable) == (Family.CONFLICT, False)
    assert [each.failure_reason for each in await handle.attempts()] == ["first", "model overloaded"]


async def test_a_cancelled_execution_raises(fabric: Fabric) -> None:
    handle = await fabric.submit(research, "x")
    waiting = asyncio.create_task(handle.result())
    await handle.cancel("not needed")
    with pytest.raises(ExecutionCancelled, match="was cancelled"):
        await soon(waiting)
    await handle.cancel("again")


async def test_what_has_ended_otherwise_is_not_cancelled(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    await worker.run()
    with pytest.raises(ExecutionNotActive) as caught:
        await handle.cancel()
    assert caught.value.details["terminal_outcome"] == "success"


async def test_a_skipped_execution_raises(fabric: Fabric) -> None:
    """Nothing skips yet, so the store says it did."""
    handle = await fabric.submit(research, "x")

    class Skipping:
        async def wait_for_execution(self, *_: object, **__: object) -> str:
            return "skipped"

        async def describe_execution(self, execution_id: ExecutionId) -> c.ExecutionSnapshot:
            real = await fabric.backend.describe_execution(execution_id)
            assert real is not None
            return msgspec.structs.replace(real, public_state=PublicState.SKIPPED)

    with pytest.raises(ExecutionSkipped, match="was skipped"):
        await Handle(Skipping(), handle.id, research).result()  # type: ignore[arg-type]


async def test_a_result_that_takes_too_long_is_a_timeout_and_nothing_is_lost(
    fabric: Fabric, worker: HandWorker
) -> None:
    handle = await fabric.submit(research, "x")
    with pytest.raises(TimeoutError, match=r"is still waiting after 0\.01 seconds; it continues"):
        await handle.result(timeout=0.01)
    with pytest.raises(TimeoutError, match=r"is still waiting after 0\.01 seconds"):
        await handle.wait(timeout=timedelta(milliseconds=10))
    await worker.run()
    assert await handle.wait(timeout=0) == "completed"
    assert await handle.result(timeout=0) == Report("x", 1)


async def test_a_result_waits_for_the_replay_that_came_between(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    await worker.run()

    class Replayed:
        """A store where a replay comes after the first look at the state."""

        looks = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(fabric.backend, name)

        async def wait_for_execution(self, execution_id: ExecutionId, *, timeout_ms: int) -> Any:
            self.looks += 1
            state = await fabric.backend.wait_for_execution(execution_id, timeout_ms=timeout_ms)
            if self.looks == 1:
                await handle.replay()
            return state

    waiting = asyncio.create_task(Handle(Replayed(), handle.id, research).result())
    async for event in handle.events():
        if event.event == "replayed":
            await worker.run()
    assert await soon(waiting) == Report("x", 1)


async def test_a_task_without_a_value_has_the_result_none(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(nothing)
    await worker.run()
    assert await soon(handle) is None
    by_hand = await fabric.submit(research, "x")
    await worker.complete(await worker.claim(), None, None)
    assert await soon(by_hand) is None


async def test_a_result_in_another_encoding_is_left_as_bytes(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    assert await handle.raw_result() is None
    await worker.complete(await worker.claim(), b"\x00raw", "application/octet-stream")
    with pytest.raises(InvalidInput, match="result_encoding: must be 'json' to be decoded"):
        await soon(handle)
    found = await handle.raw_result()
    assert found is not None
    assert (found.payload, found.encoding) == (b"\x00raw", "application/octet-stream")


@pytest.mark.parametrize(
    ("left", "read"),
    [(b'{"ok":true}', {"ok": True}), (b"42", 42), (b"plain text", "plain text"), (b"\xff\x00", b"\xff\x00")],
)
async def test_a_result_without_an_encoding_is_json_or_text(
    fabric: Fabric, worker: HandWorker, left: bytes, read: object
) -> None:
    submitted = await fabric.submit(research, "x")
    await worker.complete(await worker.claim(), left, None)
    assert await soon(fabric.handle(submitted.id)) == read


async def test_a_result_without_an_encoding_has_the_type_of_its_task(fabric: Fabric, worker: HandWorker) -> None:
    for left in (b'{"topic":"x","pages":3}', b"plain text"):
        handle = await fabric.submit(research, "x")
        await worker.complete(await worker.claim(), left, None)
        if left == b"plain text":
            with pytest.raises(InvalidInput, match="result of research"):
                await soon(handle)
        else:
            assert await soon(handle) == Report("x", 3)


async def test_a_result_of_another_type_is_refused_with_its_place(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    await worker.complete(await worker.claim(), b'{"topic":"x","pages":"many"}')
    with pytest.raises(InvalidInput, match=r"result of research\.pages"):
        await soon(handle)


async def test_a_handle_is_made_from_an_id_anywhere(fabric: Fabric, worker: HandWorker) -> None:
    submitted = await fabric.submit(research, "x")
    await worker.run()
    assert await soon(fabric.handle(str(submitted.id), research)) == Report("x", 1)
    assert await soon(fabric.handle(submitted.id)) == {"topic": "x", "pages": 1}
    assert repr(fabric.handle(submitted.id, research)) == f"Handle('research', '{submitted.id.short}')"


async def test_an_execution_that_is_not_there_is_not_found(fabric: Fabric) -> None:
    handle = fabric.handle(ExecutionId.for_lane(LaneId("agents"), fabric.backend.partitions))
    for question in (handle.status, handle.describe, handle.result, handle.wait):
        with pytest.raises(ExecutionNotFound):
            await question()
    with pytest.raises(InvalidInput, match="execution_id"):
        fabric.handle("nonsense")


async def test_progress_and_events_show_what_happens(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    assert (await handle.describe()).progress_pct is None
    work = await worker.claim()
    await fabric.backend.update_progress(
        c.UpdateProgressArgs(
            execution_id=handle.id, fence=work.claim.fence, progress_pct=40, progress_message="reading"
        )
    )
    snapshot = await handle.describe()
    assert (snapshot.progress_pct, snapshot.progress_message) == (40, "reading")
    await worker.complete(work, b"null")
    seen = [event async for event in handle.events()]
    assert [event.event for event in seen] == ["created", "claimed", "progress", "completed"]
    assert [event.event async for event in handle.events(cursor=seen[1].cursor)] == ["progress", "completed"]
    assert [event.event for event in (await handle.history(limit=1)).events] == ["created"]


async def test_a_handle_steers_its_execution(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research.with_options(tags={"team.a": "1"}), "x")
    await handle.change(priority=9, tags={"team.b": "2"})
    info = await fabric.backend.get_execution(handle.id)
    assert info is not None
    assert (info.priority, (await handle.describe()).tags) == (9, {"team.a": "1", "team.b": "2"})
    await handle.cancel()
    await handle.retry()
    assert await handle.status() == "waiting"
    await worker.run()
    await handle.replay()
    assert await handle.status() == "waiting"


async def test_a_change_that_is_refused_changes_nothing(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    await worker.run()
    with pytest.raises(Conflict, match="change_priority"):
        await handle.change(priority=9, tags={"team.b": "2"})
    with pytest.raises(InvalidInput, match="tags"):
        await handle.change(priority=9, tags={})
    with pytest.raises(InvalidInput, match="give a priority, tags or both"):
        await handle.change()
    assert (await handle.describe()).tags == {}


async def test_many_go_in_order_and_each_has_its_outcome(fabric: Fabric) -> None:
    keyed = research.with_options(idempotency_key="same")
    outcomes = await fabric.submit_many([research.call("a"), keyed.call("b"), keyed.call("c"), ship.call(ORDER)])
    handles = [each for each in outcomes if isinstance(each, Handle)]
    assert [each.submission for each in handles] == ["created", "created", "duplicate", "created"]
    assert handles[1].id == handles[2].id
    infos = [await fabric.backend.get_execution(each.id) for each in handles]
    assert [info and info.execution_kind for info in infos] == ["research", "research", "research", "ship"]


ORDER = Order(number=1, at=datetime(2030, 1, 1, tzinfo=UTC))


async def test_first_submitted_is_first_claimed(fabric: Fabric) -> None:
    """A whole bulk has the same millisecond; its ids sort as they were submitted."""
    sent = [each.id for each in await fabric.submit_many(research, [("a",)] * 150) if isinstance(each, Handle)]
    sent += [(await fabric.submit(research, "b")).id for _ in range(3)]
    claim = b.ClaimExecutionsArgs(
        lane_id=LaneId("agents"), worker_id=WorkerId("w"), worker_instance_id=WorkerInstanceId("w"), lease_ttl_ms=1_000,
        count=200,
    )  # fmt: skip
    claimed = await fabric.backend.claim_executions(claim)
    assert [work.claim.execution_id for work in claimed if isinstance(work, b.ClaimedWork)] == sent


async def test_more_than_a_portion_all_arrive(fabric: Fabric) -> None:
    outcomes = await fabric.submit_many(research, [(f"topic {number}",) for number in range(2_345)])
    ids = {each.id for each in outcomes if isinstance(each, Handle)}
    assert len(ids) == 2_345
    (counts,) = await fabric.counts("agents")
    assert counts.counts == {"waiting": 2_345}
    assert await fabric.submit_many([]) == []


async def test_a_wrong_call_among_many_sends_none(fabric: Fabric) -> None:
    with pytest.raises(InvalidInput, match=r"calls\[2\]\.pages: Expected `int`, got `str`"):
        await fabric.submit_many(research, [("a", 1), ("b", 2), ("c", "three")])
    with pytest.raises(InvalidInput, match=r"calls\[1\]: must be a tuple"):
        await fabric.submit_many(research, [("a",), "b"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match=r"calls\[0\]: must be made with task\.call"):
        await fabric.submit_many([("a",)])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="payload: must be at most"):
        await fabric.submit_many(Call(research, b"x" * size) for size in (1, 2_000_000))
    assert await fabric.counts() == []


async def test_what_the_store_refuses_spoils_no_other(fabric: Fabric) -> None:
    class Picky:
        """A store that is away every other time."""

        partitions = fabric.backend.partitions
        calls = 0

        async def submit_executions(self, batch: list[c.CreateExecutionArgs]) -> list[b.SubmitOutcome]:
            self.calls += 1
            if self.calls % 2:
                raise BackendUnavailable("gone")
            return await fabric.backend.submit_executions(batch)

    outcomes = await Fabric(Picky()).submit_many(research, [("x",)] * 1_000)  # type: ignore[arg-type]
    refused = [each for each in outcomes if isinstance(each, FlowFabricError)]
    assert len(refused) == 500
    (counts,) = await fabric.counts("agents")
    assert counts.total == 500


async def test_submissions_at_the_same_time_share_a_call(backend: ValkeyBackend, fabric: Fabric) -> None:
    sizes: list[int] = []
    submit = backend.submit_executions

    async def counted(batch: Any) -> Any:
        sizes.append(len(batch))
        return await submit(batch)

    backend.submit_executions = counted  # type: ignore[method-assign]
    handles = await asyncio.gather(*(Fabric(backend).submit(research, "alone") for _ in range(3)))
    assert sizes == [1, 1, 1]
    shared = Fabric(backend)
    handles += await asyncio.gather(*(shared.submit(research, f"{number}") for number in range(100)))
    assert len({handle.id for handle in handles}) == 103
    assert len(sizes) < 10


@pytest.mark.parametrize("wrong", [research.function, None, 3])
async def test_what_is_no_task_is_refused(fabric: Fabric, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="task: must be a task"):
        await fabric.submit(wrong, "x")
    with pytest.raises(InvalidInput, match="task: must be a task"):
        await fabric.submit_many(wrong, [("x",)])


async def test_lists_counts_and_events_take_the_words_of_the_client(fabric: Fabric, worker: HandWorker) -> None:
    first = await fabric.submit(research.with_options(tags={"team.a": "1"}), "x")
    second = await fabric.submit(ship.with_options(lane="post"), ORDER)
    now = datetime.fromtimestamp(worker.clock.now_ms / 1000, UTC)

    async def listed(**filters: Any) -> list[str]:
        return [each.execution_id for each in (await fabric.list(**filters)).executions]

    assert set(await listed()) == {first.id, second.id}
    assert await listed(task=research) == await listed(task="research") == [first.id]
    assert await listed(lane="post", state="waiting", namespace="acme") == [second.id]
    assert await listed(tags={"team.a": "1"}) == [first.id]
    assert set(await listed(created_since=now, order="oldest")) == {first.id, second.id}
    assert await listed(created_until=now) == []
    page = await fabric.events(lane="post", kinds=["created"], task=ship, namespace="acme")
    assert [event.execution_id for event in page.events] == [second.id]
    assert [counts.lane_id for counts in await fabric.counts()] == ["agents", "post"]
    with pytest.raises(InvalidInput, match="created_since: must have a time zone"):
        await fabric.list(created_since=datetime(2030, 1, 1))
    with pytest.raises(InvalidInput, match="public_state: must be one of"):
        await fabric.list(state="happy")


async def test_options_that_contradict_each_other_send_nothing(fabric: Fabric) -> None:
    bouncing = research.with_options(on_duplicate="debounce", idempotency_key="k")
    for submission in (fabric.submit(bouncing, "x"), fabric.submit_many([research.call("a"), bouncing.call("b")])):
        with pytest.raises(InvalidInput, match="delay_ms: must be set with on_duplicate debounce"):
            await submission
    assert await fabric.counts() == []


async def test_a_key_that_was_used_can_be_refused_or_given_new_content(fabric: Fabric, worker: HandWorker) -> None:
    once = research.with_options(idempotency_key="k")
    first = await fabric.submit(once, "old")
    with pytest.raises(Conflict):
        await fabric.submit(once.with_options(on_duplicate="reject"), "new")
    replaced = await fabric.submit(once.with_options(on_duplicate="replace_while_waiting"), "new")
    assert (replaced.id, replaced.submission) == (first.id, "replaced")
    await worker.run()
    assert await soon(first) == Report("new", 1)


async def test_a_burst_with_one_key_runs_once_after_it_has_calmed_down(fabric: Fabric, worker: HandWorker) -> None:
    calm = research.with_options(idempotency_key="k", on_duplicate="debounce", delay=5)
    first = await fabric.submit(calm, "a")
    await worker.clock.advance(4_000)
    second = await fabric.submit(calm, "b")
    assert second.id == first.id
    assert (await first.describe()).delay_until == worker.clock.now_ms + 5_000


async def test_executions_of_one_concurrency_key_share_a_shard(backend: ValkeyBackend) -> None:
    backend.partitions = PartitionConfig(lane_shards=8)
    fabric = Fabric(backend)
    keyed = research.with_options(concurrency_key="customer-1")
    assert len({(await fabric.submit(keyed, f"{number}")).id.tag for number in range(20)}) == 1


async def test_a_lane_can_be_configured_and_described(fabric: Fabric) -> None:
    await fabric.submit(research, "x")
    await fabric.configure_lane("agents", max_concurrency=4, ageing=timedelta(seconds=30))
    settings = await fabric.describe_lane("agents")
    assert (settings.max_concurrency, settings.key_concurrency, settings.ageing_ms_per_priority) == (4, None, 30_000)
    assert (await fabric.lanes()).lanes == ("agents",)


async def test_an_execution_is_explained(fabric: Fabric) -> None:
    handle = await fabric.submit(research.with_options(capabilities={"gpu"}), "x")
    explained = await fabric.explain(handle.id)
    assert explained.required_capabilities == ("gpu",)
    assert explained.execution_id == handle.id


async def test_workers_are_listed(fabric: Fabric) -> None:
    assert (await fabric.workers()).workers == ()


async def test_a_lane_can_be_paused_drained_and_resumed(fabric: Fabric, backend: ValkeyBackend) -> None:
    states: list[tuple[str, LaneState]] = []
    set_lane_state = backend.set_lane_state

    async def noted(args: c.SetLaneStateArgs) -> Any:
        states.append((args.lane_id, args.state))
        return await set_lane_state(args)

    backend.set_lane_state = noted  # type: ignore[method-assign]
    await fabric.pause_lane("agents")
    await fabric.drain_lane("agents")
    await fabric.resume_lane("agents")
    assert states == [("agents", "paused"), ("agents", "draining"), ("agents", "active")]


async def test_what_is_finished_can_be_trimmed(fabric: Fabric, worker: HandWorker) -> None:
    handle = await fabric.submit(research, "x")
    await worker.run()
    await worker.clock.advance(3_600_000)
    assert (await fabric.trim(older_than=timedelta(hours=2))).deleted == 0
    assert (await fabric.trim(older_than=1_800, lane="agents")).deleted == 1
    with pytest.raises(ExecutionNotFound):
        await handle.status()


async def test_a_fabric_connects_by_url_and_settings_and_closes_once(tmp_path: Any) -> None:
    url = f"embedded://{tmp_path}"
    async with Fabric.connect(url, namespace="acme") as fabric, Fabric.connect(Settings(url=url)) as other:
        handle = await fabric.submit(research, "x")
        assert await other.handle(handle.id).status() == "waiting"
    await fabric.close()
    with pytest.raises(BackendUnavailable):
        await fabric.submit(research, "x")
    with pytest.raises(BackendUnavailable):
        await handle.status()


async def test_a_bad_namespace_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(InvalidInput, match="namespace"):
        await Fabric.open("valkey://nowhere.invalid", namespace="")


async def test_until_success_a_missed_execution_frees_its_key(fabric: Fabric) -> None:
    once = research.with_options(idempotency_key="until", idempotency="until_success", delay=60)
    first = await fabric.submit(once, "old")
    assert (await fabric.submit(once, "again")).id == first.id
    await first.cancel()
    second = await fabric.submit(once, "new")
    assert (second.id != first.id, second.submission) == (True, "created")
    options = {"lane": once.options.lane, "idempotency_key": "until", "idempotency": "until_success", "delay": 60}
    by_name = await fabric.submit("research", "new", **options)
    assert (by_name.id, by_name.submission) == (second.id, "duplicate")


def test_until_success_needs_a_key_and_no_other_mode() -> None:
    with pytest.raises(InvalidInput, match="idempotency: cannot be combined with on_duplicate reject"):
        research.with_options(idempotency_key="k", idempotency="until_success", on_duplicate="reject")
    with pytest.raises(InvalidInput, match="idempotency: must be one of always, until_success"):
        research.with_options(idempotency="never")  # type: ignore[arg-type]

"""One worker with a gpu and nine without: who needs it waits for nobody, and nothing is parked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import pytest

from flowfabric import Engine, open_backend
from flowfabric.backends.ports import EngineBackend
from flowfabric.client.tasks.task import Task, task
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId
from flowfabric.core.states import PublicState
from flowfabric.worker import Worker
from tests.soaking import tell
from tests.working import ENDS_WITHIN_MS, Store, clean_store, submit

PLAIN_WORKERS = 9
SLOTS = 4
EXECUTIONS = 1_000
EVERY_TENTH = 10  # needs a gpu
PER_SECOND = 250  # far less than the workers can do
BACKLOG = 1_000


@task
async def plain() -> None:
    await asyncio.sleep(0)


render: Task[[], None] = plain.with_options(capabilities={"gpu"})


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[EngineBackend]:
    """A store with the time of day."""
    opened = await open_backend(f"embedded://{tmp_path}")
    yield opened
    await opened.close()


def gpu_worker(concurrency: int) -> Worker:
    worker = Worker(capabilities={"gpu"}, concurrency=concurrency)
    worker.add(plain)
    return worker


def plain_workers(count: int = PLAIN_WORKERS) -> list[Worker]:
    workers = [Worker(concurrency=SLOTS) for _ in range(count)]
    for worker in workers:
        worker.add(plain)
    return workers


async def submit_mixed(backend: EngineBackend) -> tuple[list[ExecutionId], list[ExecutionId]]:
    """One after the other, at a pace that leaves the workers idle most of the time; those with a gpu and the rest."""
    loop = asyncio.get_running_loop()
    start, with_gpu, rest = loop.time(), [], []  # type: ignore[var-annotated]
    for number in range(EXECUTIONS):
        await asyncio.sleep(start + number / PER_SECOND - loop.time())
        needs_gpu = number % EVERY_TENTH == 0
        (with_gpu if needs_gpu else rest).append(await submit(backend, render if needs_gpu else plain))
    return with_gpu, rest


async def read_all_events(backend: EngineBackend) -> list[c.Event]:
    events, cursor, more = [], None, True  # type: ignore[var-annotated]
    while more:
        page = await backend.read_events(c.ReadEventsArgs(cursor=cursor, limit=1_000))
        assert not page.truncated
        events += page.events
        cursor, more = page.cursor, page.more
    return events


async def test_work_that_needs_a_gpu_starts_as_soon_as_the_rest(
    backend: EngineBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    special, others = gpu_worker(concurrency=SLOTS), plain_workers()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Engine(backend))
        for worker in (*others, special):
            await stack.enter_async_context(worker.working(f"embedded://{tmp_path}"))
        with_gpu, rest = await submit_mixed(backend)
        for execution_id in (*with_gpu, *rest):
            state = await backend.wait_for_execution(execution_id, timeout_ms=ENDS_WITHIN_MS)
            assert state is PublicState.COMPLETED
    events = await read_all_events(backend)
    assert {event.event for event in events} == {"created", "claimed", "completed"}, "nothing was parked or repeated"
    gpu_ms, rest_ms = waits(events, with_gpu), waits(events, rest)
    tell(capsys, f"from submission to claim: {summary('gpu', gpu_ms)}; {summary('the rest', rest_ms)}")
    # Ten workers race for the rest, so the first of ten is compared with the only one.
    assert median(gpu_ms) <= 3 * median(rest_ms) + 10


def waits(events: Sequence[c.Event], ids: Sequence[ExecutionId]) -> list[int]:
    """How long each waited from its submission to its claim, by the store's clock; the shortest first."""
    at_ms = {(event.execution_id, event.event): event.at_ms for event in events}
    return sorted(at_ms[each, "claimed"] - at_ms[each, "created"] for each in ids)


def summary(name: str, ms: Sequence[int]) -> str:
    return f"{len(ms)} of {name}: median {median(ms)} ms, p99 {ms[len(ms) * 99 // 100]} ms, most {ms[-1]} ms"


async def claim_order(store: Store) -> list[ExecutionId]:
    page = await store.backend.read_events(c.ReadEventsArgs(events=("claimed",), limit=1_000))  # type: ignore[arg-type]
    return [event.execution_id for event in page.events]  # type: ignore[misc]


async def test_who_has_a_gpu_takes_everything_by_age(store: Store) -> None:
    """What needs it is never overtaken by younger work, nor the other way round."""
    ids = []
    for number in range(60):
        ids.append(await store.submit(render if number % 7 == 0 else plain))
        await store.clock.advance(1)
    async with gpu_worker(concurrency=1).working(store.backend):
        await store.ended(ids[-1])
    assert await claim_order(store) == ids


async def test_the_next_claim_finds_what_needs_it_behind_a_thousand_others(store: Store) -> None:
    """The plain workers have all they can run, and a thousand more wait; what comes last needs a gpu, and is urgent."""
    gate, others, special = asyncio.Event(), plain_workers(), gpu_worker(concurrency=2)

    @task
    async def hold() -> None:
        await gate.wait()

    async with AsyncExitStack() as stack:
        for worker in others:
            worker.add(hold)
            await stack.enter_async_context(worker.working(store.backend))
        for execution_id in await store.submit_many(hold, PLAIN_WORKERS * SLOTS):
            await store.until_state(execution_id, "active")
        await store.submit_many(plain, BACKLOG)
        await store.clock.advance(1)
        urgent = await store.submit_many(render, 2, priority=1)
        claimed_before = len(await claim_order(store))
        await stack.enter_async_context(special.working(store.backend))
        for execution_id in urgent:
            assert await store.ended(execution_id) == "completed"
        assert sorted((await claim_order(store))[claimed_before:][:2]) == sorted(urgent)
        gate.set()


async def test_what_others_need_hides_nothing_from_who_has_it_not(store: Store) -> None:
    waiting = await store.submit_many(render, BACKLOG)
    await store.clock.advance(1)
    (last,) = await store.submit_many(plain, 1)
    (worker,) = plain_workers(1)
    async with worker.working(store.backend):
        assert await store.ended(last) == "completed"
        await worker.idle()
    assert await claim_order(store) == [last]
    assert worker.stats.calls <= 3, "a claim, and an ending with the next claim"
    assert {(await store.snapshot(each)).public_state for each in waiting[:10]} == {"waiting"}
    assert (await store.backend.read_events(c.ReadEventsArgs(events=("blocked",)))).events == ()  # type: ignore[arg-type]

"""A worker process that is told to stop: it drains, hands back what is left, and a second signal is the end."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest

from flowfabric.core import contracts as c
from tests.worker_processes import worker_process
from tests.worker_tasks import endless, nap
from tests.working import Store, clean_store


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_what_runs_may_end_within_the_grace(store: Store, number: int) -> None:
    with worker_process(store.url) as worker:
        await worker.says("ready")
        execution_id = await store.submit(nap, 300)
        await store.until_state(execution_id, "active")
        worker.signal(number)
        assert await worker.exit_code() == 0
    assert await store.result(nap, execution_id) == 300
    assert (await store.backend.list_workers(c.ListWorkersArgs())).workers == ()


async def test_what_does_not_end_within_the_grace_goes_back_without_losing_an_attempt(store: Store) -> None:
    with worker_process(store.url, grace=0.05) as worker:
        await worker.says("ready")
        execution_id = await store.submit(endless)
        await worker.says("began")
        worker.signal(signal.SIGTERM)
        await worker.says("ended")
        assert await worker.exit_code() == 0
    assert (await store.snapshot(execution_id)).public_state == "waiting"
    with worker_process(store.url, grace=0) as other:
        await other.says("began")
    (attempt,) = await store.backend.list_attempts(execution_id)
    assert attempt.attempt_index == 0
    assert "resumed" in await store.events(execution_id)


async def test_a_second_signal_stops_at_once(store: Store) -> None:
    with worker_process(store.url, grace=3_600) as worker:
        await worker.says("ready")
        execution_id = await store.submit(endless)
        await worker.says("began")
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)
        await worker.says("ended")
        assert await worker.exit_code() == 0
    assert (await store.snapshot(execution_id)).public_state == "waiting", "it was handed back all the same"

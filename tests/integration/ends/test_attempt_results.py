"""A result that does not fit its annotation fails where it was made, once and for all, and names the field."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from flowfabric.core.policy import FixedBackoff, RetryPolicy
from flowfabric.worker import CallNext, Context, Worker
from tests.worker_tasks import returns_text
from tests.working import Store, clean_store

OFTEN = RetryPolicy(max_retries=5, backoff=FixedBackoff(delay_ms=10))


@dataclass
class Order:
    name: str
    prices: list[int]


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


def _on_the_loop(worker: Worker) -> Any:
    @worker.task(retry=OFTEN)
    async def wrong() -> Order:
        return Order("tea", [1, "two"])  # type: ignore[list-item]

    return wrong


def _in_a_thread(worker: Worker) -> Any:
    @worker.task(retry=OFTEN)
    def wrong() -> Order:
        return Order("tea", [1, "two"])  # type: ignore[list-item]

    return wrong


def _in_a_step(worker: Worker) -> Any:
    @worker.task(retry=OFTEN)
    async def wrong(ctx: Context) -> Order:
        return await ctx.step("wrong", lambda: {"name": "tea", "prices": [1, "two"]}, returns=Order)

    return wrong


CASES = [
    (_on_the_loop, "result of wrong.prices[1]"), (_in_a_thread, "result of wrong.prices[1]"),
    (_in_a_step, "result of step 'wrong'.prices[1]"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "field"), CASES)
async def test_a_result_that_does_not_fit_fails_without_a_retry(store: Store, made: Any, field: str) -> None:
    worker = Worker()
    wrong = made(worker)
    async with worker.working(store.backend):
        execution_id = await store.submit(wrong)
        assert await store.ended(execution_id) == "failed"
    snapshot = await store.snapshot(execution_id)
    assert (snapshot.failure_category, snapshot.total_attempt_count) == ("invalid_result", 1)
    assert f"{field}: Expected `int`, got `str`" in (snapshot.failure_reason or "")


async def test_a_process_refuses_it_too(store: Store) -> None:
    worker = Worker(processes=1)
    worker.add(returns_text, cpu=True)
    async with worker.working(store.backend):
        execution_id = await store.submit(returns_text)
        assert await store.ended(execution_id) == "failed"
    snapshot = await store.snapshot(execution_id)
    assert snapshot.failure_category == "invalid_result"
    assert "result of returns_text: Expected `int`, got `str`" in (snapshot.failure_reason or "")


async def test_what_middleware_makes_of_a_result_must_fit(store: Store) -> None:
    async def shout(_: Context, call_next: CallNext) -> str:
        return f"{await call_next()}!"

    worker = Worker(middleware=[shout])

    @worker.task
    async def count() -> int:
        return 3

    async with worker.working(store.backend):
        execution_id = await store.submit(count)
        assert await store.ended(execution_id) == "failed"
    snapshot = await store.snapshot(execution_id)
    assert (snapshot.failure_category, snapshot.failure_reason) == (
        "invalid_result", "invalid_input: result of count: Expected `int`, got `str` (got '\"3!\"')",
    )  # fmt: skip


async def test_a_plain_function_may_return_an_awaitable(store: Store) -> None:
    """Decorators that are not async make such functions of async ones."""
    worker = Worker()

    async def later() -> int:
        return 7

    @worker.task
    def wrapped() -> Any:
        return later()

    async with worker.working(store.backend):
        assert await store.result(wrapped, await store.submit(wrapped)) == 7

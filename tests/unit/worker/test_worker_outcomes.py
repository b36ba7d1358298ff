"""How an attempt ends by what its handler returns or raises."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.errors import Invalid, InvalidInput, StaleLease
from flowfabric.worker import Cancel, Fail, Retry, Snooze, Worker
from flowfabric.worker.attempts.outcomes import RemoteError, bounded, category_of, reason_of
from tests.worker_fakes import TTL_MS, FakeStore, settle, worked


async def ended(error: BaseException | None, value: object = None, **options: object) -> FakeStore:
    """What the store is told when a handler raises this, or returns that."""
    worker, store = Worker(**options), FakeStore()  # type: ignore[arg-type]

    @worker.task
    async def handler() -> object:
        if error is not None:
            raise error
        return value

    await worked(worker, store, handler)
    return store


async def failure_of(error: BaseException, **options: object) -> c.FailExecutionArgs:
    (args,) = (await ended(error, **options)).finished
    assert isinstance(args, c.FailExecutionArgs)
    return args


async def test_a_value_completes() -> None:
    (args,) = (await ended(None, {"pages": 3})).finished
    assert isinstance(args, c.CompleteExecutionArgs)
    assert (args.result_payload, args.result_encoding) == (b'{"pages":3}', "json")


async def test_nothing_is_a_value_too() -> None:
    (args,) = (await ended(None)).finished
    assert isinstance(args, c.CompleteExecutionArgs)
    assert args.result_payload == b"null"


async def test_an_exception_fails_with_its_type_and_message() -> None:
    args = await failure_of(ValueError("no such page"))
    assert (args.failure_reason, args.failure_category) == ("ValueError: no such page", "error")
    assert args.retry_policy_json is None, "the policy decides"


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (SystemExit(3), "exit"), (KeyboardInterrupt(), "exit"), (GeneratorExit(), "exit"),
        (asyncio.CancelledError(), "error"), (StopAsyncIteration(), "error"),
    ],
)  # fmt: skip
async def test_whatever_a_handler_raises_its_attempt_ends(error: BaseException, category: str) -> None:
    assert (await failure_of(error)).failure_category == category


async def test_a_time_out_that_the_handler_met_has_its_category() -> None:
    assert (await failure_of(TimeoutError())).failure_category == "timeout"


async def test_a_worker_can_name_the_categories_of_exceptions() -> None:
    categories = {OSError: "network", LookupError: "missing"}
    assert (await failure_of(ConnectionResetError(), categories=categories)).failure_category == "network"
    assert (await failure_of(KeyError("k"), categories=categories)).failure_category == "missing"
    assert (await failure_of(ValueError(), categories=categories)).failure_category == "error"


async def test_retry_asks_for_another_attempt_after_its_time() -> None:
    args = await failure_of(Retry("busy", after=2.5))
    assert (args.failure_reason, args.retry_delay_ms, args.retry_policy_json) == ("busy", 2_500, None)


async def test_retry_without_a_time_leaves_the_pause_to_the_policy() -> None:
    args = await failure_of(Retry())
    assert (args.failure_reason, args.retry_delay_ms) == ("Retry", None)


async def test_fail_names_its_category() -> None:
    args = await failure_of(Fail("too long", category="limits"))
    assert (args.failure_reason, args.failure_category, args.retry_policy_json) == ("too long", "limits", None)


async def test_fail_can_rule_retries_out() -> None:
    assert (await failure_of(Fail("never", retryable=False))).retry_policy_json == ""


async def test_cancel_cancels() -> None:
    store = await ended(Cancel("nobody wants it"))
    assert [args.reason for args in store.cancelled] == ["nobody wants it"]
    assert store.finished == []


async def test_snooze_until_a_moment() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    (args,) = (await ended(Snooze(until=moment))).delayed
    assert args.delay_until == moment.timestamp() * 1000


async def test_snooze_counts_by_the_clock_of_the_store() -> None:
    (args,) = (await ended(Snooze(for_=timedelta(hours=1)))).delayed
    claimed_at = 1_700_000_000_000  # what the fake store's lease began with
    assert 0 <= args.delay_until - claimed_at - 3_600_000 < TTL_MS


def test_snooze_needs_one_time() -> None:
    with pytest.raises(InvalidInput, match="either for_ or until"):
        Snooze()
    with pytest.raises(InvalidInput, match="either for_ or until"):
        Snooze(for_=1, until=datetime.now(UTC))


def test_times_are_checked_where_they_are_given() -> None:
    with pytest.raises(InvalidInput, match="after"):
        Retry(after=-1)
    with pytest.raises(InvalidInput, match="time zone"):
        Snooze(until=datetime(2030, 1, 1))
    with pytest.raises(InvalidInput, match="category"):
        Fail(category="")


async def test_a_payload_that_does_not_fit_fails_for_good() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def double(number: int) -> int:
        return 2 * number

    store.give(double, 3)
    store.queue[0] = replace(store.queue[0], input_payload=b'{"args":["three"]}')
    async with worker.working(store.port):
        while not store.finished:
            await settle()
    (args,) = store.finished
    assert isinstance(args, c.FailExecutionArgs)
    assert (args.failure_category, args.retry_policy_json) == ("invalid_payload", "")
    assert "number" in args.failure_reason


async def test_a_payload_in_another_encoding_fails_for_good() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler() -> None: ...

    store.give(handler)
    store.queue[0] = replace(store.queue[0], input_payload=b"\x80", payload_encoding="msgpack")
    async with worker.working(store.port):
        while not store.finished:
            await settle()
    (args,) = store.finished
    assert isinstance(args, c.FailExecutionArgs)
    assert "msgpack" in args.failure_reason


async def test_a_result_that_has_no_json_form_fails_for_good() -> None:
    args = (await ended(None, object())).finished[0]
    assert isinstance(args, c.FailExecutionArgs)
    assert (args.failure_category, args.retry_policy_json) == ("invalid_result", "")


async def test_a_result_that_the_store_refuses_becomes_a_failure() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler() -> str:
        return "x"

    store.refusal = Invalid("too much", code="payload_too_large")
    await worked(worker, store, handler)
    _, args = store.finished
    assert isinstance(args, c.FailExecutionArgs)
    assert args.failure_category == "invalid_result"
    assert worker.stats.failed == 1


async def test_an_end_that_comes_too_late_is_counted_as_lost() -> None:
    worker, store = Worker(), FakeStore()

    @worker.task
    async def handler() -> None: ...

    store.refusal = StaleLease()
    await worked(worker, store, handler)
    assert (worker.stats.lost, worker.stats.completed) == (1, 0)


def test_a_reason_fits_into_the_store() -> None:
    reason = reason_of(ValueError("ü" * 5_000 + "\0"))
    assert len(reason.encode()) <= limits.REASON_MAX_BYTES
    assert reason.startswith("ValueError: üü")
    assert bounded("a\0b\ud800") == "ab?"


def test_an_exception_without_a_message_has_a_reason() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert reason_of(KeyError()) == "KeyError"
    assert "str() of the exception failed" in reason_of(Mute())


def test_an_exception_of_another_process_is_found_by_its_name() -> None:
    error = RemoteError("ConnectionError: x", ["ConnectionError", "OSError", "Exception"], "error")
    assert reason_of(error) == "ConnectionError: x"
    assert category_of(error, {OSError: "network"}) == "network"
    assert category_of(error, {}) == "error"

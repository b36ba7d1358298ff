"""OpenTelemetry spans, linked from the submission through attempts, steps and signals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from flowfabric import Context, Fabric, Handle, RetryPolicy, Snooze, SyncFabric, Worker, tracing
from flowfabric.core import contracts as c
from flowfabric.core import limits
from flowfabric.core.conditions import Count, CountKind
from flowfabric.core.policy import FixedBackoff
from flowfabric.errors import FlowFabricError
from tests.tracing import Spans, id_of, parent_of, traced, traceparent
from tests.worker_tasks import cpu_worker, traced_by
from tests.working import Store, clean_store

PATIENCE = 30
VOTES = 12  # more than a claim tells of
ONCE_MORE = RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=1_000))

worker = Worker()


@worker.task
async def double(number: int) -> int:
    return 2 * number


@worker.task
def in_thread() -> str | None:
    return tracing.current_parent()


@worker.task(retry=ONCE_MORE)
async def shaky(ctx: Context) -> str:
    await ctx.step("prepare", str, 1)
    if ctx.attempt_index == 0:
        raise OSError("no route")
    return await ctx.step("send", str, 2)


@worker.task
async def patient(ctx: Context) -> str:
    await ctx.step("ask", str, 1)
    return (await ctx.wait_for_signal("answer", type=str)).payload


@worker.task
async def crowd(ctx: Context) -> None:
    await ctx.wait_for(Count(VOTES, CountKind.DISTINCT_SIGNALS, ("desk",)))


@worker.task
async def sleepy(ctx: Context) -> None:
    if not await ctx.step("slept", lambda: True):
        return
    raise Snooze("not now", for_=1)


@worker.task(timeout=0.05)
async def endless() -> None:
    await asyncio.Event().wait()


@worker.task
async def broken_step(ctx: Context) -> None:
    await ctx.step("divide", lambda: 1 // 0)


@worker.task
async def asks_first(ctx: Context) -> str:
    """By the time it waits, it was answered."""
    place = await ctx.waitpoint()
    await clients[0].signal(place.link("answer"), "early")
    return (await ctx.wait_for_signal("answer", type=str, at=place)).payload


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@worker.task
async def unspeakable(ctx: Context) -> None:
    await ctx.step("raise", raise_unspeakable)


def raise_unspeakable() -> None:
    raise Unspeakable


@worker.task
async def grows(ctx: Context) -> None:
    ctx.flow.add(double, 1)


@worker.task
async def delegate() -> str:
    """Submits as any handler may, with a client of its own."""
    handle = await clients[0].submit(double, 4)
    return str(handle.id)


clients: list[Fabric] = []


@pytest.fixture
async def store(embedded_url: str) -> AsyncIterator[Store]:
    async with clean_store(embedded_url) as opened:
        yield opened


@pytest.fixture
def fabric(store: Store) -> Iterator[Fabric]:
    clients[:] = [Fabric(store.backend)]
    yield clients[0]
    clients.clear()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with traced(monkeypatch) as opened:
        yield opened


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def until_suspended(store: Store, handle: Handle[Any]) -> None:
    await store.until_state(handle.id, "suspended")


async def test_an_attempt_is_a_child_of_the_submission(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        handle = await fabric.submit(double, 21)
        assert await handle.result(timeout=PATIENCE) == 42
    submit, run = spans.one("submit double"), spans.one("run double")
    assert (submit.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert parent_of(submit) is None
    assert parent_of(run) == id_of(submit)
    assert facts(submit) == {
        "flowfabric.task": "double",
        "flowfabric.lane": "default",
        "flowfabric.execution_id": handle.id.short,
        "flowfabric.outcome": "created",
    }
    assert facts(run) == {
        "flowfabric.task": "double",
        "flowfabric.lane": "default",
        "flowfabric.execution_id": handle.id.short,
        "flowfabric.attempt_index": 0,
        "flowfabric.outcome": "completed",
    }
    assert run.status.status_code is StatusCode.UNSET


async def test_what_is_submitted_by_others_begins_a_trace(store: Store, spans: Spans) -> None:
    async with worker.working(store.backend):
        await store.result(double, await store.submit(double, 1))
    assert parent_of(spans.one("run double")) is None


async def test_every_attempt_is_a_child_of_the_submission_and_steps_are_children_of_attempts(
    store: Store, fabric: Fabric, spans: Spans
) -> None:
    async with worker.working(store.backend):
        handle = await fabric.submit(shaky)
        await store.until_state(handle.id, "delayed")
        await store.pass_time(1_000)
        assert await handle.result(timeout=PATIENCE) == "2"
    submit = spans.one("submit shaky")
    failed, succeeded = spans.called("run shaky")
    assert parent_of(failed) == parent_of(succeeded) == id_of(submit)
    assert [facts(each)["flowfabric.attempt_index"] for each in (failed, succeeded)] == [0, 1]
    assert [facts(each)["flowfabric.outcome"] for each in (failed, succeeded)] == ["failed", "completed"]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "OSError: no route")
    assert [event.name for event in failed.events] == ["exception"]
    assert succeeded.status.status_code is StatusCode.UNSET
    assert parent_of(spans.one("step prepare")) == id_of(failed), "the second attempt reads the record"
    assert parent_of(spans.one("step send")) == id_of(succeeded)
    assert spans.one("step send").kind is SpanKind.INTERNAL


async def test_a_step_that_raises_is_a_failed_span(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        await (await fabric.submit(broken_step)).wait(timeout=PATIENCE)
    step, run = spans.one("step divide"), spans.one("run broken_step")
    assert step.status.status_code is run.status.status_code is StatusCode.ERROR
    assert [event.name for event in step.events] == ["exception"]
    assert parent_of(step) == id_of(run)


@pytest.mark.parametrize("way", ["handle", "link"])
async def test_the_pass_that_goes_on_is_linked_to_the_signal(
    store: Store, fabric: Fabric, spans: Spans, way: str
) -> None:
    async with worker.working(store.backend):
        handle = await fabric.submit(patient)
        await until_suspended(store, handle)
        if way == "handle":
            await handle.signal("answer", "yes")
        else:
            await fabric.signal(await handle.link("answer", base="https://flows.example"), "yes")
        assert await handle.result(timeout=PATIENCE) == "yes"
    submit, signal = spans.one("submit patient"), spans.one("signal answer")
    (told,) = (await store.backend.list_resume_signals(c.ListResumeSignalsArgs(execution_id=handle.id))).signals
    assert told.correlation_id == traceparent(signal)
    before, after = spans.called("run patient")
    assert signal.kind is SpanKind.PRODUCER
    assert parent_of(before) == parent_of(after) == id_of(submit)
    assert [facts(each)["flowfabric.outcome"] for each in (before, after)] == ["suspended", "completed"]
    assert before.links == ()
    assert [link.context.span_id for link in after.links] == [id_of(signal)]
    assert before.status.status_code is StatusCode.UNSET
    assert parent_of(spans.one("step ask")) == id_of(before)


async def test_an_attempt_that_does_not_have_to_wait_is_linked_to_the_signal(
    store: Store, fabric: Fabric, spans: Spans
) -> None:
    async with worker.working(store.backend):
        assert await (await fabric.submit(asks_first)).result(timeout=PATIENCE) == "early"
    run, signal = spans.one("run asks_first"), spans.one("signal answer")
    assert parent_of(signal) == id_of(run)
    assert [link.context.span_id for link in run.links] == [id_of(signal)]


async def test_a_pass_that_goes_on_with_many_signals_is_linked_to_all(
    store: Store, fabric: Fabric, spans: Spans
) -> None:
    async with worker.working(store.backend):
        handle = await fabric.submit(crowd)
        await until_suspended(store, handle)
        for number in range(VOTES):
            await handle.signal("vote", number)
        await handle.result(timeout=PATIENCE)
    links = spans.called("run crowd")[-1].links
    assert {link.context.span_id for link in links} == {id_of(each) for each in spans.called("signal vote")}


async def test_a_pass_that_snoozes_has_not_failed(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        handle = await fabric.submit(sleepy)
        await store.until_state(handle.id, "delayed")
        await handle.cancel()
    run = spans.one("run sleepy")
    assert facts(run)["flowfabric.outcome"] == "snoozed"
    assert run.status.status_code is StatusCode.UNSET


async def test_a_pass_that_takes_too_long_has_failed(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        await (await fabric.submit(endless)).wait(timeout=PATIENCE)
    run = spans.one("run endless")
    assert facts(run)["flowfabric.outcome"] == "timed_out"
    assert run.status.status_code is StatusCode.ERROR


async def test_what_a_handler_submits_is_a_child_of_its_attempt(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        inner = await (await fabric.submit(delegate)).result(timeout=PATIENCE)
        await fabric.handle(inner).result(timeout=PATIENCE)
    assert parent_of(spans.one("submit double")) == id_of(spans.one("run delegate"))
    assert parent_of(spans.one("run double")) == id_of(spans.one("submit double"))


async def test_threads_and_processes_work_in_the_span_of_their_attempt(
    store: Store, fabric: Fabric, spans: Spans
) -> None:
    async with worker.working(store.backend):
        in_a_thread = await (await fabric.submit(in_thread)).result(timeout=PATIENCE)
    async with cpu_worker.working(store.backend):
        in_a_process = await (await fabric.submit(traced_by)).result(timeout=PATIENCE)
    assert in_a_thread == traceparent(spans.one("run in_thread"))
    assert in_a_process == traceparent(spans.one("run traced_by"))


async def test_many_submissions_and_a_flow_are_one_span_each(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        for outcome in await fabric.submit_many(double, [(1,), (2,), (3,)]):
            assert not isinstance(outcome, FlowFabricError)
            await outcome.result(timeout=PATIENCE)
        async with fabric.flow("doubled") as flow:
            flow.add(double, flow.add(double, 1))
        await asyncio.wait_for(flow.handle.wait(), PATIENCE)
    many, graph = spans.one("submit double"), spans.one("submit doubled")
    assert facts(many)["flowfabric.count"] == 3
    assert facts(graph)["flowfabric.flow_id"] == str(flow.id)
    parents = [parent_of(run) for run in spans.called("run double")]
    assert parents == [id_of(many)] * 3 + [id_of(graph)] * 2


async def test_what_a_member_adds_to_its_flow_is_a_child_of_its_attempt(
    store: Store, fabric: Fabric, spans: Spans
) -> None:
    async with worker.working(store.backend):
        async with fabric.flow("growing") as flow:
            flow.add(grows)
        await asyncio.wait_for(flow.handle.wait(), PATIENCE)
    assert parent_of(spans.one("run double")) == id_of(spans.one("run grows"))


async def test_calls_of_several_tasks_are_one_span(fabric: Fabric, spans: Spans) -> None:
    await fabric.submit_many([double.call(1), in_thread.call()])
    assert facts(spans.one("submit many")) == {"flowfabric.count": 2}


async def test_a_client_without_a_loop_goes_on_with_the_trace_of_its_caller(store: Store, spans: Spans) -> None:
    def caller() -> str:
        with SyncFabric.connect(store.url) as sync, spans.provider.get_tracer("tests").start_as_current_span("page"):
            return str(sync.submit(double, 1).id)

    execution_id = await asyncio.to_thread(caller)
    submit = spans.one("submit double")
    assert parent_of(submit) == id_of(spans.one("page"))
    described = await Fabric(store.backend).handle(execution_id).describe()
    assert described.tags == {"flowfabric.traceparent": traceparent(submit)}


async def test_a_trace_that_the_caller_names_stays_and_a_full_set_of_tags_is_left_alone(
    store: Store, fabric: Fabric, spans: Spans
) -> None:
    named = {"flowfabric.traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    full = {f"team.tag{number}": "" for number in range(limits.MAX_TAGS)}
    for tags in (named, full):
        handle = await fabric.submit(double.with_options(tags=tags), 1)
        assert (await handle.describe()).tags == tags


async def test_an_attempt_is_run_when_its_span_cannot_be_made(store: Store, fabric: Fabric, spans: Spans) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if span.name.startswith("run"):
                raise RuntimeError("no memory")

    spans.provider.add_span_processor(Broken())
    async with worker.working(store.backend):
        assert await (await fabric.submit(double, 2)).result(timeout=PATIENCE) == 4


async def test_an_error_without_a_message_is_told_all_the_same(store: Store, fabric: Fabric, spans: Spans) -> None:
    async with worker.working(store.backend):
        assert await (await fabric.submit(unspeakable)).wait(timeout=PATIENCE) == "failed"
    assert spans.one("step raise").status.description == "Unspeakable"
    assert spans.one("run unspeakable").status.status_code is StatusCode.ERROR


async def test_the_sampler_of_the_submission_decides_for_the_whole_trace(
    store: Store, fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    with traced(monkeypatch, ALWAYS_OFF):
        handle = await fabric.submit(double, 1)
    with traced(monkeypatch) as spans:
        async with worker.working(store.backend):
            await handle.result(timeout=PATIENCE)
    assert spans.all == ()


async def test_nothing_is_written_when_tracing_is_switched_off(fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with traced(monkeypatch):
        assert not tracing.is_on()
        assert (await (await fabric.submit(double, 1)).describe()).tags == {}


async def test_without_a_provider_nothing_is_written(store: Store, fabric: Fabric) -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    async with worker.working(store.backend):
        handle = await fabric.submit(patient)
        await until_suspended(store, handle)
        await handle.signal("answer", "yes")
        await handle.result(timeout=PATIENCE)
    assert (await handle.describe()).tags == {}
    (signal,) = (await store.backend.list_resume_signals(c.ListResumeSignalsArgs(execution_id=handle.id))).signals
    assert signal.correlation_id is None

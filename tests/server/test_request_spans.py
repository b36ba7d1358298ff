"""Spans of requests, and traces that go on through a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from flowfabric import Context, Fabric, Worker
from flowfabric.testing import FabricKit
from tests.server.serving import serving
from tests.tracing import Spans, id_of, parent_of, traced

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

PATIENCE = 30
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

worker = Worker()


@worker.task
async def double(number: int) -> int:
    return 2 * number


@worker.task
async def patient(ctx: Context) -> str:
    return (await ctx.wait_for_signal("answer", type=str)).payload


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with traced(monkeypatch) as opened:
        yield opened


async def test_a_trace_of_any_client_goes_on_in_the_execution(fabric_kit: FabricKit, spans: Spans) -> None:
    async with serving(fabric_kit.backend) as server, worker.working(fabric_kit.backend):
        headers = {"traceparent": CALLER}
        answer = await server.http.post("/v1/executions", json={"task": "double", "args": [2]}, headers=headers)
        await fabric_kit.handle(answer.json()["execution_id"]).result(timeout=PATIENCE)
    request, run = spans.one("POST /v1/executions"), spans.one("run double")
    assert request.kind is SpanKind.SERVER
    assert parent_of(request) == int(CALLER.split("-")[2], 16)
    assert parent_of(run) == id_of(request)
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/executions",
        "http.response.status_code": 201,
    }


async def test_a_client_over_http_is_traced_as_any(fabric_kit: FabricKit, spans: Spans) -> None:
    async with (
        serving(fabric_kit.backend) as server,
        Fabric.connect(server.url) as fabric,
        worker.working(fabric.backend),
    ):
        handle = await fabric.submit(patient)
        await handle.signal("answer", "yes", wait=PATIENCE)
        assert await handle.result(timeout=PATIENCE) == "yes"
    submit, signal, runs = spans.one("submit patient"), spans.one("signal answer"), spans.called("run patient")
    assert {parent_of(run) for run in runs} == {id_of(submit)}
    assert [link.context.span_id for link in runs[-1].links] == [id_of(signal)]


async def test_a_refused_request_is_no_failure_of_the_server(fabric_kit: FabricKit, spans: Spans) -> None:
    async with serving(fabric_kit.backend) as server:
        await server.http.get("/v1/nothing")
    (request,) = spans.called("GET")
    assert request.status.status_code is StatusCode.UNSET

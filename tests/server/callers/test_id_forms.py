"""The API takes both forms of an id wherever one is given, and writes the short one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from flowfabric import Context, ExecutionId, Fabric, Worker
from flowfabric.backends.http.operations import OPERATIONS, Reach
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core.links import SignalLink
from tests.server.guarded import filled
from tests.server.serving import WITHIN_S, Served, serving

UNKNOWN = ExecutionId("{fp:1}:00000000-0000-4000-8000-000000000000")
FORMS = [UNKNOWN.short, str(UNKNOWN), quote(UNKNOWN, safe=""), quote(UNKNOWN)]


@pytest.fixture
def topology() -> str:
    return "embedded"


@pytest.fixture
async def server(backend: ValkeyBackend) -> AsyncIterator[Served]:
    async with serving(backend) as found:
        yield found


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.reach is Reach.EXECUTION], ids=repr)
async def test_an_address_is_the_same_in_every_form(server: Served, operation: object) -> None:
    told = set()
    for form in FORMS:
        path = filled(operation.path, execution_id=form)  # type: ignore[attr-defined]
        method = operation.method  # type: ignore[attr-defined]
        content = None if method == "GET" else b"{}"
        answer = await server.http.request(method, path, content=content, headers={"X-Request-Id": "same"})
        told.add((answer.status_code, answer.text))
        assert "{fp:" not in answer.text
    assert len(told) == 1


@pytest.mark.parametrize("form", ["short", "stored"])
async def test_bodies_and_queries_take_both_forms(server: Served, backend: ValkeyBackend, form: str) -> None:
    handle = await Fabric(backend).submit("anything")
    given = handle.id.short if form == "short" else str(handle.id)
    events = (await server.http.get("/v1/events", params={"execution_id": given})).json()["events"]
    assert {each["execution_id"] for each in events} == {handle.id.short}

    args = {
        "budget_id": "00000000-0000-4000-8000-000000000001",
        "dimensions": ["tokens"],
        "hard_limits": [5],
        "soft_limits": [0],
    }
    made = await server.http.post("/v1/budgets", json={**args, "scope_type": "execution", "scope_id": given})
    assert made.status_code == 200, made.text
    found = (await server.http.get(f"/v1/budgets/{args['budget_id']}")).json()
    assert found["scope_id"] == handle.id.short
    assert (await backend.get_budget_status(args["budget_id"])).scope_id == handle.id  # type: ignore[arg-type]


async def test_lists_and_streams_write_the_short_form(server: Served, backend: ValkeyBackend) -> None:
    handle = await Fabric(backend).submit("anything")
    for path in ("/v1/executions", "/v1/events", f"/v1/executions/{handle.id.short}/info"):
        text = (await server.http.get(path)).text
        assert handle.id.short in text
        assert "{fp:" not in text
    async with server.listen(f"/v1/executions/{handle.id.short}/events") as heard:
        first = await heard.next()
    assert first is not None
    assert first.data["execution_id"] == handle.id.short


async def test_a_link_has_the_short_form_and_the_old_one_works(server: Served, backend: ValkeyBackend) -> None:
    worker = Worker()

    @worker.task
    async def asks(ctx: Context) -> str:
        return (await ctx.wait_for_signal("go", type=str)).payload

    fabric = Fabric(backend)
    async with worker.working(backend):
        for written in (str, ExecutionId):
            handle = await fabric.submit(asks)
            while not (await handle.waitpoints()).entries:
                await anext(aiter(handle.events()))
            link = await handle.link("go", base=server.url)
            assert f"/v1/executions/{handle.id.short}/waitpoints/" in link
            if written is ExecutionId:
                link = link.replace(handle.id.short, quote(handle.id, safe=""))
            assert SignalLink.parse(link).execution_id == handle.id
            answer = await server.http.post(link, json="yes")
            assert answer.status_code == 200, answer.text
            assert await handle.result(timeout=WITHIN_S) == "yes"


async def test_logs_name_executions_by_the_short_form(backend: ValkeyBackend, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()

    @worker.task
    async def fails(ctx: Context) -> None:
        ctx.log.info("about to fail")
        raise ValueError("on purpose")

    caplog.set_level(logging.DEBUG)
    async with worker.working(backend):
        handle = await Fabric(backend).submit(fails)
        await handle.wait(timeout=WITHIN_S)
    assert handle.id.short in caplog.text
    assert "{fp:" not in "".join(each.getMessage() for each in caplog.records if each.name.startswith("flowfabric"))

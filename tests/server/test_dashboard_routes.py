"""What the dashboard is served as, and what it reads: its files, the overview, the inbox, and why nothing runs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from flowfabric import Context, Worker
from flowfabric.backends.http.operations import Scope
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_json
from flowfabric.server.access.tokens import new_token
from flowfabric.server.app import create_app
from flowfabric.server.reference.openapi import document
from flowfabric.server.routes.dashboard import assets
from flowfabric.server.routes.overview import Looks
from flowfabric.testing import FabricKit
from tests.server.serving import serving

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

READS = ("/v1/overview", "/v1/inbox")

worker = Worker()


@worker.task
async def ask(ctx: Context) -> None:
    await ctx.wait_for_signal("approval")


@worker.task
async def wait(ctx: Context) -> None:
    """Never runs here."""


async def test_the_page_and_all_that_it_names_are_served_with_their_types(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        page = await server.http.get("/")
        assert page.headers["content-type"].startswith("text/html")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "<style" not in page.text
        assert "onclick" not in page.text
        for path, asset in assets().items():
            answer = await server.http.get(f"/dashboard/{path}")
            assert answer.headers["content-type"] == asset.media_type
            assert f"dashboard/{path}" in page.text or path not in ("css/base.css", "js/main.js", "icon.svg")


async def test_a_browser_that_has_a_file_is_not_sent_it_again(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        first = await server.http.get("/dashboard/js/main.js")
        again = await server.http.get("/dashboard/js/main.js", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert first.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["../app.py", "%2e%2e/app.py", "js", "js/none.js", "/etc/passwd"])
async def test_nothing_else_is_served(path: str, fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        answer = await server.http.get(httpx.URL(f"{server.url}/dashboard/{path}"))
        assert answer.status_code == 404


async def test_the_overview_counts_workers_lanes_and_budgets(fabric_kit: FabricKit) -> None:
    await fabric_kit.submit(wait)
    await fabric_kit.budgets.create({"tokens": 10}, lane="default")
    async with serving(fabric_kit.backend) as server:
        found = (await server.http.get("/v1/overview")).json()
        assert [each["counts"] for each in found["samples"]] == [{"waiting": 1}]
        assert found["lanes"][0]["lane_id"] == "default"
        assert found["budgets"][0]["hard_limits"] == {"tokens": 10}
        newer = await server.http.get("/v1/overview", params={"since_ms": found["samples"][-1]["at_ms"] + 60_000})
        assert newer.json()["samples"] == []
        assert (await server.http.get("/v1/overview?since_ms=soon")).status_code == 422


async def test_however_many_look_the_store_is_looked_at_once_a_second(fabric_kit: FabricKit) -> None:
    now = 1_000.0
    looks = Looks(fabric_kit.backend, clock=lambda: now)
    for moment, samples in ((1_000.0, 1), (1_000.9, 1), (1_001.0, 2), (1_001.5, 2)):
        now = moment
        assert len((await looks.overview(0)).samples) == samples


async def test_the_inbox_names_the_waitpoints_and_not_their_tokens(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(ask)
    await fabric_kit.run_until_idle(worker)
    async with serving(fabric_kit.backend) as server:
        answer = await server.http.get("/v1/inbox")
        (entry,) = answer.json()["entries"]
        assert entry["execution"]["execution_id"] == handle.id.short
        assert entry["execution_kind"] == "ask"
        assert entry["questions"][0]["waitpoint"]["required_signal_names"] == ["approval"]
        assert "waitpoint_token" not in answer.text
        assert (await server.http.get("/v1/inbox?limit=1000")).status_code == 422


async def test_why_is_a_sentence(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(wait)
    async with serving(fabric_kit.backend) as server:
        found = (await server.http.get(f"/v1/executions/{handle.id}/why")).json()
        assert found["public_state"] == "waiting"
        assert "no live worker serves it" in found["sentence"]
        unknown = await server.http.get("/v1/executions/{fp:0}:00000000-0000-4000-8000-000000000000/why")
        assert unknown.status_code == 404


async def test_who_may_look(fabric_kit: FabricKit, tmp_path: Path) -> None:
    handle = await fabric_kit.submit(wait)
    reads = (*READS, f"/v1/executions/{handle.id}/why")
    texts = {}
    entries = []
    for name, scope, namespaces in (
        ("all", Scope.READ, ("*",)),
        ("other", Scope.READ, ("other",)),
        ("worker", Scope.WORK, ("*",)),
    ):
        texts[name], entry = new_token(name, [scope], namespaces)
        entries.append(entry)
    path = tmp_path / "tokens.json"
    path.write_bytes(to_json(entries))
    async with serving(fabric_kit.backend, tokens=str(path)) as server:

        async def statuses(token: str) -> list[int]:
            headers = {"Authorization": f"Bearer {token}"}
            return [(await server.http.get(each, headers=headers)).status_code for each in reads]

        assert await statuses("wrong") == [401, 401, 401]
        assert await statuses(texts["all"]) == [200, 200, 200]
        assert await statuses(texts["worker"]) == [403, 403, 403]
        assert await statuses(texts["other"]) == [403, 403, 404]
        assert (await server.http.get("/")).status_code == 200  # the page has no secrets, and asks for the token


async def test_the_document_describes_what_people_look_at(fabric_kit: FabricKit) -> None:
    paths = document(create_app(fabric_kit.backend).routes)["paths"]
    for path in (*READS, "/v1/executions/{execution_id}/why"):
        assert paths[path]["get"]["responses"]["200"]


async def test_an_entry_that_has_gone_on_since_it_was_listed_is_left_out(fabric_kit: FabricKit) -> None:
    handle = await fabric_kit.submit(ask)
    await fabric_kit.run_until_idle(worker)
    backend = fabric_kit.backend
    page = await backend.list_suspended(c.ListSuspendedArgs())
    await handle.cancel("gone")

    class Late(type(backend)):  # type: ignore[misc]
        async def list_suspended(self, args: c.ListSuspendedArgs) -> c.ListSuspendedPage:
            return page

    backend.__class__ = Late
    async with serving(backend) as server:
        assert (await server.http.get("/v1/inbox")).json()["entries"] == []

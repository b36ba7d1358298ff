"""/metrics: the store, the engine, budgets and HTTP in the text format of Prometheus."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx

from flowfabric import Context, RetryPolicy, Worker
from flowfabric.backends.http.operations import Scope
from flowfabric.core import contracts as c
from flowfabric.core.codec import to_json
from flowfabric.core.ids import BudgetId
from flowfabric.core.policy import FixedBackoff
from flowfabric.server.access.tokens import new_token
from flowfabric.server.http.listener import listening
from flowfabric.server.metrics.gauges import Happened, of_budgets, of_engine, of_lanes, of_workers
from flowfabric.server.metrics.registry import Family, Requests, Sample, text
from flowfabric.server.settings import ServerSettings
from flowfabric.testing import FabricKit
from tests.server.serving import Served, serving

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

LINE = re.compile(r'([a-z_]+)(\{([a-z_]+="(\\.|[^"\\])*",?)*\})? (-?[0-9.e+-]+|\+Inf)')
DASHBOARD = (Path(__file__).resolve().parents[2] / "docs" / "grafana" / "flowfabric.json").read_text()

worker = Worker()


@worker.task(retry=RetryPolicy(max_retries=1, backoff=FixedBackoff(delay_ms=0)))
async def shaky(ctx: Context) -> None:
    if ctx.attempt_index == 0:
        raise OSError("no route")


@worker.task
async def patient(ctx: Context) -> None:
    await ctx.wait_for_signal("go")


async def measured(server: Served) -> dict[str, float]:
    answer = await server.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            assert LINE.fullmatch(line), line
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


async def test_tell_what_waits_runs_and_happened(fabric_kit: FabricKit) -> None:
    async with serving(fabric_kit.backend) as server:
        before = await measured(server)
        assert before["flowfabric_events_passed_over_total"] == 0
        await fabric_kit.submit(shaky)
        await fabric_kit.submit(patient)
        await fabric_kit.advance(5)
        waiting = await measured(server)
        assert waiting['flowfabric_executions{lane="default",state="waiting"}'] == 2
        assert waiting['flowfabric_oldest_waiting_seconds{lane="default"}'] == 5
        await fabric_kit.run_until_idle(worker)
        found = await measured(server)
        assert found['flowfabric_executions{lane="default",state="suspended"}'] == 1
        assert found['flowfabric_executions{lane="default",state="completed"}'] == 1
        assert found['flowfabric_events_total{event="created"}'] == 2
        assert found['flowfabric_events_total{event="retry_scheduled"}'] == 1
        assert found["flowfabric_claim_latency_seconds_count"] >= 2
        assert (
            found['flowfabric_claim_latency_seconds_bucket{le="2.5"}'] < found["flowfabric_claim_latency_seconds_count"]
        )
        assert found['flowfabric_http_requests_total{operation="metrics",status="200"}'] == 2
        assert found["flowfabric_http_streams"] == 0


async def test_tell_how_budgets_are_used(fabric_kit: FabricKit) -> None:
    budget_id = BudgetId.new()
    await fabric_kit.backend.create_budget(
        c.CreateBudgetArgs(
            budget_id=budget_id,
            scope_type="lane",  # type: ignore[arg-type]
            scope_id='the "default"',
            dimensions=("tokens",),
            hard_limits=(100,),
            soft_limits=(80,),
        )
    )
    await fabric_kit.backend.record_spend(c.RecordSpendArgs(budget_id=budget_id, dimensions=("tokens",), deltas=(30,)))
    async with serving(fabric_kit.backend) as server:
        found = await measured(server)
    labels = f'{{budget="{budget_id}",scope="the \\"default\\"",dimension="tokens"}}'
    assert found[f"flowfabric_budget_used{labels}"] == 30
    assert found[f"flowfabric_budget_hard_limit{labels}"] == 100


async def test_tell_how_the_engine_beside_the_server_does(fabric_kit: FabricKit) -> None:
    await fabric_kit.apply_due()
    settings = ServerSettings(port=0)
    async with (
        listening(fabric_kit.backend, settings, engine=fabric_kit.engine) as url,
        httpx.AsyncClient(base_url=url) as http,
    ):
        found = await measured(Served(http, url))
    services = {each.name for each in fabric_kit.engine.status().services}
    assert {f'flowfabric_engine_runs_total{{service="{name}"}}' for name in services} <= found.keys()
    assert any(name.startswith("flowfabric_engine_lag_seconds") for name in found)


async def test_ask_for_a_token_that_may_read_everything(fabric_kit: FabricKit, tmp_path: Path) -> None:
    everywhere, first = new_token("prometheus", [Scope.READ])
    somewhere, second = new_token("tenant", [Scope.READ], ["tenant"])
    tokens = tmp_path / "tokens.json"
    tokens.write_bytes(to_json([first, second]))
    async with serving(fabric_kit.backend, tokens=str(tokens)) as server:
        headers = [{}, *({"Authorization": f"Bearer {each}"} for each in (somewhere, everywhere))]
        answers = [await server.http.get("/metrics", headers=each) for each in headers]
    assert [each.status_code for each in answers] == [401, 403, 200]


def test_values_are_escaped_as_the_format_says() -> None:
    family = Family("x", "gauge", "Help.", [Sample((("a", 'q"b\\s\nn'),), 1.5)])
    assert text([family]) == '# HELP x Help.\n# TYPE x gauge\nx{a="q\\"b\\\\s\\nn"} 1.5\n'


async def test_have_every_name_that_the_dashboard_asks_for(fabric_kit: FabricKit) -> None:
    board = json.loads(DASHBOARD)
    asked = {
        name.removesuffix("_bucket")
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"flowfabric_[a-z_]+", target["expr"])
    }
    engine = {family.name for family in of_engine(fabric_kit.engine)}
    others = {family.name for family in Requests().families()}
    of_store = [*await of_lanes(fabric_kit.backend), *await of_workers(fabric_kit.backend)]
    of_store += [*await of_budgets(fabric_kit.backend), *await Happened(fabric_kit.backend).families()]
    assert asked <= engine | others | {family.name for family in of_store} | {"flowfabric_http_streams"}

"""Passed limits of budgets where people look: the feed of events, /metrics, and only in one's own namespaces."""

from __future__ import annotations

from pathlib import Path

from flowfabric.backends.http.operations import Scope
from flowfabric.core.ids import BudgetId
from flowfabric.testing import FabricKit
from tests.server.guarded import OURS, THEIRS, TokenFile, guarded
from tests.server.serving import serving

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


async def test_they_are_in_the_feed_of_the_store_and_of_their_lane(fabric_kit: FabricKit) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, soft={"tokens": 5}, lane="agents")
    async with (
        serving(fabric_kit.backend) as server,
        server.listen("/v1/events/stream") as of_all,
        server.listen("/v1/events/stream", lane_id="agents", events='["budget_soft_breached"]') as of_lane,
    ):
        for each in (of_all, of_lane):
            await each.until("ready")
        await fabric_kit.budgets.record_spend(budget, {"tokens": 6})
        await fabric_kit.budgets.record_spend(budget, {"tokens": 5})
        seen = [event.data for event in [await of_all.next(), await of_all.next()] if event]
        assert [(each["event"], each["outcome"]) for each in seen] == [
            ("budget_soft_breached", "tokens 6 of 5"),
            ("budget_hard_breached", "tokens 11 of 10"),
        ]
        assert {(each["budget_id"], each["execution_id"]) for each in seen} == {(budget, None)}
        assert (await of_lane.until("event"))[0].data == seen[0]


async def test_they_are_counted(fabric_kit: FabricKit) -> None:
    budget = await fabric_kit.budgets.create({"tokens": 10}, soft={"tokens": 5})
    async with serving(fabric_kit.backend) as server:
        await server.http.get("/metrics")  # from the first question on
        await fabric_kit.budgets.record_spend(budget, {"tokens": 6})
        await fabric_kit.budgets.reset(budget)
        await fabric_kit.budgets.record_spend(budget, {"tokens": 11})
        told = (await server.http.get("/metrics")).text.splitlines()
    assert 'flowfabric_events_total{event="budget_soft_breached"} 2' in told
    assert 'flowfabric_events_total{event="budget_hard_breached"} 1' in told
    assert f'flowfabric_budget_soft_breaches_total{{budget="{budget}",scope=""}} 2' in told


async def test_a_token_reads_of_the_budgets_of_its_namespace(fabric_kit: FabricKit, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.add("reader", [Scope.READ], [OURS])
    made: dict[str, BudgetId] = {}
    for namespace in (OURS, THEIRS):
        made[namespace] = await fabric_kit.budgets.create({}, soft={"tokens": 1}, namespace=namespace)
        await fabric_kit.budgets.record_spend(made[namespace], {"tokens": 2})
    nobodys = await fabric_kit.budgets.create({}, soft={"tokens": 1})
    await fabric_kit.budgets.record_spend(nobodys, {"tokens": 2})
    async with guarded(fabric_kit.backend, tokens) as http:
        answer = await http.get("/v1/events", headers=tokens.headers("reader"))
        assert [each["budget_id"] for each in answer.json()["events"]] == [made[OURS]], answer.text

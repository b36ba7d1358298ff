"""Graphs that colour as they run, people who answer, lanes and budgets that are changed, and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from flowfabric import Fabric
from flowfabric.backends.http.operations import Scope
from flowfabric.core.codec import to_json
from flowfabric.core.states import PublicState
from flowfabric.server.access.tokens import new_token
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from tests.dashboard import rows
from tests.dashboard.pages import PHONE, Dashboard

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_graph_of_a_flow_colours_as_it_runs(dashboard: Dashboard, fabric: Fabric) -> None:
    async with fabric.flow("letters") as flow:
        topic = flow.add(rows.greet, "ada")
        flow.add(rows.write, topic)
    await dashboard.go("flows", flow.handle.id)
    await expect(dashboard.page.locator(".node.waiting, .node.waiting_children")).to_have_count(2)
    await expect(dashboard.page.locator(".edge")).to_have_count(1)
    async with rows.worker.working(fabric.backend):
        await expect(dashboard.page.locator(".node.completed")).to_have_count(1)
        await expect(dashboard.page.locator(".node.suspended")).to_have_count(1)
    await dashboard.page.get_by_label("Zoom in").click()
    assert await dashboard.faults() == []
    await dashboard.page.locator(".node.suspended").click()
    await expect(dashboard.page.locator("h1")).to_have_text("write")


async def test_on_a_phone_no_word_of_a_flow_runs_into_the_next(browser: Browser, address: str, fabric: Fabric) -> None:
    async with fabric.flow("letters") as flow:
        flow.add(rows.write, flow.add(rows.greet, "ada"))
    async with Dashboard.opened(browser, address, size=PHONE) as tab:
        await tab.go("flows", flow.handle.id)
        await expect(tab.page.locator("td .badge.waiting_children")).to_be_visible()
        wide = "cells => cells.filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"
        assert await tab.page.locator("td").evaluate_all(wide) == []


async def test_a_flow_is_cancelled(dashboard: Dashboard, fabric: Fabric) -> None:
    await rows.flows(fabric, 1)
    await dashboard.go("flows")
    await dashboard.rows("Flows").get_by_role("link").click()
    await dashboard.button("Cancel…").click()
    await dashboard.confirm("Cancel it")
    await expect(dashboard.page.locator("h1 + .badge")).to_have_text("cancelled")


async def test_an_execution_is_resumed_without_an_answer(dashboard: Dashboard, fabric: Fabric) -> None:
    await rows.waiting(fabric, 1)
    await dashboard.go("inbox")
    await dashboard.button("Resume…").click()
    await dashboard.confirm("Resume it")
    await expect(dashboard.page.locator(".empty")).to_be_visible()


async def test_a_lane_is_paused_limited_and_resumed(dashboard: Dashboard, fabric: Fabric) -> None:
    await rows.lanes(fabric, 1)
    await dashboard.go("lanes")
    await dashboard.button("Pause…").click()
    await dashboard.confirm("Pause it")
    await expect(dashboard.page.locator(".badge.paused")).to_be_visible()
    await dashboard.button("Limits…").click()
    await dashboard.page.get_by_label("Concurrent executions").fill("7")
    await dashboard.confirm("Set them")
    await expect(dashboard.rows("Lanes")).to_contain_text("7 at once")
    await dashboard.button("Resume").click()
    await expect(dashboard.page.locator(".badge.active")).to_be_visible()


async def test_a_budget_fills_is_raised_and_reset(dashboard: Dashboard, fabric: Fabric) -> None:
    budget = await fabric.budgets.create({"tokens": 1000}, lane="default")
    await dashboard.go("budgets")
    figure = dashboard.page.locator(".figure")
    await expect(figure).to_have_text("0 of 1,000")
    await fabric.budgets.report(budget, {"tokens": 900})
    await expect(figure).to_have_text("900 of 1,000")
    await dashboard.button("Raise…").click()
    await dashboard.page.get_by_role("spinbutton", name="tokens").fill("2000")
    await dashboard.confirm("Set them")
    await expect(figure).to_have_text("900 of 2,000")
    await dashboard.button("Reset…").click()
    await dashboard.confirm("Reset it")
    await expect(figure).to_have_text("0 of 2,000")


async def test_a_token_is_asked_for_once_and_kept_in_the_tab(browser: Browser, fabric: Fabric, tmp_path: Path) -> None:
    text, entry = new_token("ada", [Scope.READ])
    (tmp_path / "tokens.json").write_bytes(to_json([entry]))
    settings = ServerSettings(port=0, stop_grace_ms=0, tokens=str(tmp_path / "tokens.json"))
    handle = await fabric.submit(rows.greet, "ada")
    async with (
        listening(fabric.backend, settings) as address,
        Dashboard.opened(browser, address) as tab,
    ):
        await tab.page.goto(f"{address}/#/executions")
        await tab.page.get_by_label("Token", exact=True).fill(text)
        await tab.confirm("Sign in")
        await expect(tab.rows("Executions")).to_have_count(1)
        await tab.page.reload()
        await expect(tab.rows("Executions")).to_have_count(1)
        await tab.rows("Executions").get_by_role("link").click()
        await tab.button("Cancel…").click()
        await tab.confirm("Cancel it")
        await expect(tab.page.locator(".told.bad")).to_contain_text("lacks the scope operate")
    assert await handle.status() is PublicState.WAITING


async def test_the_keyboard_leads_everywhere(dashboard: Dashboard) -> None:
    await dashboard.go("")
    await dashboard.page.keyboard.type("ge")
    await expect(dashboard.page.locator("h1")).to_have_text("Executions")
    await dashboard.page.keyboard.press("/")
    await expect(dashboard.page.get_by_role("searchbox")).to_be_focused()
    await dashboard.page.get_by_role("searchbox").press("Escape")
    await dashboard.page.locator("body").press("Tab")
    await dashboard.page.evaluate("document.activeElement.blur()")
    await dashboard.page.keyboard.press("?")
    await expect(dashboard.page.get_by_role("dialog")).to_be_visible()
    await dashboard.page.keyboard.press("Escape")
    await expect(dashboard.page.get_by_role("dialog")).to_have_count(0)

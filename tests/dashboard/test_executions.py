"""Finding executions, one of them in full, and what an operator does with them."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from flowfabric import Fabric
from flowfabric.core.states import PublicState
from tests.dashboard import rows
from tests.dashboard.pages import Dashboard

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_new_execution_appears_by_itself(dashboard: Dashboard, fabric: Fabric) -> None:
    await dashboard.go("executions")
    await expect(dashboard.page.locator(".empty")).to_be_visible()
    await rows.executions(fabric, 1)
    await expect(dashboard.rows("Executions")).to_have_count(1)


async def test_the_overview_counts_as_it_happens(dashboard: Dashboard, fabric: Fabric) -> None:
    await rows.executions(fabric, 3)
    await dashboard.go("")
    await expect(dashboard.page.locator(".tile.waiting")).to_contain_text("3")
    async with rows.worker.working(fabric.backend):
        await expect(dashboard.page.locator(".tile.completed")).to_contain_text("3")


async def test_search_finds_kinds_tags_states_and_ids(dashboard: Dashboard, fabric: Fabric) -> None:
    await fabric.submit(rows.greet.with_options(tags={"shop.customer": "ada"}), "ada")
    handle = await fabric.submit(rows.write.with_options(lane="letters"), "tides")
    await dashboard.go("executions")
    search = dashboard.page.get_by_role("searchbox")
    for text, expected in (("write", 1), ("nothing", 0), ("shop.customer=ada", 1), ("", 2)):
        await search.fill(text)
        await search.press("Enter")
        await expect(dashboard.rows("Executions")).to_have_count(expected)
    await dashboard.page.get_by_label("Lane", exact=True).select_option("letters")
    await expect(dashboard.rows("Executions")).to_have_count(1)
    await dashboard.page.get_by_label("State", exact=True).select_option("failed")
    await expect(dashboard.rows("Executions")).to_have_count(0)
    await search.fill(str(handle.id))
    await search.press("Enter")
    await expect(dashboard.page.locator("h1")).to_have_text("write")


@pytest.mark.parametrize("form", ["short", "stored"])
async def test_search_finds_an_id_in_both_forms(dashboard: Dashboard, fabric: Fabric, form: str) -> None:
    handle = await fabric.submit(rows.greet, "ada")
    await dashboard.go("executions")
    search = dashboard.page.get_by_role("searchbox")
    await search.fill(handle.id.short if form == "short" else str(handle.id))
    await search.press("Enter")
    await expect(dashboard.page.locator("h1")).to_have_text("greet")
    await expect(dashboard.page.locator("body")).not_to_contain_text("{fp:")


@pytest.mark.parametrize(("name", "value"), [("Customer", "ada b"), ("a=b", "c"), ("size", " padded ")])
async def test_a_tag_leads_to_the_executions_that_have_it(
    dashboard: Dashboard, fabric: Fabric, name: str, value: str
) -> None:
    handle = await fabric.submit(rows.greet.with_options(tags={name: value}), "ada")
    await rows.executions(fabric, 2)
    await dashboard.go("executions", handle.id.short)
    await dashboard.page.locator("a.tag").click()
    await expect(dashboard.rows("Executions")).to_have_count(1)


async def test_many_are_cancelled_and_replayed_at_once(dashboard: Dashboard, fabric: Fabric) -> None:
    await rows.executions(fabric, 3)
    await dashboard.go("executions")
    await dashboard.page.get_by_label("Select this page").check()
    await dashboard.button("Cancel…").click()
    await dashboard.confirm("Cancel them")
    await expect(dashboard.page.locator(".badge.cancelled")).to_have_count(3)
    await dashboard.page.get_by_label("Select this page").check()
    await dashboard.button("Replay…").click()
    await dashboard.confirm("Replay them")
    await expect(dashboard.page.locator(".badge.waiting")).to_have_count(3)


async def test_an_execution_is_retried_or_replayed(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(rows.greet, "ada")
    await handle.cancel()
    await dashboard.go("executions", handle.id)
    await expect(dashboard.button("Replay…")).to_be_visible()
    await dashboard.button("Retry…").click()
    await expect(dashboard.page.get_by_role("dialog")).to_contain_text("Recorded steps are kept")
    await dashboard.confirm("Retry it")
    await expect(dashboard.page.locator(".heading .badge")).to_have_text("waiting")
    async with rows.worker.working(fabric.backend):
        await expect(dashboard.page.locator(".heading .badge")).to_have_text("completed")
    await expect(dashboard.button("Replay…")).to_be_visible()
    await expect(dashboard.button("Retry…")).to_have_count(0)


async def test_a_fork_leads_to_its_source(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(rows.greet, "ada")
    fork = await handle.fork(input=["grace"])
    await dashboard.go("executions", fork.id)
    source = dashboard.page.locator("dt", has_text="Forked from").locator("+ dd a")
    await expect(source).to_have_attribute("href", re.compile(handle.id.uuid))


async def test_an_execution_says_why_it_does_not_run(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(rows.greet, "ada")
    await dashboard.go("executions", handle.id)
    await expect(dashboard.page.locator(".why")).to_contain_text("no live worker serves it")
    assert await dashboard.faults() == []


async def test_an_execution_is_followed_to_its_result(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(rows.write, "tides")
    await dashboard.go("executions", handle.id)
    async with rows.worker.working(fabric.backend):
        await expect(dashboard.page.locator(".output")).to_contain_text("All about tides.")
        await dashboard.page.get_by_text("Send a payload…").click()
        await dashboard.page.get_by_label("Payload").fill('"fine"')
        await dashboard.button("Send").click()
        await expect(dashboard.page.locator(".payload", has_text="All about tides. fine")).to_be_visible()
    events = dashboard.page.locator(".timeline strong")
    for event in ("created", "claimed", "suspended", "woken", "completed"):
        await expect(events.filter(has_text=event).first).to_be_attached()
    await expect(dashboard.page.locator(".output")).to_have_text("All about tides.")
    await expect(dashboard.page.locator(".steps summary")).to_have_text("draft")
    assert await dashboard.faults() == []


async def test_cancelling_asks_first(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(rows.greet, "ada")
    await dashboard.go("executions", handle.id)
    await dashboard.button("Cancel…").click()
    await dashboard.confirm("Not now")
    assert await handle.status() is PublicState.WAITING
    await dashboard.button("Cancel…").click()
    await dashboard.page.get_by_label("Reason").fill("<b>no</b> longer needed")
    await dashboard.confirm("Cancel it")
    await expect(dashboard.page.locator("h1 + .badge")).to_have_text("cancelled")
    await expect(dashboard.button("Replay…")).to_be_visible()


async def test_an_unknown_execution_is_said_to_be_unknown(dashboard: Dashboard) -> None:
    await dashboard.go("executions", "{fp:1}:00000000-0000-4000-8000-000000000000")
    await expect(dashboard.page.get_by_role("alert")).to_be_visible()
    dashboard.complaints.clear()  # a browser tells of every 404

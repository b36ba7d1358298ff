"""Questions in the dashboard: the form of the declared type, one answer, and what came of it."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from flowfabric import Fabric, Handle
from tests.dashboard import rows
from tests.dashboard.pages import Dashboard

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def waiting(fabric: Fabric, task: object, topic: str = "tides") -> Handle[str]:
    handle: Handle[str] = await fabric.submit(task, topic)  # type: ignore[call-overload]
    async with rows.worker.working(fabric.backend):
        await rows.suspended(handle)
    return handle


async def ended(fabric: Fabric, handle: Handle[str]) -> str:
    async with rows.worker.working(fabric.backend):
        return await handle.result(timeout=20)


@pytest.mark.parametrize(("choice", "result"), [("Approve", "True fine"), ("Reject", "False fine")])
async def test_somebody_decides_in_the_inbox(choice: str, result: str, dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await waiting(fabric, rows.decide)
    await dashboard.go("inbox")
    await expect(dashboard.page.get_by_role("heading", name="Publish tides?")).to_be_visible()
    await expect(dashboard.page.get_by_text("Whether it may go out.")).to_be_visible()
    await dashboard.page.get_by_label("Reason").fill("fine")
    await dashboard.button(choice).click()
    await dashboard.confirm(choice)
    await expect(dashboard.page.locator(".told.good")).to_have_text("Delivered: the execution resumes.")
    await expect(dashboard.page.locator(".empty")).to_be_visible()
    assert await ended(fabric, handle) == result
    assert await dashboard.faults() == []


@pytest.mark.parametrize("view", ["inbox", "executions"])
async def test_the_form_of_the_declared_type_is_filled_in(view: str, dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await waiting(fabric, rows.review)
    await dashboard.go(view, str(handle.id) if view == "executions" else "")
    page = dashboard.page
    await expect(page.get_by_role("heading", name="How is tides?")).to_be_visible()
    for name in ("Approve", "Reject"):
        await expect(dashboard.button(name)).to_have_count(0)
    await page.get_by_label("Verdict").select_option("good")
    await page.get_by_label("Stars").fill("5")
    await page.get_by_label("Is final").select_option("Yes")
    assert await dashboard.faults() == []
    await dashboard.button("Send").click()
    await expect(page.locator(".told.good")).to_have_text("Delivered: the execution resumes.")
    assert await ended(fabric, handle) == "good 5 True None"


async def test_what_does_not_fit_is_told_and_stays_in_the_form(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await waiting(fabric, rows.review)
    await dashboard.go("inbox")
    page = dashboard.page
    await page.get_by_label("Verdict").select_option("bad")
    await page.get_by_label("Is final").select_option("No")
    await page.get_by_label("Stars").fill("1.5")
    await page.get_by_label("Stars").evaluate("input => { input.step = 'any'; }")  # or the browser refuses it
    await dashboard.button("Send").click()
    await expect(page.locator(".told.bad")).to_contain_text("Not delivered: payload.stars: must be a whole number")
    await expect(page.locator("form.answer .problem")).to_contain_text("stars")
    await expect(page.get_by_label("Stars")).to_have_value("1.5")
    assert await handle.status() == "suspended"
    await page.get_by_label("Stars").fill("2")
    await dashboard.button("Send").click()
    await expect(page.locator(".told.good")).to_be_visible()
    assert await ended(fabric, handle) == "bad 2 False None"
    dashboard.complaints.clear()  # the browser notes each refusal


async def test_a_machines_wait_asks_nobody_to_approve(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await waiting(fabric, rows.write)
    await dashboard.go("inbox")
    page = dashboard.page
    for name in ("Approve", "Reject", "Send"):
        await expect(dashboard.button(name)).to_have_count(0)
    await page.get_by_text("Send a payload…").click()
    await page.get_by_label("Payload").fill("{no json")
    await dashboard.button("Send").click()
    await expect(page.locator(".told.bad")).to_contain_text("must be JSON")
    await page.get_by_label("Payload").fill('"überall"')
    await dashboard.button("Send").click()
    await expect(page.locator(".told.good")).to_be_visible()
    assert await ended(fabric, handle) == "All about tides. überall"
    dashboard.complaints.clear()


async def test_an_answer_that_comes_too_late_says_so(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await waiting(fabric, rows.review)
    await dashboard.go("inbox")
    page = dashboard.page
    await page.get_by_label("Verdict").select_option("good")
    await page.get_by_label("Stars").fill("5")
    await page.get_by_label("Is final").select_option("Yes")
    # The tab hears of nothing while somebody else is faster.
    await page.route("**/v1/inbox*", lambda route: route.abort())
    await handle.signal("review", rows.Review("bad", 1, True))
    await dashboard.button("Send").click()
    await expect(page.locator(".told.bad")).to_have_text("Not delivered: it was already answered, or its time is up.")
    assert await ended(fabric, handle) == "bad 1 True None"
    dashboard.complaints.clear()


async def test_an_answer_to_an_ended_execution_says_so(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await waiting(fabric, rows.write)
    await dashboard.go("inbox")
    page = dashboard.page
    await page.get_by_text("Send a payload…").click()
    await page.route("**/v1/inbox*", lambda route: route.abort())
    await handle.cancel("enough")
    await dashboard.button("Send").click()
    await expect(page.locator(".told.bad")).to_have_text("Not delivered: the execution is cancelled and waits no more.")
    dashboard.complaints.clear()

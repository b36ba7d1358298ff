"""Why an attempt failed, and what its handler logged, on the page of the execution."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from flowfabric import Context, Fabric, Worker
from tests.dashboard.pages import Dashboard

pytestmark = pytest.mark.asyncio(loop_scope="session")

worker = Worker()


@worker.task(retry=0)
async def pay(ctx: Context, order: int) -> None:
    ctx.log.info("charging the card of order %d", order)
    ctx.log.warning("the bank is slow")
    error = ValueError("the card was declined")
    error.add_note(f"order {order}")
    raise error from ConnectionError("no route to the bank")


async def test_the_exception_of_an_attempt_is_told(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(pay, 42)
    async with worker.working(fabric.backend):
        await handle.wait(timeout=30)
    await dashboard.go("executions", handle.id)
    await dashboard.page.get_by_text("Traceback").click()
    told = dashboard.page.locator(".exception")
    for text in ("ValueError: the card was declined", "order 42", "caused by", "ConnectionError", "raise error from"):
        await expect(told).to_contain_text(text)
    assert await dashboard.faults() == []


async def test_logs_have_a_tab_and_a_filter_by_level(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit(pay, 42)
    await dashboard.go("executions", handle.id)
    await dashboard.page.get_by_role("tab", name="Logs").click()
    async with worker.working(fabric.backend):
        shown = dashboard.page.locator(".log li:visible")
        await expect(shown).to_have_count(2)
        await expect(shown.first).to_contain_text("charging the card of order 42")
        await dashboard.page.get_by_label("Level").select_option("30")
        await expect(shown).to_have_count(1)
        await expect(shown).to_contain_text("the bank is slow")
    assert await dashboard.faults() == []


async def test_work_whose_task_no_worker_has_is_marked_in_the_list(dashboard: Dashboard, fabric: Fabric) -> None:
    handle = await fabric.submit("nosuchtask", 1)
    async with worker.working(fabric.backend):
        await worker.idle()
        await dashboard.go("executions")
        says = "No live worker has the task nosuchtask; workers of lane default know: pay."
        await expect(dashboard.page.locator("main .problem")).to_have_text(says)
        await expect(dashboard.rows("Executions")).to_contain_text("no worker")
        await dashboard.go("executions", handle.id)
        await expect(dashboard.page.locator(".why")).to_contain_text("no live worker has the task `nosuchtask`")
        await dashboard.go("workers")
        await expect(dashboard.rows("Workers")).to_contain_text("pay")
    assert await dashboard.faults() == []

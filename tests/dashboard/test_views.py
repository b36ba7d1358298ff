"""Each view with no rows, with one and with many; what it says when it is empty; and whether everybody can use it."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from flowfabric import Fabric
from tests.dashboard import rows
from tests.dashboard.pages import PHONE, Dashboard
from tests.dashboard.rows import VIEWS

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANY = 110


@pytest.mark.parametrize("view", VIEWS)
async def test_an_empty_view_teaches_how_its_first_row_comes_about(view: str, dashboard: Dashboard) -> None:
    await dashboard.go(view)
    await expect(dashboard.page.locator(".empty pre")).to_be_visible()
    await expect(dashboard.page.locator(VIEWS[view][1])).to_have_count(0)


async def test_the_overview_of_an_empty_store_is_a_beginning(dashboard: Dashboard) -> None:
    await dashboard.go("")
    await expect(dashboard.page.get_by_text("flowfabric worker tasks")).to_be_visible()


@pytest.mark.parametrize("view", VIEWS)
async def test_one_row_is_one_row(view: str, dashboard: Dashboard, fabric: Fabric) -> None:
    make, row, _ = VIEWS[view]
    await make(fabric, 1)
    await dashboard.go(view)
    await expect(dashboard.page.locator(row)).to_have_count(1)
    assert await dashboard.faults() == []


@pytest.mark.parametrize("view", VIEWS)
async def test_many_rows_are_shown_page_by_page(view: str, dashboard: Dashboard, fabric: Fabric) -> None:
    make, row, seen = VIEWS[view]
    await make(fabric, MANY)
    await dashboard.go(view)
    await expect(dashboard.page.locator(row)).to_have_count(seen)


async def test_older_executions_are_on_the_next_page(dashboard: Dashboard, fabric: Fabric) -> None:
    await rows.executions(fabric, MANY)
    await dashboard.go("executions")
    await dashboard.button("Older").click()
    await expect(dashboard.rows("Executions")).to_have_count(MANY - 100)
    await dashboard.button("Newer").click()
    await expect(dashboard.rows("Executions")).to_have_count(100)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_a_phone_shows_everything_within_its_width(
    dark: bool, browser: Browser, address: str, fabric: Fabric
) -> None:
    for make, _, _ in VIEWS.values():
        await make(fabric, 2)
    async with Dashboard.opened(browser, address, size=PHONE, dark=dark) as phone:
        for view in ("", *VIEWS):
            await phone.go(view)
            await expect(phone.page.locator("main .card").first).to_be_visible()
            assert await phone.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], view
            assert await phone.faults() == [], view
        assert phone.complaints == []


async def test_a_budget_shows_its_name(dashboard: Dashboard, fabric: Fabric) -> None:
    await fabric.budgets.create({"tokens": 1000}, name="research", lane="agents")
    await dashboard.go("budgets")
    await expect(dashboard.page.get_by_text("research · lane agents")).to_be_visible()

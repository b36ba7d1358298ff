"""Take the pictures of the dashboard while the demo plays: `make pictures` writes them to docs/images."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser

from examples.demo.__main__ import TOKENS, draw, send_letters
from examples.demo.agents import LANE, worker
from flowfabric import Engine, Fabric, FlowHandle
from flowfabric.core import contracts as c
from flowfabric.server.http.listener import listening
from flowfabric.server.settings import ServerSettings
from tests.browsers import opened_browser

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
DESK, PHONE = (1280, 860), (390, 844)
SETTLE_MS = 2_500  # what is on the page has been read, and charts have some points
AT_MOST_S = 180


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[Fabric, str]]:
    """A store with an engine and a worker, and a server in front."""
    async with AsyncExitStack() as stack:
        fabric = await stack.enter_async_context(Fabric.connect("embedded://"))
        await stack.enter_async_context(Engine(fabric.backend))
        await stack.enter_async_context(worker.working(fabric.backend))
        url = await stack.enter_async_context(listening(fabric.backend, ServerSettings(port=0)))
        yield fabric, url


async def take(browser: Browser, url: str, name: str, *, dark: bool = False, size: tuple[int, int] = DESK) -> None:
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        device_scale_factor=1.5,
    )
    page = await context.new_page()
    await page.goto(url)
    await page.locator("main .card").first.wait_for()
    await page.wait_for_timeout(SETTLE_MS)
    await page.screenshot(path=IMAGES / f"{name}.png")
    await context.close()


async def member(handle: FlowHandle, kind: str) -> str:
    """The first member of a kind."""
    page = await handle.members()
    return next(each.execution_id for each in page.members if each.execution_kind == kind)


async def play(fabric: Fabric, url: str, browser: Browser) -> None:
    await fabric.budgets.create({"tokens": TOKENS}, soft={"tokens": TOKENS // 2}, lane=LANE)
    letters = asyncio.create_task(send_letters(fabric))
    async with fabric.flow("research") as flow:
        draw(flow, "tides")
    await take(browser, f"{url}/#/flows/{flow.handle.id}", "flow")
    await started(flow.handle, "write")
    await take(browser, f"{url}/#/executions/{await member(flow.handle, 'write')}", "execution")
    await suspended(fabric)
    await take(browser, f"{url}/#/inbox", "inbox")
    await take(browser, f"{url}/#/executions", "executions", dark=True)
    await take(browser, url, "overview")
    await take(browser, url, "overview-dark", dark=True)
    await take(browser, f"{url}/#/flows/{flow.handle.id}", "flow-phone", size=PHONE)
    letters.cancel()


async def started(handle: FlowHandle, kind: str) -> None:
    execution_id = await member(handle, kind)
    async for event in handle.events():
        if event.execution_id == execution_id and event.event == "claimed":
            return


async def suspended(fabric: Fabric) -> None:
    while not (await fabric.backend.list_suspended(c.ListSuspendedArgs())).entries:  # noqa: ASYNC110 - a script may
        await asyncio.sleep(0.2)


async def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    async with asyncio.timeout(AT_MOST_S), opened_browser() as browser, stage() as (fabric, url):
        assert browser is not None, "no browser starts: install Chromium"
        await play(fabric, url, browser)


if __name__ == "__main__":
    asyncio.run(main())

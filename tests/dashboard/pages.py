"""The dashboard as somebody uses it: going to views, and what is seen there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, expect

WAIT_MS = 10_000
PHONE = (390, 800)
DESK = (1280, 900)

expect.set_options(timeout=WAIT_MS)


class Dashboard:
    """One tab."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, browser: Browser, address: str, *, size: tuple[int, int] = DESK, dark: bool = False
    ) -> AsyncIterator[Dashboard]:
        context = await browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        try:
            yield cls(await context.new_page(), address)
        finally:
            await context.close()

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    async def go(self, view: str, identity: str = "") -> None:
        """To a view, or to what it shows one of."""
        await self.page.goto(f"{self.address}/#/{view}{'/' + quote(identity, safe='') if identity else ''}")
        await expect(self.page.locator("h1")).to_be_visible()

    def rows(self, name: str) -> Locator:
        """The rows of a table."""
        return self.page.get_by_role("region", name=name).locator("tbody tr")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    async def confirm(self, action: str) -> None:
        await self.page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()

    async def faults(self) -> list[str]:
        """What axe finds that keeps people out."""
        results = await Axe().run(self.page)
        return [
            f"{each['id']}: {each['help']} ({each['nodes'][0]['html']})"
            for each in results.response["violations"]
            if each["impact"] in ("serious", "critical")
        ]

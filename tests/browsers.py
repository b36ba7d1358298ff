"""The browser of tests and screenshots: the system's Chromium or Chrome, or playwright's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Error, Playwright, async_playwright

from tests.nodes import find_node

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LAUNCH_MS = 60_000


@asynccontextmanager
async def opened_browser() -> AsyncIterator[Browser | None]:
    """A browser that has started, or None where none does."""
    node = find_node()
    if node is None:  # which playwright runs on
        yield None
        return
    os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", node)  # noqa: TID251 - it is read there by playwright
    async with async_playwright() as playwright:
        browser = await _launch(playwright)
        yield browser
        if browser is not None:
            await browser.close()


async def _launch(playwright: Playwright) -> Browser | None:
    """The first that starts: a program that is there may lack its libraries."""
    found = [path for name in NAMES if (path := shutil.which(name))]
    for path in (*found, None):  # None is playwright's own
        try:
            return await playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-gpu"], timeout=LAUNCH_MS
            )
        except Error:
            continue
    return None

"""The browser of tests and screenshots: the system's Chromium or Chrome, or playwright's own."""

from __future__ import annotations

import shutil

from playwright.async_api import Browser, Error, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LAUNCH_MS = 60_000


async def launch(playwright: Playwright) -> Browser | None:
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

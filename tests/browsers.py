"""The browser of tests and screenshots: the system's Chromium."""

from __future__ import annotations

import shutil

from playwright.async_api import Browser, Playwright


async def launch(playwright: Playwright) -> Browser:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path, "Chromium is missing: apt-get install chromium"
    return await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])

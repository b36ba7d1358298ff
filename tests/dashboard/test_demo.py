"""`make demo` as somebody at a keyboard runs it: its address is printed, and its approval is given in the browser."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.dashboard.pages import Dashboard

ROOT = Path(__file__).resolve().parents[2]
FLOW = re.compile(r"(http://127\.0\.0\.1:\d+)/#/flows/(\S+)")
PLAYED_MS = 60_000  # the agents take their time to speak

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Demo:
    """The process, and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed = ""

    async def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            while not (found := pattern.search(self.printed)):
                line = await self.process.stdout.readline()
                assert line, f"it ended without {pattern.pattern!r}: {self.printed}"
                self.printed += line.decode()
        return found


@asynccontextmanager
async def playing() -> AsyncIterator[Demo]:
    """The demo at a terminal, so it waits for a person."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.demo", "--port", "0", "--speed", "4"),
        cwd=ROOT, stdin=theirs, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Demo(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        os.close(ours)


async def words_of(page: Page) -> int:
    return len((await page.get_by_role("log", name="Output").inner_text()).split())


async def test_the_demo_streams_spends_and_ends_when_it_is_approved_in_the_browser(browser: Browser) -> None:
    async with playing() as demo:
        address, flow_id = (await demo.wait_for(FLOW)).groups()
        async with Dashboard.opened(browser, address) as tab:
            page = tab.page
            await tab.go("flows", flow_id)
            await expect(page.locator("h1 + .badge")).to_have_text("running")
            await expect(page.locator(".node")).to_have_count(9)

            await page.locator(".node.active", has_text="search").last.click()
            await expect(page.locator("h1")).to_have_text("search")
            said = await words_of(page)
            await page.wait_for_function(
                "many => document.querySelector('.output').innerText.split(/\\s+/).length > many", arg=said + 5
            )

            await tab.go("budgets")
            figure = page.locator(".figure")
            spent = await figure.inner_text()
            await expect(figure).not_to_have_text(spent)
            await expect(figure).to_contain_text("of 1,000")

            await tab.go("inbox")
            await tab.button("Approve").click(timeout=PLAYED_MS)
            await tab.confirm("Approve")
            await expect(page.locator(".empty")).to_be_visible()
            await tab.go("flows", flow_id)
            await expect(page.locator("h1 + .badge")).to_have_text("completed")
            await expect(page.locator(".node.completed")).to_have_count(9)
            assert tab.complaints == []
        await demo.wait_for(re.compile("Published: A report of 5 findings"))
        await demo.wait_for(re.compile("stays until Ctrl-C"))
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.stdout is not None
        assert await demo.process.stdout.read() == b""
        assert await demo.process.wait() == 0

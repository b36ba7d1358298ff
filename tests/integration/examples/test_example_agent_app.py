"""The agent app survives a kill -9 of its worker before any line: the page shows the result, nothing is paid twice."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import httpx
from playwright.async_api import Page, expect

from examples.agent_app import agent
from examples.agent_app.serving import serving
from examples.agent_app.visitor import Visitor
from examples.agent_app.web import create_app
from flowfabric import Engine, Fabric, Handle
from flowfabric.core import contracts as c
from flowfabric.errors import Conflict
from tests.browsers import opened_browser
from tests.dying.agent_app_worker import HANDLER, MODEL_STEP, work
from tests.dying.fatal_lines import lines_of
from tests.integration.examples.test_examples import run
from tests.soaking import SOAK
from tests.suites import not_run

AT_ONCE = 4
DEADLINE_S = 240
QUESTION = "What do tides do?"
TOKENS = 24  # that the model says in one undisturbed run
LINES, STEP_LINES = lines_of(HANDLER), lines_of(MODEL_STEP)

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.dying.agent_app_worker"])


class Case(NamedTuple):
    """A question whose worker dies at a line, and what the visitor decides."""

    fatal_line: int
    approve: bool = True

    @property
    def lane(self) -> str:
        return f"line-{self.fatal_line}-{self.approve}"

    @property
    def is_in_step(self) -> bool:
        return self.fatal_line in STEP_LINES

    @property
    def deeds(self) -> Counter[str]:
        return Counter({"model": 2, "no route": 1, "search": 1, "send": int(self.approve)})


# Before every line of the handler; of the lines of a step and of a refusal, a few unless there is time.
CASES = [
    *map(Case, LINES),
    *(Case(line, approve=False) for line in (LINES if SOAK else LINES[-6:-3])),
    *map(Case, STEP_LINES if SOAK else STEP_LINES[-3:]),
]


def test_the_agent_app_runs_unattended() -> None:
    done = run("-m", "examples.agent_app", "--unattended", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert "Sent as letter 1." in done.stdout
    assert f"completed, for {TOKENS} tokens" in done.stdout


async def test_the_page_shows_the_result_wherever_the_worker_is_killed(tmp_path: Path) -> None:
    url, room = f"embedded://{tmp_path}", asyncio.Semaphore(AT_ONCE)
    killed_at: set[int] = set()

    async def one(case: Case) -> None:
        async with room:
            killed_at.update(await survive(fabric, url, case, tmp_path))

    async with Fabric.connect(url) as fabric, Engine(fabric.backend), asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*map(one, CASES))
    assert killed_at == {case.fatal_line for case in CASES}


async def survive(fabric: Fabric, url: str, case: Case, directory: Path) -> set[int]:
    """The line at which the worker died. Either way the page must be whole, and everything done once."""
    budget = await fabric.budgets.create({"tokens": 1_000}, lane=case.lane)
    async with visited(fabric, url, case, directory) as (address, mark, ledgers):
        async with httpx.AsyncClient(base_url=address) as http:
            visitor = Visitor(http, approve=case.approve)
            handle = fabric.handle(await visitor.ask(QUESTION), agent.answer)
            await visitor.watch(handle.id)
        answer = await handle.result()
    assert (visitor.text, visitor.state) == (answer.text, "completed"), case
    assert answer.text == text_of(case), case
    check_deeds(case, ledgers)
    status = await fabric.budgets.status(budget)
    assert status.usage["tokens"] == TOKENS or case.is_in_step, case
    assert not any(status.reserved.values()), case
    return {case.fatal_line} if mark.exists() else set()


def text_of(case: Case) -> str:
    """What one undisturbed run says."""
    plan, letter = words(f"a plan for {QUESTION}"), words(f"a letter about {QUESTION}, with 17 books")
    end = "Sent as letter 1." if case.approve else "Not sent."
    return f"You asked: {QUESTION}\n\nPlan: {plan}\n\nI found 17 books.\n\nDraft: {letter}\n\n{end}"


def words(prompt: str) -> str:
    return "".join(f"{agent.WORDS[(at * 7 + len(prompt)) % len(agent.WORDS)]} " for at in range(12))


def check_deeds(case: Case, ledgers: Path) -> None:
    (ledger,) = ledgers.iterdir()
    deeds = Counter(agent.notes(str(ledger)))
    if case.is_in_step:
        deeds["model"] = min(deeds["model"], 2)  # a step that was cut is run again
    assert deeds == case.deeds, case


async def test_the_text_in_a_browser_is_that_of_the_result(tmp_path: Path) -> None:
    url, case = f"embedded://{tmp_path}", Case(STEP_LINES[-2])
    async with opened_browser() as browser:
        if browser is None:
            not_run("no browser")
        async with Fabric.connect(url) as fabric, Engine(fabric.backend), asyncio.timeout(DEADLINE_S):
            await fabric.budgets.create({"tokens": 1_000}, lane=case.lane)
            async with visited(fabric, url, case, tmp_path) as (address, mark, _):
                handle = await ask_in(page := await browser.new_page(), fabric, address)
                await page.get_by_role("button", name="Approve").click()
                await expect(page.locator("#state")).to_have_text("completed")
                answer = await handle.result()
                assert await page.locator("#text").text_content() == answer.text == text_of(case)
                assert mark.exists()


async def ask_in(page: Page, fabric: Fabric, address: str) -> Handle[agent.Answer]:
    await page.goto(address)
    await page.get_by_label("Question").fill(QUESTION)
    async with page.expect_response("**/ask") as asked:
        await page.get_by_role("button", name="Ask").click()
    return fabric.handle((await (await asked.value).json())["id"], agent.answer)


@asynccontextmanager
async def visited(fabric: Fabric, url: str, case: Case, directory: Path) -> AsyncIterator[tuple[str, Path, Path]]:
    """The app and a worker of the case's lane: its address, the mark of the death, and the ledgers."""
    mark, ledgers = directory / f"{case.lane}.mark", directory / case.lane
    ledgers.mkdir()
    keeping = asyncio.create_task(replace_the_dead(fabric, url, case, mark))
    try:
        async with serving(create_app(fabric, ledgers, case.lane)) as address:
            yield address, mark, ledgers
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def replace_the_dead(fabric: Fabric, url: str, case: Case, mark: Path) -> None:
    """A worker is there; when it dies, its lease is revoked instead of waited for, and another takes its place."""
    while True:
        process: BaseProcess = processes.Process(
            target=work, args=(url, case.lane, case.fatal_line, str(mark)), daemon=True
        )
        process.start()
        try:
            await asyncio.to_thread(process.join)
        finally:
            process.kill()
        for each in (await fabric.list(lane=case.lane)).executions:
            with suppress(Conflict):  # it had suspended, and no lease any more
                await fabric.backend.revoke_lease(c.RevokeLeaseArgs(execution_id=each.execution_id, reason="killed"))

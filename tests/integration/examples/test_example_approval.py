"""The approval example runs unattended, and a kill -9 of its worker between any two lines doubles and loses nothing."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal, NamedTuple

from examples.approval import agent, people
from flowfabric import Engine, Fabric, Handle, open_backend
from flowfabric.core import contracts as c
from flowfabric.errors import Conflict
from tests.dying.approval_worker import AGENT, work
from tests.dying.fatal_lines import lines_of
from tests.integration.examples.test_examples import run

AT_ONCE = 6
DEADLINE_S = 120
AT_LEAST_S = 0.5  # the shortest deadline of a draft
PUBLISH, ESCALATE = (lines_of(code) for code in AGENT)

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.dying.approval_worker"])


class Case(NamedTuple):
    """A draft whose worker dies at a line, and who decides about it: the people, or the boss, who may drop it."""

    fatal_line: int
    ends: Literal["approved", "escalated", "dropped"]

    @property
    def lane(self) -> str:
        return f"line-{self.fatal_line}-{self.ends}"

    @property
    def in_time(self) -> bool:
        return self.ends == "approved"

    @property
    def outcome(self) -> agent.Outcome:
        if self.in_time:
            return agent.Outcome("published", ["ada", "linus"])
        return agent.Outcome("dropped" if self.ends == "dropped" else "published", ["boss"])

    @property
    def effects(self) -> Counter[tuple[str, str]]:
        asked = agent.PEOPLE if self.in_time else (*agent.PEOPLE, "boss")
        posts = [] if self.ends == "dropped" else [("post", "")]
        return Counter([("draft", ""), *(("mail", person) for person in asked), *posts])


CASES = [
    *(Case(line, "approved") for line in PUBLISH),
    *(Case(line, "escalated") for line in (*PUBLISH, *ESCALATE)),
    *(Case(line, "dropped") for line in ESCALATE),
]


def test_the_approval_example_runs_unattended() -> None:
    done = run("-m", "examples.approval")
    assert (done.returncode, done.stderr) == (0, "")
    assert "published, decided by ada and linus" in done.stdout
    assert "dropped, decided by boss" in done.stdout
    assert "done, each once: draft, mail to ada, mail to grace, mail to linus, post" in done.stdout


async def test_each_side_effect_happens_once_wherever_the_worker_is_killed(tmp_path: Path) -> None:
    url, room = f"embedded://{tmp_path}", asyncio.Semaphore(AT_ONCE)
    killed_at: set[int] = set()

    async def one(case: Case) -> None:
        async with room:
            if await survive(fabric, url, case, tmp_path):
                killed_at.add(case.fatal_line)

    async with Fabric.connect(url) as fabric, Engine(fabric.backend), asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*map(one, CASES))
    assert killed_at == {*PUBLISH, *ESCALATE}


async def survive(fabric: Fabric, url: str, case: Case, directory: Path) -> bool:
    """Whether a worker died; either way the draft must be published, and everything done once."""
    outbox, mark = str(directory / f"{case.lane}.jsonl"), directory / f"{case.lane}.mark"
    deadline = 3_600 if case.in_time else AT_LEAST_S
    task = agent.publish.with_options(lane=case.lane)
    handle = await fabric.submit(task, "tides", outbox, deadline)
    async with working(url, case, mark, handle) as deaths:
        await people.suspended(handle)
        if case.in_time:
            await people.approve(fabric, outbox, ["ada", "ada", "linus"])
        else:
            await people.suspended(handle, times=2)
            await people.decide(fabric, outbox, publish=case.ends == "escalated")
        outcome = await handle.result()
    assert outcome == case.outcome, case
    assert effects(outbox) == case.effects, case
    assert len(deaths) == mark.exists(), case
    return mark.exists()


def effects(outbox: str) -> Counter[tuple[str, str]]:
    return Counter((each["kind"], each.get("to", "")) for each in agent.notes(outbox))


@asynccontextmanager
async def working(url: str, case: Case, mark: Path, handle: Handle[Any]) -> AsyncIterator[list[BaseProcess]]:
    """A worker of the case's lane is there; when it dies, another takes its place. Yields the dead.

    The lease of the dead is revoked instead of waited for: it is long, so that no living worker loses its own.
    """
    deaths: list[BaseProcess] = []
    backend = await open_backend(url)

    async def replace_the_dead() -> None:
        while True:
            process = processes.Process(target=work, args=(url, case.lane, case.fatal_line, str(mark)), daemon=True)
            process.start()
            try:
                await asyncio.to_thread(process.join)
            finally:
                process.kill()
            deaths.append(process)
            with suppress(Conflict):  # it had suspended, and no lease any more
                await backend.revoke_lease(c.RevokeLeaseArgs(execution_id=handle.id, reason="killed"))

    keeping = asyncio.create_task(replace_the_dead())
    try:
        yield deaths
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await backend.close()

"""The research example runs unattended: twelve searches are enough, and the others are cancelled."""

from __future__ import annotations

import re
from collections import Counter

from examples.research_flow.__main__ import draw
from examples.research_flow.agents import ENOUGH, SEARCHES, Verdict, worker
from flowfabric.testing import FabricKit
from tests.integration.examples.test_examples import run

pytest_plugins = ["flowfabric.testing.pytest_plugin"]


def test_it_is_drawn_and_prints_what_was_written() -> None:
    done = run("-m", "examples.research_flow", "currents")
    assert done.returncode == 0, done.stderr
    *_, longest, written = done.stdout.splitlines()
    assert re.match(r"research \S+  completed  ", done.stdout)
    assert re.fullmatch(r"longest path: plan > search(-\d+)? > judge > write", longest)
    assert re.match(r"currents, from \d+ findings: what is known about currents, question \d+; ", written)


async def test_the_judge_is_given_enough_findings_and_the_rest_is_cancelled(fabric_kit: FabricKit) -> None:
    async with fabric_kit.flow("research") as flow:
        draw(flow, "tides")
    await fabric_kit.run_until_idle(worker)
    view = await flow.handle.view()
    searches = Counter(str(each.public_state) for each in view.members if each.execution_kind == "search")
    verdict = await flow.handle.node("judge").result()
    assert isinstance(verdict, Verdict)
    assert ENOUGH <= verdict.seen == searches["completed"] < SEARCHES
    assert searches["completed"] + searches["cancelled"] == SEARCHES
    assert view.tree().count("├─ search") == SEARCHES

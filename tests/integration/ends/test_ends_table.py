"""The tables of `docs/howto/when-things-fail.md`, row by row on a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flowfabric
from flowfabric import ExecutionEnded, Handle
from flowfabric.client.failures import _BY_STATE
from flowfabric.core import contracts as c
from flowfabric.core.ids import AttemptIndex
from flowfabric.core.states import PublicState
from flowfabric.testing import FabricKit
from tests.integration.ends.scenes import ROWS, Scene

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

PAGE = (Path(__file__).resolve().parents[3] / "docs/howto/when-things-fail.md").read_text()
OVER = {"completed", "failed", "cancelled", "expired", "skipped"}
PAUSES = {"retry_scheduled", "delayed", "requeued"}
TOKENS = {"used": 8, "reported": 3, "nothing": 0}
RETRIES = {"by policy": (1, 2), "never": (0, 1), "by another worker": (0, 2)}  # retries, attempts


def _table(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


ENDS = _table("The ends")
EXCEPTIONS = {state.strip("`"): name.strip("`") for state, name, _ in _table("What the caller gets")}


def test_every_row_of_the_page_is_driven_here() -> None:
    assert [row[0] for row in ENDS] == list(ROWS)


def test_the_page_has_every_state_and_its_exception() -> None:
    expected = {state.value: kind.__name__ for state, kind in _BY_STATE.items()}
    assert {state: name for state, name in EXCEPTIONS.items() if name != "none"} == expected
    assert EXCEPTIONS.keys() == OVER == {each.value for each in PublicState if each.value in OVER}


def test_each_exception_catches_its_own_state_only() -> None:
    kinds = [getattr(flowfabric, name) for name in EXCEPTIONS.values() if name != "none"]
    for kind in kinds:
        assert issubclass(kind, ExecutionEnded)
        assert [other for other in kinds if issubclass(other, kind)] == [kind]


@pytest.mark.parametrize("row", ENDS, ids=lambda row: row[0].replace("`", ""))
async def test_an_end_is_what_the_page_says(fabric_kit: FabricKit, row: list[str]) -> None:
    what, state, category, retried, budget, steps, stream = (cell.strip("`") for cell in row)
    scene = Scene(fabric_kit, ROWS[row[0]]())
    handle = await scene.submitted()
    await _until_over(scene, handle)
    snapshot = await handle.describe()
    assert (snapshot.public_state, snapshot.failure_category or "") == (state, category), what
    await _check_exception(handle, state)
    attempts = await _check_retries(handle, *RETRIES[retried])
    await fabric_kit.apply_due()  # the engine settles what an end owes to its budgets
    usage = (await fabric_kit.budgets.status(scene.budget)).usage
    assert usage.get("tokens", 0) == TOKENS[budget] * attempts
    assert ("pay" in await _steps(fabric_kit, handle)) == (steps == "kept")
    assert scene.paid == (steps == "kept"), "a step that was recorded is not run again"
    assert await _closed_because(fabric_kit, handle, max(attempts - 1, 0)) == stream
    if state in ("failed", "cancelled", "expired"):
        await handle.retry()
        assert ("pay" in await _steps(fabric_kit, handle)) == (steps == "kept")


async def _until_over(scene: Scene, handle: Handle[Any]) -> None:
    """Let the others act in each attempt, and the pause before the next one pass."""
    events = handle.events()
    while True:
        await scene.row.acts(scene)
        async for event in events:
            if event.event in OVER | PAUSES:
                break
        if event.event in OVER:
            return
        await scene.kit.advance(1)


async def _check_exception(handle: Handle[Any], state: str) -> None:
    if EXCEPTIONS[state] == "none":
        assert await handle.result() == 7
        return
    with pytest.raises(getattr(flowfabric, EXCEPTIONS[state])):
        await handle.result()


async def _check_retries(handle: Handle[Any], retries: int, attempts: int) -> int:
    events = [event.event for event in (await handle.history()).events]
    made = len(await handle.attempts())
    assert events.count("retry_scheduled") == retries
    assert made == (0 if events[-1] == "skipped" else attempts)
    return made


async def _steps(kit: FabricKit, handle: Handle[Any]) -> list[str]:
    return [each.name for each in (await kit.backend.read_steps(c.ReadStepsArgs(execution_id=handle.id))).steps]


async def _closed_because(kit: FabricKit, handle: Handle[Any], attempt: int) -> str:
    args = c.ReadFramesArgs(execution_id=handle.id, attempt_index=AttemptIndex(attempt))
    return str((await kit.backend.read_attempt_stream(args)).closed_reason)
